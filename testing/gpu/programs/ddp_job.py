"""A rank of a launcher's job trains with DistributedDataParallel, and prints its losses.

``torchrun --nproc_per_node 2 ddp_job.py``, or ``mpirun -np 2 python ddp_job.py``;
``JOB_LATE=SECONDS`` has the last rank come late to one more collective, ``JOB_ONE_GPU=1`` gives all
ranks device 0, as hosts of their own.
"""

import json
import os
import sys
import time

import hosts
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS = 20


def of_mpi():
    """What torchrun would say of this rank, of what MPICH's or Open MPI's launcher says."""
    names = {
        "RANK": ("PMI_RANK", "OMPI_COMM_WORLD_RANK"),
        "WORLD_SIZE": ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE"),
        "LOCAL_RANK": ("MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK"),
    }
    for name, each in names.items():
        os.environ.setdefault(name, next(os.environ[n] for n in each if n in os.environ))
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")


def main():
    if "RANK" not in os.environ:
        of_mpi()
    local = int(os.environ["LOCAL_RANK"])
    if os.environ.get("JOB_ONE_GPU"):
        os.environ["NCCL_HOSTID"] = f"host{local}"
        os.environ["NCCL_IB_DISABLE"] = "1"
        local = 0
    hosts.divide(int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]))
    device = torch.device("cuda", local)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    torch.manual_seed(3)
    layers = [torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)]
    model = DistributedDataParallel(torch.nn.Sequential(*layers).to(device), device_ids=[local])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    generator = torch.Generator(device=device).manual_seed(100 + rank)
    losses = []
    for _ in range(STEPS):
        x = torch.randn(64, 256, device=device, generator=generator)
        y = torch.randint(10, (64,), device=device, generator=generator)
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    late = float(os.environ.get("JOB_LATE", "0"))
    if late and rank == dist.get_world_size() - 1:
        time.sleep(late)
    one = torch.ones(1, device=device)
    dist.all_reduce(one)
    sys.stdout.write(json.dumps({"rank": rank, "sum": one.item(), "losses": losses}) + "\n")
    sys.stdout.flush()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
