"""``python -m busbar_bench.ranks -n N [--hosts H] [--one-gpu] MODULE [ARGUMENTS]``

Starts the ranks of a job as ``torchrun`` does, each a process of ``python -m MODULE``, and passes
on what they print. It does not know whether the GPUs are near or far.
"""

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import threading


def environment(rank, args, store, port):
    """What a rank is told, and what has NCCL take ranks of one machine for those of several."""
    env = {
        **os.environ,
        "RANK": str(rank),
        "WORLD_SIZE": str(args.n),
        "LOCAL_RANK": str(rank),
        "LOCAL_WORLD_SIZE": str(args.n),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "BENCH_STORE": store,
        "BENCH_DEVICE": "0" if args.one_gpu else str(rank),
    }
    hosts = args.n if args.one_gpu else args.hosts
    if hosts > 1:
        env["NCCL_HOSTID"] = f"host-{rank * hosts // args.n}"
        env["NCCL_IB_DISABLE"] = "1"
    return env


def parser():
    """The launcher's arguments."""
    made = argparse.ArgumentParser(prog="python -m busbar_bench.ranks", description=__doc__)
    made.add_argument("-n", type=int, required=True)
    made.add_argument("--hosts", type=int, default=1)
    made.add_argument("--one-gpu", action="store_true")
    made.add_argument("module")
    made.add_argument("rest", nargs=argparse.REMAINDER)
    return made


def main(argv=None):
    """Runs the ranks; the first that fails ends the others, as with torchrun."""
    args = parser().parse_args(argv)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="busbar-bench-") as store:
        children, worst = [], 0
        for rank in range(args.n):
            env = environment(rank, args, store, port)
            command = [sys.executable, "-m", args.module, *args.rest]
            children.append(subprocess.Popen(command, env=env, stdout=subprocess.PIPE))
        # Lines come whole: two ranks must not write into each other's.
        out = threading.Lock()

        def pass_on(child):
            for line in child.stdout:
                with out:
                    sys.stdout.buffer.write(line)
                    sys.stdout.buffer.flush()

        readers = [threading.Thread(target=pass_on, args=(c,), daemon=True) for c in children]
        for reader in readers:
            reader.start()
        left = set(children)
        ended = threading.Event()
        while left:
            for child in [c for c in left if c.poll() is not None]:
                left.discard(child)
                if child.returncode and not worst:
                    worst = abs(child.returncode)
                    for other in left:
                        other.terminate()
            ended.wait(0.02)
        for reader in readers:
            reader.join()
    return worst


if __name__ == "__main__":
    sys.exit(main())
