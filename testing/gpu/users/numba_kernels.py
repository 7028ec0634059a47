"""Numba: kernels in Python with shared memory, atomics, random numbers, streams and a reduction."""
import math
import sys

import numpy as np

# numba-cuda asks for a name that NumPy 2.5 dropped.
np.row_stack = getattr(np, "row_stack", np.vstack)

import numba
from numba import cuda
from numba.cuda.random import create_xoroshiro128p_states, xoroshiro128p_uniform_float32

repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 2000


@cuda.jit
def mandelbrot(out, limit):
    y, x = cuda.grid(2)
    if y < out.shape[0] and x < out.shape[1]:
        c = complex(-2.0 + 3.0 * x / out.shape[1], -1.0 + 2.0 * y / out.shape[0])
        z, n = 0j, 0
        while n < limit and z.real * z.real + z.imag * z.imag < 4.0:
            z = z * z + c
            n += 1
        out[y, x] = n


@cuda.jit
def product(a, b, c):
    one = cuda.shared.array((16, 16), numba.float32)
    two = cuda.shared.array((16, 16), numba.float32)
    x, y = cuda.grid(2)
    i, j = cuda.threadIdx.x, cuda.threadIdx.y
    total = numba.float32(0)
    for t in range(a.shape[1] // 16):
        one[i, j] = a[x, j + t * 16]
        two[i, j] = b[i + t * 16, y]
        cuda.syncthreads()
        for k in range(16):
            total += one[i, k] * two[k, j]
        cuda.syncthreads()
    c[x, y] = total


@cuda.jit
def histogram(data, bins):
    i = cuda.grid(1)
    if i < data.size:
        cuda.atomic.add(bins, int(data[i] * bins.size), 1)


@cuda.jit
def darts(states, hits):
    i = cuda.grid(1)
    count = 0
    for _ in range(1000):
        x = xoroshiro128p_uniform_float32(states, i)
        y = xoroshiro128p_uniform_float32(states, i)
        count += x * x + y * y < 1
    hits[i] = count


@cuda.jit
def heat(now, new):
    i, j = cuda.grid(2)
    if 0 < i < now.shape[0] - 1 and 0 < j < now.shape[1] - 1:
        around = now[i - 1, j] + now[i + 1, j] + now[i, j - 1] + now[i, j + 1]
        new[i, j] = 0.25 * around


@cuda.reduce
def largest(a, b):
    return max(a, b)


@numba.vectorize(["float64(float64, float64)"], target="cuda")
def mix(a, b):
    return math.sin(a) * b


image = cuda.device_array((1024, 1536), np.int32)
mandelbrot[(64, 96), (16, 16)](image, 500)
print("mandelbrot", int(image.copy_to_host().astype(np.int64).sum()))
random = np.random.default_rng(0)
a, b = (random.normal(size=(1024, 1024)).astype(np.float32) for _ in range(2))
c = cuda.device_array((1024, 1024), np.float32)
product[(64, 64), (16, 16)](cuda.to_device(a), cuda.to_device(b), c)
c = c.copy_to_host()
print("product", bool(np.abs(c - a @ b).max() < 1e-2), float(c.astype(np.float64).sum()).hex())
bins = cuda.to_device(np.zeros(16, np.int32))
histogram[4096, 256](cuda.to_device(random.random(1 << 20)), bins)
print("histogram", bins.copy_to_host().tolist())
states = create_xoroshiro128p_states(64 * 64, seed=1)
hits = cuda.device_array(64 * 64, np.int32)
darts[64, 64](states, hits)
print("darts", int(hits.copy_to_host().sum()), int(largest(hits)))
now = np.zeros((512, 512))
now[0] = 100
now = cuda.to_device(now)
new = cuda.to_device(now.copy_to_host())
for step in range(repeats):
    heat[(32, 32), (16, 16)](now, new)
    now, new = new, now
    if step % max(1, repeats // 4) == 0:
        print("heat", step, float(now.copy_to_host().sum()).hex())
streams = [cuda.stream() for _ in range(4)]
parts = [cuda.pinned_array(100000) for _ in range(4)]
for i, (stream, part) in enumerate(zip(streams, parts)):
    part[:] = np.arange(100000) + i
    there = cuda.to_device(part, stream=stream)
    mixed = mix(there, there, stream=stream)
    mixed.copy_to_host(part, stream=stream)
cuda.synchronize()
print("mixed", [f"{p.sum():.6f}" for p in parts])
