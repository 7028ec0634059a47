"""torchdiffeq: a network learns the flow of a spiral through an adaptive solver and its adjoint."""
import sys

import torch
from torch import nn
from torchdiffeq import odeint, odeint_adjoint

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
start = torch.tensor([[2.0, 0.0]], device=device)
times = torch.linspace(0, 10, 200, device=device)
matrix = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]], device=device)
with torch.no_grad():
    truth = odeint(lambda t, y: (y**3) @ matrix, start, times, rtol=1e-6, atol=1e-6)
print("truth", [f"{v:.5f}" for v in truth[-1, 0].tolist()])


class Flow(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 2))
        self.asked = 0

    def forward(self, t, y):
        self.asked += 1
        return self.net(y**3)


flow = Flow().to(device)
optimizer = torch.optim.RMSprop(flow.parameters(), 1e-3)
g = torch.Generator().manual_seed(1)
for step in range(steps):
    begin = torch.randint(0, 180, (32,), generator=g)
    want = torch.stack([truth[b:b + 10] for b in begin.tolist()], 1)
    solve = odeint_adjoint if step % 4 == 0 else odeint
    got = solve(flow, want[0], times[:10], rtol=1e-4, atol=1e-4, method="dopri5")
    loss = (got - want).abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % max(1, steps // 5) == 0:
        print("step", step, f"loss {loss.item():.6g} asked {flow.asked}")
