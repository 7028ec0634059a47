"""Ranks on a GPU each: all collectives, DistributedDataParallel and FSDP, with all digits.

``nccl_gpus.py [RANKS]``: two, unless it says more.
"""

import os
import socket
import sys

import hosts
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

STEPS = 50
RANKS = int((sys.argv[1:] or ["2"])[0])


def digits(t):
    return float(t.double().sum()).hex()


def collectives(rank):
    g = torch.Generator(device="cuda").manual_seed(5 + rank)
    said = []
    for n in (1, 1000, 1 << 20):
        x = torch.randn(n * RANKS, device="cuda", generator=g)
        y = x.clone()
        dist.all_reduce(y)
        said.append(f"all_reduce {n} {digits(y)}")
        y = x.clone()
        dist.broadcast(y, 1)
        said.append(f"broadcast {n} {digits(y)}")
        y = torch.empty(n * RANKS * RANKS, device="cuda")
        dist.all_gather_into_tensor(y, x)
        said.append(f"all_gather {n} {digits(y)}")
        y = torch.empty(n, device="cuda")
        dist.reduce_scatter_tensor(y, x)
        said.append(f"reduce_scatter {n} {digits(y)}")
        y = torch.empty_like(x)
        dist.all_to_all_single(y, x)
        said.append(f"all_to_all {n} {digits(y)}")
        if rank == 0:
            dist.send(x, 1)
        elif rank == 1:
            dist.recv(y, 0)
        said.append(f"send {n} {digits(y)}")
        after, before = (rank + 1) % RANKS, (rank - 1) % RANKS
        ops = [dist.P2POp(dist.isend, x, after), dist.P2POp(dist.irecv, y, before)]
        for work in dist.batch_isend_irecv(ops):
            work.wait()
        said.append(f"exchange {n} {digits(y)}")
    return said


def model():
    torch.manual_seed(3)
    layers = [torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.GELU()) for _ in range(6)]
    return torch.nn.Sequential(*layers, torch.nn.Linear(512, 10)).cuda()


def train(net, rank):
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    g = torch.Generator(device="cuda").manual_seed(100 + rank)
    losses = []
    for step in range(STEPS):
        x = torch.randn(128, 512, device="cuda", generator=g)
        y = torch.randint(10, (128,), device="cuda", generator=g)
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        losses.append(f"step {step} loss {loss.item()!r}")
    return losses


def work(rank, port, results):
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = str(port)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.cuda.set_device(rank)
    hosts.divide(rank, RANKS)
    dist.init_process_group("nccl", rank=rank, world_size=RANKS)
    said = collectives(rank)
    parallel = DistributedDataParallel(model(), device_ids=[rank])
    said += ["ddp " + line for line in train(parallel, rank)]
    sharded = model()
    for layer in sharded:
        fully_shard(layer)
    fully_shard(sharded)
    said += ["fsdp " + line for line in train(sharded, rank)]
    results.put((rank, said))
    dist.barrier()
    dist.destroy_process_group()


def main():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    results = mp.get_context("spawn").SimpleQueue()
    context = mp.spawn(work, (port, results), nprocs=RANKS, join=False)
    told = sorted(results.get() for _ in range(RANKS))
    while not context.join():
        pass
    for rank, said in told:
        for line in said:
            print(f"rank {rank}: {line}")


if __name__ == "__main__":
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    main()
