"""The first things anybody tries."""
import torch

x = torch.zeros(1).cuda()
print("zeros", x.item())
print("name", torch.cuda.get_device_name(0), torch.cuda.get_device_capability(0))
a = torch.arange(1 << 20, device="cuda", dtype=torch.float32)
print("sum", a.sum().item())
g = torch.Generator(device="cuda").manual_seed(1)
m = torch.randn(512, 512, device="cuda", generator=g)
print("matmul", (m @ m).double().sum().item().hex())
b = torch.randn(256, 256, device="cuda", generator=g, dtype=torch.bfloat16)
print("bf16", (b @ b).double().sum().item().hex())
c = torch.nn.functional.conv2d(
    torch.randn(8, 16, 32, 32, device="cuda", generator=g),
    torch.randn(32, 16, 3, 3, device="cuda", generator=g),
)
print("conv", c.double().sum().item().hex())
h = torch.randn(1000, 1000).pin_memory()
d = h.to("cuda", non_blocking=True)
back = torch.empty_like(h).pin_memory()
back.copy_(d, non_blocking=True)
torch.cuda.synchronize()
print("copies", torch.equal(h, back), torch.equal(h, d.cpu()))
try:
    torch.empty(1 << 45, device="cuda")
except torch.OutOfMemoryError:
    print("oom raised")
print("stats", torch.cuda.memory_allocated())
