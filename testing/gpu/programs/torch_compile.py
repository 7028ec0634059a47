"""torch.compile, default and with CUDA graphs."""
import torch
import torch.nn.functional as F


def f(x, w):
    return F.gelu(x @ w).softmax(-1).sum(0)


g = torch.Generator(device="cuda").manual_seed(0)
x, w = (torch.randn(256, 256, device="cuda", generator=g) for _ in range(2))
print("eager", f(x, w).double().abs().sum().item().hex())
c = torch.compile(f)
print("compiled", c(x, w).double().abs().sum().item().hex())
net = torch.nn.Sequential(
    *[m for _ in range(3) for m in (torch.nn.Linear(64, 64), torch.nn.ReLU())]
).cuda()
with torch.no_grad():
    for i, p in enumerate(net.parameters()):
        p.copy_(torch.sin(torch.arange(p.numel(), device="cuda").float() + i).view_as(p) * 0.2)
r = torch.compile(net, mode="reduce-overhead")
for i in range(5):
    torch.compiler.cudagraph_mark_step_begin()
    y = r(x[:, :64] + i)
    print("graphs", i, y.double().abs().sum().item().hex())
y.sum().backward()
print("grad", next(net.parameters()).grad.double().abs().sum().item().hex())
