"""CuPy: k-means with Lloyd's steps, and a mixture of normals by expectation maximization."""
import sys

import cupy as cp
import numpy as np

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 400
random = np.random.default_rng(0)
centres = random.normal(size=(16, 8)) * 4
which = random.integers(0, 16, 200000)
points = cp.asarray((centres[which] + random.normal(size=(200000, 8))).astype(np.float32))
middle = points[:16].copy()
for step in range(steps):
    far = (points**2).sum(1)[:, None] - 2 * points @ middle.T + (middle**2).sum(1)[None]
    label = far.argmin(1)
    mine = (label[:, None] == cp.arange(16)[None]).astype(cp.float32)
    count = mine.sum(0)
    new = (mine.T @ points) / cp.maximum(count, 1)[:, None]
    moved = float(cp.abs(new - middle).max())
    middle = cp.where(count[:, None] > 0, new, middle)
    if step % max(1, steps // 5) == 0:
        print("step", step, f"moved {moved:.3f}")
print("sizes", sorted(cp.bincount(label, minlength=16).tolist()))

data = points[:50000].astype(cp.float64)
mean, spread, share = middle.astype(cp.float64), cp.ones(16) * 2.0, cp.ones(16) / 16
for _ in range(steps // 4):
    far = ((data[:, None] - mean[None]) ** 2).sum(-1)
    log = cp.log(share) - 4 * cp.log(2 * np.pi * spread) - far / (2 * spread)
    top = log.max(1, keepdims=True)
    likely = top[:, 0] + cp.log(cp.exp(log - top).sum(1))
    part = cp.exp(log - likely[:, None])
    weight = part.sum(0) + 1e-9
    mean = (part.T @ data) / weight[:, None]
    far = ((data[:, None] - mean[None]) ** 2).sum(-1)
    spread = (part * far).sum(0) / (8 * weight) + 1e-6
    share = weight / len(data)
print("likelihood", f"{float(likely.mean()):.6f}")
print("spread", [f"{v:.3f}" for v in sorted(spread.tolist())])
