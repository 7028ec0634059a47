"""One rank of ``run scaling`` and ``run horovod``: trains a network on random images.

With ``--horovod`` it is a program as Horovod's own synthetic benchmark, with its settings, and
prints the lines that one prints; else it trains with DistributedDataParallel.
"""

import argparse
import contextlib
import json
import os
import sys
import time

# What runs with nothing to run it: not a failure of what is measured.
SKIPPED = 77


def build(torch, name, batch):
    """A network, its input and the right answers; small ones for tests."""
    if name == "tiny":
        network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, 1000))
        return network, torch.randn(batch, 3, 4, 4), torch.randint(1000, (batch,))
    from busbar_bench.workloads import resnet50

    return (
        resnet50.model(stride_in_3x3=True),
        torch.randn(batch, 3, 224, 224),
        torch.randint(1000, (batch,)),
    )


def step_of(torch, network, optimizer, data, target, precision):
    """What is done over and over."""
    device = data.device.type
    wide = precision == "fp32"

    def step():
        optimizer.zero_grad()
        context = contextlib.nullcontext() if wide else torch.autocast(device, torch.bfloat16)
        with context:
            loss = torch.nn.functional.cross_entropy(network(data), target)
        loss.backward()
        optimizer.step()

    return step


def rates(step, synchronize, args):
    """Images a second of one GPU, of each iteration."""
    for _ in range(args.warmup):
        step()
    synchronize()
    found = []
    for _ in range(args.iterations):
        began = time.perf_counter()
        for _ in range(args.batches):
            step()
        synchronize()
        found.append(args.batch * args.batches / (time.perf_counter() - began))
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


def main(argv=None):
    """Trains; prints a JSON line at the end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--horovod", action="store_true")
    parser.add_argument("--network", default="resnet50")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="bf16")
    parser.add_argument("--batch", type=int, default=128)
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
    network, data, target = build(torch, args.network, args.batch)
    network, data, target = network.to(device), data.to(device), target.to(device)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    if args.horovod:
        optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=network.named_parameters())
        hvd.broadcast_parameters(network.state_dict(), root_rank=0)
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    elif ranks > 1:
        torch.distributed.init_process_group("nccl" if gpu else "gloo")
        network = torch.nn.parallel.DistributedDataParallel(
            network, device_ids=[local] if gpu else None
        )
    step = step_of(torch, network, optimizer, data, target, args.precision)
    found = []
    for index, rate in enumerate(rates(step, synchronize, args)):
        found.append(rate)
        if args.horovod and rank == 0:
            print(f"Iter #{index}: {rate:.1f} img/sec per GPU", flush=True)
    mean, deviation = spread(found)
    if args.horovod and rank == 0:
        print("\n".join(summary(mean, deviation, ranks)), flush=True)
    line = {"rank": rank, "ranks": ranks, "rate": mean, "deviation": deviation, "gpu": gpu}
    print(json.dumps(line), flush=True)
    if not args.horovod and ranks > 1:
        torch.distributed.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
