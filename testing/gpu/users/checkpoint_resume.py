"""Checkpoints: a recurrent language model is saved midway, and goes on in a process of its own."""
import pathlib
import subprocess
import sys
import tempfile

import torch
from torch import nn

device = "cuda" if torch.cuda.is_available() else "cpu"


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(512, 256)
        self.cells = nn.LSTM(256, 512, 2, batch_first=True, dropout=0.1)
        self.out = nn.Linear(512, 512)

    def forward(self, x):
        return self.out(self.cells(self.words(x))[0])


def train(first, last, say, load=None, save=None):
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.manual_seed(0)
    net = Model().to(device)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 1000)
    scaler = torch.amp.GradScaler(device, enabled=device == "cuda")
    if load:
        kept = torch.load(load, map_location=device, weights_only=True)
        for part, name in ((net, "net"), (optimizer, "optimizer"), (schedule, "schedule")):
            part.load_state_dict(kept[name])
        scaler.load_state_dict(kept["scaler"])
        torch.set_rng_state(kept["host"].cpu())
        if device == "cuda":
            torch.cuda.set_rng_state(kept["random"].cpu())
    for step in range(first, last):
        g = torch.Generator().manual_seed(step)
        x = (torch.randint(0, 512, (32, 1), generator=g) + torch.arange(65) * 3) % 512
        x = x.to(device)
        with torch.autocast("cuda", torch.float16, enabled=device == "cuda"):
            loss = nn.functional.cross_entropy(net(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        schedule.step()
    print(say, "step", last, f"loss {loss.item():.9g} scale {scaler.get_scale()}", flush=True)
    if save:
        kept = {
            "net": net.state_dict(),
            "optimizer": optimizer.state_dict(),
            "schedule": schedule.state_dict(),
            "scaler": scaler.state_dict(),
            "host": torch.get_rng_state(),
            "random": torch.cuda.get_rng_state() if device == "cuda" else torch.get_rng_state(),
        }
        torch.save(kept, save)
    weights = torch.cat([p.detach().double().flatten() for p in net.parameters()])
    return f"{weights.sum().item():.12g} {weights.abs().max().item():.9g}"


def main():
    if len(sys.argv) == 4:
        half, file = int(sys.argv[2]), sys.argv[3]
        print("resumed", train(half, 2 * half, "resumed", load=file))
        return
    half = int(sys.argv[1]) if len(sys.argv) > 1 else 150
    print("whole", train(0, 2 * half, "whole"))
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "model.pt"
        train(0, half, "half", save=file)
        print("bytes", file.stat().st_size // 1000000, "MB", flush=True)
        command = [sys.executable, __file__, "resume", str(half), str(file)]
        subprocess.run(command, check=True)


main()
