"""A sweep of settings: an ensemble under torch.func, and models trained one after the other."""
import sys

import torch
from torch import nn
from torch.func import functional_call, grad, stack_module_state, vmap

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 200
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.use_deterministic_algorithms(True, warn_only=True)
g = torch.Generator().manual_seed(0)
x = torch.randn(1024, 20, generator=g).to(device)
y = (x[:, :5].prod(1) + x[:, 5:].sum(1)).tanh()[:, None]


def network(width=64):
    return nn.Sequential(
        nn.Linear(20, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1)
    ).to(device)


torch.manual_seed(1)
rates = torch.logspace(-3, -0.5, 24, device=device)
parameters, _ = stack_module_state([network() for _ in rates])
base = network().to("meta")


def loss_of(p, x, y):
    return nn.functional.mse_loss(functional_call(base, p, (x,)), y)


parameters = {k: v.detach() for k, v in parameters.items()}
for step in range(steps):
    part = slice(step * 128 % 1024, step * 128 % 1024 + 128)
    grads = vmap(grad(loss_of), (0, None, None))(parameters, x[part], y[part])
    for k in parameters:
        parameters[k] = parameters[k] - rates.view(-1, *[1] * (grads[k].dim() - 1)) * grads[k]
losses = vmap(loss_of, (0, None, None))(parameters, x, y)
print("ensemble", [f"{v:.6g}" for v in losses.tolist()], int(losses.argmin()))
best = None
for name, optimizer in (("SGD", torch.optim.SGD), ("Adam", torch.optim.Adam),
                        ("RMSprop", torch.optim.RMSprop), ("Adagrad", torch.optim.Adagrad)):
    for rate in (1e-3, 1e-2):
        for width in (32, 128):
            torch.manual_seed(2)
            net = network(width)
            opt = optimizer(net.parameters(), rate)
            for step in range(steps):
                part = slice(step * 128 % 1024, step * 128 % 1024 + 128)
                loss = nn.functional.mse_loss(net(x[part]), y[part])
                opt.zero_grad()
                loss.backward()
                opt.step()
                if step % 50 == 0 and not torch.isfinite(loss):
                    break
            with torch.no_grad():
                value = nn.functional.mse_loss(net(x), y).item()
            print(name, rate, width, f"{value:.7g}")
            best = min(best or (value, name), (value, name))
print("best", best[1], f"{best[0]:.7g}")
