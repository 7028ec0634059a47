"""CuPy: sparse systems, transforms, dense algebra, random numbers and kernels of one's own."""
import sys

import cupy as cp
import cupyx.scipy.fft
import cupyx.scipy.ndimage
import cupyx.scipy.signal
import cupyx.scipy.sparse as sparse
import cupyx.scipy.sparse.linalg as solvers
import numpy as np

size = int(sys.argv[1]) if len(sys.argv) > 1 else 300
n = size * size
side, middle = cp.full(size - 1, -1.0), cp.full(size, 2.2)
line = sparse.diags([side, middle, side], [-1, 0, 1], format="csr")
eye = sparse.identity(size, format="csr")
matrix = (sparse.kron(line, eye) + sparse.kron(eye, line)).tocsr()
right = cp.asarray(np.random.default_rng(0).normal(size=n))
for name, solve in (("cg", solvers.cg), ("gmres", solvers.gmres)):
    x, status = solve(matrix, right, rtol=1e-8, maxiter=400)
    rest = cp.linalg.norm(matrix @ x - right) / cp.linalg.norm(right)
    print(name, status, bool(rest < 1e-6), f"{float(x[: size * 3].sum()):.4f}")
cp.random.seed(7)
values = solvers.eigsh(matrix, k=4, which="LA", return_eigenvectors=False)
print("eigenvalues", [f"{v:.3f}" for v in sorted(values.get().tolist())])

signal = cp.asarray(np.random.default_rng(1).normal(size=(64, 4096)))
spectrum = cupyx.scipy.fft.rfft(signal)
back = cupyx.scipy.fft.irfft(spectrum * (cp.arange(spectrum.shape[1]) < 200))
print("filtered", f"{float(back.std()):.7f}", f"{float(cp.abs(spectrum).max()):.6f}")
smooth = cupyx.scipy.ndimage.gaussian_filter(signal, 3)
print("smoothed", f"{float(smooth.std()):.8f}")
print("convolved", f"{float(cupyx.scipy.signal.fftconvolve(signal[0], signal[1]).std()):.6f}")

dense = cp.asarray(np.random.default_rng(2).normal(size=(700, 500)))
u, s, v = cp.linalg.svd(dense, full_matrices=False)
print("singular", f"{float(s[0]):.6f} {float(s[-1]):.6f}")
print("rebuilt", bool(cp.abs(u * s @ v - dense).max() < 1e-9))
q, r = cp.linalg.qr(dense)
print("qr", f"{float(cp.abs(cp.diag(r)).sum()):.5f}")

life = cp.RawKernel(
    r"""
extern "C" __global__ void life(const unsigned char *now, unsigned char *next, int n) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= n || y >= n) return;
    int around = 0;
    for (int dy = -1; dy <= 1; ++dy)
        for (int dx = -1; dx <= 1; ++dx)
            if (dx || dy) around += now[(y + dy + n) % n * n + (x + dx + n) % n];
    next[y * n + x] = around == 3 || (around == 2 && now[y * n + x]);
}""",
    "life",
)
field = cp.asarray(np.random.default_rng(3).integers(0, 2, (1024, 1024), dtype=np.uint8))
other = cp.empty_like(field)
for _ in range(size * 4):
    life((64, 64), (16, 16), (field, other, np.int32(1024)))
    field, other = other, field
print("alive", int(field.sum()))
energy = cp.ElementwiseKernel("float64 a, float64 b", "float64 c", "c = a * a + sin(b)", "energy")
total = cp.ReductionKernel("float64 x", "float64 y", "x", "a + b", "y = a", "0", "total")
print("kernels", f"{float(total(energy(signal[:32], signal[32:]))):.5f}")
cp.random.seed(7)
print("random", f"{float(cp.random.normal(size=1000000).mean()):.8f}")
order = cp.argsort(signal[0])
print("order", order[:8].tolist(), int(cp.searchsorted(signal[0][order], 0.5)))
