"""Numba: kernels, atomics, shared memory, streams."""
try:
    from numba import cuda, float32
except ImportError:
    print("skipped: no numba here")
    raise SystemExit from None
import numpy as np


@cuda.jit
def add(a, b, c):
    i = cuda.grid(1)
    if i < c.size:
        c[i] = a[i] + b[i]


@cuda.jit
def total(a, out):
    s = cuda.shared.array(256, float32)
    t = cuda.threadIdx.x
    s[t] = a[cuda.grid(1)]
    cuda.syncthreads()
    if t == 0:
        v = float32(0)
        for i in range(256):
            v += s[i]
        cuda.atomic.add(out, 0, v)


a = np.arange(1 << 14, dtype=np.float32)
c = np.zeros_like(a)
add[64, 256](a, a, c)
print("add", np.array_equal(c, 2 * a))
d = cuda.to_device(np.ones(1 << 14, np.float32))
o = cuda.to_device(np.zeros(1, np.float32))
total[64, 256](d, o)
print("total", o.copy_to_host()[0])
s = cuda.stream()
with cuda.pinned(a):
    x = cuda.to_device(a, stream=s)
    x.copy_to_host(c, stream=s)
    s.synchronize()
print("stream", np.array_equal(a, c))
