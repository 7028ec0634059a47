"""Trains a small ResNet-like net for some steps and prints losses with all their digits."""
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 20
dtype = {"fp32": torch.float32, "bf16": torch.bfloat16}[
    sys.argv[2] if len(sys.argv) > 2 else "fp32"
]
torch.backends.cudnn.deterministic = True
torch.backends.cudnn.benchmark = False
torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c1, self.b1 = nn.Conv2d(c, c, 3, padding=1, bias=False), nn.BatchNorm2d(c)
        self.c2, self.b2 = nn.Conv2d(c, c, 3, padding=1, bias=False), nn.BatchNorm2d(c)

    def forward(self, x):
        y = F.relu(self.b1(self.c1(x)))
        return F.relu(x + self.b2(self.c2(y)))


net = nn.Sequential(
    nn.Conv2d(3, 32, 3, padding=1), *[Block(32) for _ in range(6)],
    nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10),
).to("cuda", dtype)
opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
x = torch.randn(64, 3, 32, 32).to("cuda", dtype)
y = torch.randint(0, 10, (64,)).cuda()
for step in range(1, steps + 1):
    begun = time.monotonic()
    opt.zero_grad()
    loss = F.cross_entropy(net(x).float(), y)
    loss.backward()
    opt.step()
    print(f"step {step} loss {loss.item()!r}", flush=True)
    print(f"# {time.monotonic() - begun:.3f} s", flush=True)
