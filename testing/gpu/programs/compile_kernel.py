"""PyTorch's own way to a kernel of CUDA source: compiled, loaded, launched. Plain output."""

import torch

SOURCE = """
extern "C" __global__ void scale(const float *a, float *b, float by, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) b[i] = a[i] * by;
}
"""
kernel = torch.cuda._compile_kernel(SOURCE, "scale")
a = torch.arange(1000, device="cuda", dtype=torch.float32)
b = torch.empty_like(a)
kernel(grid=(4, 1, 1), block=(256, 1, 1), args=[a, b, 2.5, 1000])
torch.cuda.synchronize()
print("sum", b.sum().item(), "equal", torch.equal(b, a * 2.5))
try:
    torch.cuda._compile_kernel("__global__ void broken( {", "broken")
except RuntimeError:
    print("what does not compile is an error")
