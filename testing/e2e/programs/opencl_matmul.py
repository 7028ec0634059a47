"""Multiplies two matrices with pyopencl, and checks the product against numpy's."""

import sys

import numpy as np
import pyopencl as cl
import pyopencl.array as cla

N = int(sys.argv[1]) if len(sys.argv) > 1 else 512
SOURCE = """
kernel void matmul(global const float *a, global const float *b, global float *c, int n) {
    local float ta[16][16], tb[16][16];
    int x = get_global_id(0), y = get_global_id(1), lx = get_local_id(0), ly = get_local_id(1);
    float sum = 0;
    for (int t = 0; t < n; t += 16) {
        ta[ly][lx] = a[y * n + t + lx];
        tb[ly][lx] = b[(t + ly) * n + x];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int k = 0; k < 16; k++) sum += ta[ly][k] * tb[k][lx];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    c[y * n + x] = sum;
}
"""

context = cl.create_some_context(interactive=False)
queue = cl.CommandQueue(context)
rng = np.random.default_rng(0)
a, b = (rng.standard_normal((N, N), dtype=np.float32) for _ in range(2))
da, db = cla.to_device(queue, a), cla.to_device(queue, b)
dc = cla.empty(queue, (N, N), np.float32)
matmul = cl.Kernel(cl.Program(context, SOURCE).build(), "matmul")
for _ in range(4):
    matmul(queue, (N, N), (16, 16), da.data, db.data, dc.data, np.int32(N))
c = dc.get()
error = float(np.abs(c - a @ b).max())
total = float(cla.sum(dc * 2 + 1).get())
print(f"{N}x{N} product: trace {float(np.trace(c))!r}, 2c+1 sums to {total!r}")
print("agrees with numpy" if error < 1e-2 else f"is off by {error} from numpy")
sys.exit(error >= 1e-2)
