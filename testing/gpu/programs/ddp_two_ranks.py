"""Two ranks train with DistributedDataParallel on ONE GPU: they say that they are of two hosts."""

import json
import os
import pathlib
import socket
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel

STEPS = 20


def work(rank, port, folder):
    os.environ["NCCL_HOSTID"] = f"host{rank}"
    os.environ["NCCL_IB_DISABLE"] = "1"
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = str(port)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.cuda.set_device(0)
    dist.init_process_group("nccl", rank=rank, world_size=2)
    torch.manual_seed(3)
    model = torch.nn.Sequential(
        torch.nn.Linear(256, 512),
        torch.nn.ReLU(),
        torch.nn.Linear(512, 512),
        torch.nn.ReLU(),
        torch.nn.Linear(512, 10),
    ).cuda()
    model = DistributedDataParallel(model, device_ids=[0], bucket_cap_mb=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    generator = torch.Generator(device="cuda").manual_seed(100 + rank)
    losses = []
    for _ in range(STEPS):
        x = torch.randn(64, 256, device="cuda", generator=generator)
        y = torch.randint(10, (64,), device="cuda", generator=generator)
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    weights = sum(p.double().sum() for p in model.parameters()).item()
    (folder / f"{rank}.json").write_text(json.dumps([losses, weights]))
    dist.barrier()
    dist.destroy_process_group()


def main():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        # One that fails ends the other.
        mp.spawn(work, (port, folder), nprocs=2)
        for rank in range(2):
            losses, weights = json.loads((folder / f"{rank}.json").read_text())
            for step, loss in enumerate(losses):
                print(f"rank {rank} step {step} loss {loss!r}")
            print(f"rank {rank} weights {weights!r}")


if __name__ == "__main__":
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    main()
