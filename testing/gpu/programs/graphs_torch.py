"""CUDA graphs as PyTorch uses them: capture, replay, pinned memory inside, torch.compile.

Checks itself and prints the same lines wherever it runs.
"""
import torch

torch.manual_seed(0)
dev = torch.device("cuda")

# A training step, captured once and replayed with new inputs.
net = torch.nn.Sequential(
    torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 8)
).to(dev)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
x = torch.randn(32, 64, device=dev)
y = torch.randn(32, 8, device=dev)
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        opt.zero_grad(set_to_none=True)
        torch.nn.functional.mse_loss(net(x), y).backward()
        opt.step()
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
opt.zero_grad(set_to_none=True)
with torch.cuda.graph(graph):
    loss = torch.nn.functional.mse_loss(net(x), y)
    loss.backward()
    opt.step()
losses = []
for _ in range(20):
    graph.replay()
    losses.append(loss.item())
assert losses[-1] < losses[0], losses
print("training step replayed: loss falls", losses[-1] < losses[0])

# Pinned memory as source and destination of captured copies: read anew at each replay.
src = torch.zeros(1 << 16).pin_memory()
dst = torch.zeros(1 << 16).pin_memory()
buf = torch.empty(1 << 16, device=dev)
graph2 = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph2):
    buf.copy_(src, non_blocking=True)
    buf.mul_(2)
    dst.copy_(buf, non_blocking=True)
for r in range(5):
    src.fill_(r)
    graph2.replay()
    torch.cuda.synchronize()
    assert bool((dst == 2 * r).all()), (r, dst[:4])
print("pinned copies replayed:", dst[0].item(), dst[-1].item())

# A wait inside a capture is refused, and the device is well afterwards.
try:
    with torch.cuda.graph(torch.cuda.CUDAGraph()):
        (buf + 1).sum().item()
    print("a wait was captured")
    raise SystemExit(1)
except RuntimeError as e:
    print("a wait is refused:", "captur" in str(e))
torch.cuda.synchronize()
assert torch.ones(4, device=dev).sum().item() == 4


@torch.compile(mode="reduce-overhead")
def step(a, b):
    return torch.relu(a @ b).sum(dim=1)


# Not random: a capture that failed leaves PyTorch's generator in the middle of it.
a = torch.linspace(-1, 1, 64 * 64, device=dev).reshape(64, 64)
b = a.t().contiguous()
want = torch.relu(a @ b).sum(dim=1)
for _ in range(5):
    got = step(a, b).clone()
assert torch.allclose(got, want, atol=1e-3)
print("reduce-overhead: equal")
