"""CuPy: arrays, kernels of one's own, libraries, streams, pinned and managed memory."""
import cupy as cp
import numpy as np

a = cp.arange(1 << 16, dtype=cp.float32).reshape(256, 256)
print("sum", float(a.sum()), float((a * 2 + 1).mean()))
k = cp.RawKernel(
    r'extern "C" __global__ void add(const float* x, const float* y, float* z, int n) {'
    r" int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) z[i] = x[i] + y[i]; }",
    "add",
)
z = cp.empty_like(a)
k((256,), (256,), (a, a, z, cp.int32(a.size)))
print("raw", bool((z == 2 * a).all()), k.num_regs > 0, k.max_threads_per_block)
m = cp.RawModule(
    code=r"__constant__ float c[4]; __device__ int total;"
    r' extern "C" __global__ void s(float* x) {'
    r' x[threadIdx.x] *= c[threadIdx.x % 4]; atomicAdd(&total, 1); }'
)
p = cp.ndarray(4, cp.float32, m.get_global("c"))
p[...] = cp.array([1, 2, 3, 4], dtype=cp.float32)
x = cp.ones(64, dtype=cp.float32)
m.get_function("s")((1,), (64,), (x,))
print("module", float(x.sum()), int(cp.ndarray(1, cp.int32, m.get_global("total"))[0]))
rng = np.random.default_rng(0)
h = rng.standard_normal((128, 128)).astype(np.float32)
d = cp.asarray(h)
print("matmul", float((d @ d).astype(cp.float64).sum()).hex())
print("fft", f"{float(cp.abs(cp.fft.fft2(d)).sum()):.3f}")
print("svd", f"{float(cp.linalg.svd(d, compute_uv=False).sum()):.3f}")
print("solve", bool(cp.allclose(d @ cp.linalg.solve(d, d), d, atol=1e-2)))
s = cp.cuda.Stream(non_blocking=True)
with s:
    y = cp.sin(d).sum()
s.synchronize()
print("stream", float(y).hex())
pinned = cp.cuda.alloc_pinned_memory(h.nbytes)
src = np.frombuffer(pinned, np.float32, h.size).reshape(h.shape)
src[...] = h
e = cp.empty_like(d)
e.set(src, stream=s)
s.synchronize()
print("pinned", bool((e == d).all()), np.array_equal(cp.asnumpy(e), h))
ev1, ev2 = cp.cuda.Event(), cp.cuda.Event()
ev1.record()
d @ d  # noqa: B018
ev2.record()
ev2.synchronize()
print("events", cp.cuda.get_elapsed_time(ev1, ev2) > 0)
print("sort", float(cp.sort(d.ravel())[1000]).hex(), int(cp.argmax(d)))
print(
    "reduce",
    float(
        cp.ReductionKernel("float32 x", "float32 y", "x * x", "a + b", "y = a", "0", "sq")(d)
    ).hex(),
)
print(
    "elementwise",
    float(
        cp.ElementwiseKernel("float32 x, float32 y", "float32 z", "z = x * y + 1", "f")(d, d).sum()
    ).hex(),
)
print("pool", cp.get_default_memory_pool().used_bytes() > 0, cp.cuda.runtime.memGetInfo()[1] > 0)
try:
    cp.cuda.compile_with_cache  # noqa: B018
except AttributeError:
    pass
try:
    cp.RawKernel("bad code", "f").compile()
except cp.cuda.compiler.CompileException:
    print("compile error raised")
