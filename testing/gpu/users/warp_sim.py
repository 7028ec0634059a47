"""NVIDIA Warp: particles and a mesh, gradients through a simulation, steps recorded as a graph."""
import sys

import numpy as np
import warp as wp

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 300
wp.config.quiet = True
wp.init()


@wp.kernel
def integrate(x: wp.array(dtype=wp.vec3), v: wp.array(dtype=wp.vec3), dt: float):
    i = wp.tid()
    v[i] = v[i] + wp.vec3(0.0, -9.8, 0.0) * dt
    x[i] = x[i] + v[i] * dt
    if x[i][1] < 0.0:
        x[i] = wp.vec3(x[i][0], 0.0, x[i][2])
        v[i] = wp.vec3(v[i][0], -0.5 * v[i][1], v[i][2])


@wp.kernel
def nearest(mesh: wp.uint64, x: wp.array(dtype=wp.vec3), far: wp.array(dtype=float)):
    i = wp.tid()
    found = wp.mesh_query_point(mesh, x[i], 100.0)
    if found.result:
        p = wp.mesh_eval_position(mesh, found.face, found.u, found.v)
        far[i] = wp.length(p - x[i])


@wp.kernel
def neighbours(grid: wp.uint64, x: wp.array(dtype=wp.vec3), count: wp.array(dtype=int)):
    i = wp.tid()
    n = int(0)
    for j in wp.hash_grid_query(grid, x[i], 0.1):
        if wp.length(x[i] - x[j]) < 0.1:
            n += 1
    count[i] = n


@wp.kernel
def spring(x: wp.array(dtype=float), k: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, k[0] * x[i] * x[i] + wp.sin(x[i] * k[0]))


random = np.random.default_rng(0)
n = 20000
x = wp.array(random.random((n, 3)), dtype=wp.vec3)
v = wp.zeros(n, dtype=wp.vec3)
wp.launch(integrate, n, [x, v, 1e-3])
with wp.ScopedCapture() as capture:
    for _ in range(10):
        wp.launch(integrate, n, [x, v, 1e-3])
for i in range(steps):
    wp.capture_launch(capture.graph)
    if i % max(1, steps // 4) == 0:
        print("fall", i, x.numpy().astype(np.float64).sum().hex())
grid = wp.HashGrid(64, 64, 64)
grid.build(x, 0.1)
count = wp.zeros(n, dtype=int)
wp.launch(neighbours, n, [grid.id, x, count])
print("neighbours", int(count.numpy().sum()))
corners = wp.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], dtype=wp.vec3)
faces = wp.array([0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3], dtype=int)
mesh = wp.Mesh(corners, faces)
far = wp.zeros(n, dtype=float)
wp.launch(nearest, n, [mesh.id, x, far])
print("mesh", far.numpy().astype(np.float64).sum().hex())
place = wp.array(random.random(1000), dtype=float, requires_grad=True)
k = wp.array([1.5], dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)
tape = wp.Tape()
with tape:
    wp.launch(spring, 1000, [place, k, loss])
tape.backward(loss)
print("gradient", f"{k.grad.numpy()[0]:.4g}", place.grad.numpy().astype(np.float64).sum().hex())
a = wp.array(random.random(10000), dtype=float)
keys = wp.array(random.integers(0, 1 << 30, 20000), dtype=int)
values = wp.array(np.arange(20000), dtype=int)
wp.utils.radix_sort_pairs(keys, values, 10000)
print("sorted", bool((np.diff(keys.numpy()[:10000]) >= 0).all()), int(values.numpy()[17]))
total = wp.zeros_like(a)
wp.utils.array_scan(a, total)
print("scan", f"{total.numpy()[-1]:.5g}", wp.utils.array_sum(a) > 0)
