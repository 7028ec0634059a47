"""Trains a small residual network with tinygrad on generated images: STEPS [BATCH [WIDTH]].

Prints a line for each step: its number and the loss with all its digits; `#` lines are for people.
"""

import sys
import time

import numpy as np
from tinygrad import Tensor, nn
from tinygrad.nn.optim import SGD

STEPS, BATCH, WIDTH = (int(a) for a in (sys.argv[1:] + ["10", "16", "8"][len(sys.argv) - 1:]))


class Block:
    """Two convolutions beside a shortcut."""

    def __init__(self, inner, outer, stride):
        self.c1 = nn.Conv2d(inner, outer, 3, stride=stride, padding=1, bias=False)
        self.b1 = nn.BatchNorm(outer)
        self.c2 = nn.Conv2d(outer, outer, 3, padding=1, bias=False)
        self.b2 = nn.BatchNorm(outer)
        self.short = nn.Conv2d(inner, outer, 1, stride=stride, bias=False) if stride > 1 else None

    def __call__(self, x):
        y = self.b2(self.c2(self.b1(self.c1(x)).relu()))
        return (y + (self.short(x) if self.short else x)).relu()


class ResNet:
    """A stem, three stages of one block, a classifier."""

    def __init__(self, width):
        self.stem = nn.Conv2d(3, width, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm(width)
        self.blocks = [
            Block(width, width, 1),
            Block(width, 2 * width, 2),
            Block(2 * width, 4 * width, 2),
        ]
        self.head = nn.Linear(4 * width, 10)

    def __call__(self, x):
        x = self.norm(self.stem(x)).relu()
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean((2, 3)))


# Ten classes: a stripe pattern each, with noise.
rng = np.random.default_rng(0)
labels = rng.integers(0, 10, BATCH)
u, v = np.meshgrid(np.arange(16), np.arange(16))
images = np.stack([np.stack([np.sin((k + 1) * (u + c * v) / 6) for c in range(3)]) for k in labels])
images = (images + 0.3 * rng.standard_normal(images.shape)).astype(np.float32)

Tensor.manual_seed(1)
net = ResNet(WIDTH)
params = nn.state.get_parameters(net)
print(f"# {sum(p.numel() for p in params)} parameters, batches of {BATCH}", flush=True)
optimizer = SGD(params, lr=0.05, momentum=0.9)
x, y = Tensor(images), Tensor(labels.astype(np.int32))
for step in range(1, STEPS + 1):
    start = time.monotonic()
    optimizer.zero_grad()
    loss = net(x).sparse_categorical_crossentropy(y)
    loss.backward()
    optimizer.step()
    print(f"step {step} loss {loss.item()!r}", flush=True)
    print(f"# {time.monotonic() - start:.3f} s", flush=True)
total = sum(float((p * p).sum().item()) for p in params)
print(f"weights {total!r}")
