"""Triton: a fused softmax and a matmul through TMA descriptors."""
import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(out, x, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    o = tl.arange(0, BLOCK)
    v = tl.load(x + row * n + o, mask=o < n, other=-float("inf"))
    v = tl.exp(v - tl.max(v, 0))
    tl.store(out + row * n + o, v / tl.sum(v, 0), mask=o < n)


@triton.jit
def matmul_kernel(a, b, c, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, B: tl.constexpr):
    da = tl.make_tensor_descriptor(a, [M, K], [K, 1], [B, B])
    db = tl.make_tensor_descriptor(b, [K, N], [N, 1], [B, B])
    dc = tl.make_tensor_descriptor(c, [M, N], [N, 1], [B, B])
    i, j = tl.program_id(0) * B, tl.program_id(1) * B
    acc = tl.zeros((B, B), tl.float32)
    for k in range(0, K, B):
        acc = tl.dot(da.load([i, k]), db.load([k, j]), acc)
    dc.store([i, j], acc.to(tl.float16))


g = torch.Generator(device="cuda").manual_seed(0)
x = torch.randn(128, 781, device="cuda", generator=g)
y = torch.empty_like(x)
softmax_kernel[(128,)](y, x, 781, BLOCK=1024)
print("softmax", torch.allclose(y, x.softmax(1)), y.double().sum().item().hex())
triton.set_allocator(lambda size, align, stream: torch.empty(size, dtype=torch.int8, device="cuda"))
a, b = (torch.randn(256, 256, device="cuda", generator=g, dtype=torch.float16) for _ in range(2))
c = torch.empty(256, 256, device="cuda", dtype=torch.float16)
matmul_kernel[(4, 4)](a, b, c, 256, 256, 256, B=64)
print("matmul", torch.allclose(c, a @ b, atol=1e-1), c.double().abs().sum().item().hex())
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def copy_kernel(src, dst, B: tl.constexpr):
    i = tl.program_id(0) * B
    dst.store([i, 0], src.load([i, 0]))


d = torch.empty_like(a)
copy_kernel[(4,)](
    TensorDescriptor.from_tensor(a, [64, 64]), TensorDescriptor.from_tensor(d, [64, 64]), B=64
)
print("host descriptors", torch.equal(a[:, :64], d[:, :64]))
