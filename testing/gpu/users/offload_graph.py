"""Activations kept in page-locked host memory: in eager mode by hooks, and in a CUDA graph."""
import sys

import torch
from torch import nn

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 60
torch.use_deterministic_algorithms(True, warn_only=True)
torch.manual_seed(0)
net = nn.Sequential(*[nn.Sequential(nn.Linear(512, 512), nn.GELU()) for _ in range(8)]).cuda()
x = torch.randn(256, 512, device="cuda")
runs = []
for offload in (False, True):
    torch.manual_seed(1)
    for layer in net.modules():
        if isinstance(layer, nn.Linear):
            layer.reset_parameters()
    optimizer = torch.optim.Adam(net.parameters(), 1e-4)
    losses = []
    for _ in range(steps):
        if offload:
            with torch.autograd.graph.save_on_cpu(pin_memory=True):
                loss = (net(x) - x).pow(2).mean()
        else:
            loss = (net(x) - x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    runs.append(losses)
    print("offload", offload, f"{losses[0]:.9g} {losses[-1]:.9g}")
print("alike", runs[0] == runs[1])

# A captured graph that copies each layer's output out and in again through the same host memory.
host = [torch.empty(256, 512, pin_memory=True) for _ in range(8)]
data, back = x.clone(), torch.empty_like(x)


def forth():
    h, total = data, torch.zeros((), device="cuda")
    for layer, kept in zip(net, host):
        h = layer(h)
        kept.copy_(h, non_blocking=True)
    for kept in reversed(host):
        back.copy_(kept, non_blocking=True)
        total = total + back.double().abs().mean().float()
    data.copy_(h / h.std() * 0.9 + data * 0.1)
    return total


with torch.no_grad():
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        forth()
    torch.cuda.current_stream().wait_stream(side)
    data.copy_(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        total = forth()
    for i in range(steps):
        graph.replay()
        if i % max(1, steps // 5) == 0:
            print("replay", i, f"{total.item():.9g}", f"{host[3].double().sum().item():.9g}")
