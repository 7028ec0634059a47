"""A loader thread, page-locked buffers and a stream of copies feed a network ahead of its steps."""
import queue
import sys
import threading

import torch
import torchvision
from torch import nn

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 150
torch.use_deterministic_algorithms(True, warn_only=True)
torch.manual_seed(0)
shape = (32, 3, 96, 96)
buffers = [torch.empty(shape, dtype=torch.uint8, pin_memory=True) for _ in range(4)]
labels = [torch.empty(32, dtype=torch.long, pin_memory=True) for _ in range(4)]
free, full = queue.Queue(), queue.Queue()
for i in range(4):
    free.put((i, None))


def load():
    """Fills buffers that their last copy has left."""
    g = torch.Generator().manual_seed(1)
    for _ in range(steps):
        i, copied = free.get()
        if copied:
            copied.synchronize()
        torch.randint(0, 10, (32,), generator=g, out=labels[i])
        torch.randint(0, 128, shape, generator=g, out=buffers[i])
        buffers[i] += (labels[i] * 12).to(torch.uint8).view(-1, 1, 1, 1)
        full.put(i)
    full.put(None)


def ahead(stream):
    """Batches on the GPU, each copied while the one before is in use."""
    def fetch():
        i = full.get()
        if i is None:
            return None
        with torch.cuda.stream(stream):
            x = buffers[i].cuda(non_blocking=True)
            y = labels[i].cuda(non_blocking=True)
            copied = torch.cuda.Event()
            copied.record(stream)
            x = x.float().div_(255)
        free.put((i, copied))
        return x, y

    batch = fetch()
    while batch:
        torch.cuda.current_stream().wait_stream(stream)
        for t in batch:
            t.record_stream(torch.cuda.current_stream())
        following = fetch()
        yield batch
        batch = following


threading.Thread(target=load, daemon=True).start()
net = torchvision.models.resnet18(weights=None, num_classes=10).cuda()
net = net.to(memory_format=torch.channels_last)
optimizer = torch.optim.SGD(net.parameters(), 0.02, momentum=0.9)
kept = torch.empty(steps, pin_memory=True)
begun = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
begun[0].record()
for step, (x, y) in enumerate(ahead(torch.cuda.Stream())):
    with torch.autocast("cuda", torch.bfloat16):
        loss = nn.functional.cross_entropy(net(x.to(memory_format=torch.channels_last)), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    kept[step].copy_(loss.detach(), non_blocking=True)
begun[1].record()
begun[1].synchronize()
print("took time", begun[0].elapsed_time(begun[1]) > 0)
for step in range(0, steps, max(1, steps // 8)):
    print("step", step, f"loss {kept[step].item():.7g}")
