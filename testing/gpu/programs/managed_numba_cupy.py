"""Managed and mapped arrays of CuPy and Numba. The same output natively and through Busbar."""

import cupy
import numpy
from numba import cuda


@cuda.jit
def triple(a):
    i = cuda.grid(1)
    if i < a.size:
        a[i] *= 3


cupy.cuda.set_allocator(cupy.cuda.MemoryPool(cupy.cuda.malloc_managed).malloc)
x = cupy.arange(1_000_000, dtype=cupy.float64)
x = (x * 2 + 1).sum()
print("cupy, managed", float(x))
y = cupy.random.RandomState(1).permutation(5000)
print("sorted", bool((cupy.sort(y) == cupy.arange(5000)).all()))

m = cuda.managed_array(200_000, dtype=numpy.int64)
m[:] = numpy.arange(m.size)
triple[(m.size + 255) // 256, 256](m)
cuda.synchronize()
print("numba, managed", int(m[7]), int(m.sum()))
m[7] = 1
triple[(m.size + 255) // 256, 256](m)
cuda.synchronize()
print("again", int(m[7]), int(m[8]))

p = cuda.mapped_array(5000, dtype=numpy.int32)
p[:] = numpy.arange(p.size)
triple[20, 256](p)
cuda.synchronize()
print("numba, mapped", int(p[4999]), int(p.sum()))
