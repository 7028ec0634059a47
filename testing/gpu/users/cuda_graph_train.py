"""CUDA graphs: a whole training step captured once and replayed, and a part made a graph."""
import sys

import torch
from torch import nn

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 1500
torch.use_deterministic_algorithms(True, warn_only=True)
torch.manual_seed(0)


def network():
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, 2), nn.BatchNorm2d(32), nn.ReLU(),
        nn.Conv2d(32, 64, 3, 2), nn.BatchNorm2d(64), nn.ReLU(),
        nn.Flatten(), nn.Dropout(0.1), nn.LazyLinear(256), nn.ReLU(), nn.Linear(256, 10),
    ).cuda()


g = torch.Generator().manual_seed(1)
images = torch.rand(2048, 3, 32, 32, generator=g).pin_memory()
labels = (images.mean((1, 2, 3)) * 2000).long() % 10
net = network()
x, y = images[:64].cuda(), labels[:64].cuda()
net(x)
optimizer = torch.optim.AdamW(net.parameters(), 1e-3, capturable=True)
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        optimizer.zero_grad(set_to_none=True)
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
optimizer.zero_grad(set_to_none=True)
with torch.cuda.graph(graph):
    loss = nn.functional.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
total = torch.zeros((), device="cuda")
for step in range(steps):
    at = step * 64 % 2048
    x.copy_(images[at:at + 64], non_blocking=True)
    y.copy_(labels[at:at + 64], non_blocking=True)
    graph.replay()
    total += loss.detach()
    if (step + 1) % max(1, steps // 5) == 0:
        print("step", step + 1, f"loss {loss.item():.7g} total {total.item():.7g}")

torch.manual_seed(2)
part = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64)).cuda()
head = nn.Linear(64, 1).cuda()
part = torch.cuda.make_graphed_callables(part, (torch.randn(32, 64, device="cuda"),))
optimizer = torch.optim.SGD([*part.parameters(), *head.parameters()], 0.05, momentum=0.9)
for _ in range(steps // 2):
    data = torch.randn(32, 64, device="cuda")
    error = ((head(part(data)) - data.sum(1, keepdim=True) / 8) ** 2).mean()
    optimizer.zero_grad()
    error.backward()
    optimizer.step()
print("part", f"{error.item():.7g}")
