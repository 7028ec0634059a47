"""torch.compile: a transformer trained through inductor, in training and in evaluation mode."""
import sys

import torch
from torch import nn

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 200
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.set_float32_matmul_precision("high")
torch.use_deterministic_algorithms(True, warn_only=True)
torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.one, self.two = nn.RMSNorm(width), nn.RMSNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.one(x)).view(b, t, 3, 8, c // 8).permute(2, 0, 3, 1, 4)
        scores = (q @ k.transpose(-1, -2)) * (c // 8) ** -0.5
        mixed = scores.softmax(-1) @ v
        x = x + self.out(mixed.transpose(1, 2).reshape(b, t, c))
        return x + self.down(nn.functional.gelu(self.up(self.two(x))))


net = nn.Sequential(
    nn.Linear(32, 256), *[Block(256) for _ in range(4)], nn.RMSNorm(256), nn.Linear(256, 8)
).to(device)
optimizer = torch.optim.AdamW(net.parameters(), 1e-3)
g = torch.Generator().manual_seed(1)
teacher = torch.randn(32, 8, generator=g).to(device)


@torch.compile
def loss_of(x):
    return nn.functional.mse_loss(net(x), (x @ teacher).tanh())


for step in range(steps):
    x = torch.randn(16, 64, 32, generator=g).to(device)
    loss = loss_of(x)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % max(1, steps // 5) == 0:
        print("step", step, f"loss {loss.item():.7g}")
fast = torch.compile(net.eval(), mode="reduce-overhead")
with torch.no_grad():
    x = torch.randn(4, 64, 32, generator=g).to(device)
    for _ in range(5):
        out = fast(x).clone()
print("out", f"{out.double().mean().item():.9g}", f"{out.double().std().item():.9g}")
