"""One rank of ``run scaling`` and ``run horovod``: does what `networks` has, on random data.

With ``--horovod`` it is a program as Horovod's own synthetic benchmark, with its settings, and
prints the lines that one prints; else it takes PyTorch's own ways to use several GPUs.
"""

import argparse
import gc
import json
import os
import sys
import time

from busbar_bench import networks

# What runs with nothing to run it: not a failure of what is measured.
SKIPPED = 77


def rates(job, synchronize, args):
    """Items a second of one GPU, of each iteration."""
    step = job.step
    for _ in range(args.warmup):
        step()
    synchronize()
    found = []
    for _ in range(args.iterations):
        began = time.perf_counter()
        for _ in range(args.batches):
            step()
        synchronize()
        found.append(job.items * args.batches / (time.perf_counter() - began))
        yield found[-1]


def spread(values):
    """The mean, and 1.96 standard deviations, as Horovod's benchmark has it."""
    mean = sum(values) / len(values)
    variance = sum((v - mean) ** 2 for v in values) / len(values)
    return mean, 1.96 * variance**0.5


def summary(mean, deviation, ranks):
    """The last two lines of Horovod's benchmark."""
    each = f"Img/sec per GPU: {mean:.1f} +-{deviation:.1f}"
    total = f"Total img/sec on {ranks} GPU(s): {ranks * mean:.1f} +-{ranks * deviation:.1f}"
    return [each, total]


def averaged(torch, args, batch, device, ranks, hvd):
    """A network that each rank has whole, with gradients averaged by Horovod or by PyTorch."""
    network, inputs, rights = networks.averaged(torch, args.network, batch)
    network = network.to(device)
    inputs, rights = ([t.to(device) for t in each] for each in (inputs, rights))
    if args.network == "bert-large":
        optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4)
    else:
        optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    if hvd:
        optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=network.named_parameters())
        hvd.broadcast_parameters(network.state_dict(), root_rank=0)
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    elif ranks > 1:
        ids = [device.index] if device.type == "cuda" else None
        network = torch.nn.parallel.DistributedDataParallel(network, device_ids=ids)
    step = networks.training(torch, network, optimizer, inputs, rights, args.precision)
    return networks.Job(step, batch)


def main(argv=None):
    """Trains; prints a JSON line at the end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--horovod", action="store_true")
    parser.add_argument("--trains", dest="network", default="resnet50", choices=networks.KINDS)
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="bf16")
    parser.add_argument("--batch", type=int, help="of each rank")
    parser.add_argument("--warmup", type=int, default=10)
    parser.add_argument("--batches", type=int, default=10)
    parser.add_argument("--iterations", type=int, default=10)
    args = parser.parse_args(argv)
    try:
        import torch

        if args.horovod:
            import horovod.torch as hvd
    except ImportError as error:
        lacking = f"{error.name} is not installed here"
        print(json.dumps({"skipped": lacking}), flush=True)
        return SKIPPED
    if args.horovod:
        hvd.init()
        rank, ranks = hvd.rank(), hvd.size()
    else:
        rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    gpu = torch.cuda.is_available()
    local = int(os.environ.get("BENCH_DEVICE", hvd.local_rank() if args.horovod else rank))
    device = torch.device("cuda", local) if gpu else torch.device("cpu")
    if gpu:
        torch.cuda.set_device(device)
        torch.backends.cudnn.benchmark = True
    synchronize = torch.cuda.synchronize if gpu else lambda: None
    torch.manual_seed(1)
    kind = networks.KINDS[args.network]
    batch = args.batch or kind.batch
    if not args.horovod and (ranks > 1 or not kind.alone):
        os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
        torch.distributed.init_process_group("nccl" if gpu else "gloo")
    if args.network.endswith("-split"):
        job = networks.split(torch, args.network, batch, device, ranks)
    elif not kind.alone:
        job = networks.spread(torch, args.network, batch, device)
    else:
        job = averaged(torch, args, batch, device, ranks, hvd if args.horovod else None)
    found = []
    for index, rate in enumerate(rates(job, synchronize, args)):
        found.append(rate)
        if args.horovod and rank == 0:
            print(f"Iter #{index}: {rate:.1f} img/sec per GPU", flush=True)
    mean, deviation = spread(found)
    if args.horovod and rank == 0:
        print("\n".join(summary(mean, deviation, ranks)), flush=True)
    line = {"rank": rank, "ranks": ranks, "rate": mean, "deviation": deviation, "gpu": gpu}
    # The value of one step more: a loss, or the token that was decoded.
    line["last"] = float(job.step().item()).hex()
    line["steps"] = args.warmup + args.iterations * args.batches + 1
    print(json.dumps(line), flush=True)
    if torch.distributed.is_initialized():
        # A communicator ends when no graph has calls of it any more.
        job = None
        gc.collect()
        torch.distributed.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
