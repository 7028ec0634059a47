"""Reinforcement learning: PPO on two hundred cart-poles that are simulated on the GPU."""
import sys

import torch
from torch import nn
from torch.distributions import Categorical

rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.use_deterministic_algorithms(True, warn_only=True)
torch.manual_seed(0)
count, length = 200, 64


class Carts:
    def __init__(self):
        self.state = torch.zeros(count, 4, device=device).uniform_(-0.05, 0.05)
        self.age = torch.zeros(count, device=device)

    def step(self, action):
        x, v, a, w = self.state.unbind(1)
        force = 20.0 * action - 10.0
        push = (force + 0.05 * w**2 * a.sin()) / 1.1
        turn = (9.8 * a.sin() - a.cos() * push) / (0.5 * (4 / 3 - 0.1 * a.cos() ** 2 / 1.1))
        go = push - 0.05 * turn * a.cos() / 1.1
        new = [x + 0.02 * v, v + 0.02 * go, a + 0.02 * w, w + 0.02 * turn]
        self.state = torch.stack(new, 1)
        self.age += 1
        over = (self.state[:, 0].abs() > 2.4) | (self.state[:, 2].abs() > 0.21) | (self.age >= 200)
        fresh = torch.empty_like(self.state).uniform_(-0.05, 0.05)
        self.state = torch.where(over[:, None], fresh, self.state)
        lived = self.age * over
        self.age = torch.where(over, 0, self.age)
        return over, lived


body = lambda out: nn.Sequential(
    nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, out)
)
policy, critic = body(2).to(device), body(1).to(device)
parameters = [*policy.parameters(), *critic.parameters()]
optimizer = torch.optim.Adam(parameters, 2e-3)
carts = Carts()
for round in range(rounds):
    seen = {k: [] for k in ("state", "action", "log", "value", "over")}
    ended = lives = 0
    with torch.no_grad():
        for _ in range(length):
            choice = Categorical(logits=policy(carts.state))
            action = choice.sample()
            values = carts.state, action, choice.log_prob(action), critic(carts.state)[:, 0]
            for key, value in zip(seen, values):
                seen[key].append(value)
            over, lived = carts.step(action)
            seen["over"].append(over)
            if over.any():
                ended, lives = ended + int(over.sum()), lives + lived.sum().item()
        later = critic(carts.state)[:, 0]
        gain, gains = torch.zeros(count, device=device), []
        for t in reversed(range(length)):
            on = (~seen["over"][t]).float()
            delta = 1 + 0.99 * later * on - seen["value"][t]
            gain = delta + 0.99 * 0.95 * on * gain
            gains.append(gain)
            later = seen["value"][t]
    flat = {k: torch.cat(v) for k, v in seen.items()}
    gains = torch.cat(gains[::-1])
    wanted = gains + flat["value"]
    for _ in range(4):
        for part in torch.randperm(count * length, device=device).split(1600):
            choice = Categorical(logits=policy(flat["state"][part]))
            ratio = (choice.log_prob(flat["action"][part]) - flat["log"][part]).exp()
            better = gains[part]
            better = (better - better.mean()) / (better.std() + 1e-8)
            loss = -torch.min(ratio * better, ratio.clamp(0.8, 1.2) * better).mean()
            loss = loss + 0.5 * (critic(flat["state"][part])[:, 0] - wanted[part]).pow(2).mean()
            loss = loss - 0.01 * choice.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, 0.5)
            optimizer.step()
    print("round", round, f"ended {ended} lived {lives / max(1, ended):.4f} loss {loss.item():.6g}")
