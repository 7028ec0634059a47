#!/usr/bin/env python3
"""Rates of OpenCL natively and through Busbar on this machine, with and without a slow link.

    python3 testing/e2e/opencl_bench.py [--dist dist] [--json FILE]

Empty launches, 1,000 dependent launches and a read, 64 MiB writes and reads beside a plain TCP copy
between two processes, and the launches once more over a link with 1 ms one-way delay. The best of
the repetitions counts; the exit status is 1 when a program fails.
"""

import argparse
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
CACHE = HERE.parent.parent / ".cache"
SIZE = 64 << 20


def tcp_copy():
    """GB/s of 64 MiB from one process to another, the best of 8, acknowledged with one byte."""
    listener = socket.create_server(("127.0.0.1", 0))
    child = os.fork()
    if child == 0:
        conn, _ = listener.accept()
        view = memoryview(bytearray(SIZE))
        for _ in range(8):
            at = 0
            while at < SIZE:
                n = conn.recv_into(view[at:])
                if n == 0:
                    os._exit(1)
                at += n
            conn.sendall(b"x")
        os._exit(0)
    data, best = b"\1" * SIZE, 1e9
    with socket.create_connection(listener.getsockname()) as conn:
        for _ in range(8):
            start = time.monotonic()
            conn.sendall(data)
            conn.recv(1)
            best = min(best, time.monotonic() - start)
    os.waitpid(child, 0)
    return SIZE / best / 1e9


def measure(command, env):
    r = subprocess.run(command, capture_output=True, text=True, env=env, timeout=120)
    if r.returncode:
        sys.exit(f"{command[-2]} ended with {r.returncode}: {r.stderr.strip()[-300:]}")
    got = {k: float(v) for k, v in (line.split() for line in r.stdout.splitlines())}
    for line in r.stderr.splitlines():
        if line.startswith("busbar-stats: "):
            got["stats"] = json.loads(line.split(" ", 1)[1])
    return got


def started(command, env):
    """Starts something that says where it listens."""
    child = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env
    )
    for line in child.stdout:
        if "listening on " in line:
            return child, line.split("listening on ")[1].split()[0]
        if line.startswith("{"):
            return child, json.loads(line)["listening"]
    sys.exit(f"{command[0]} {command[1]} did not start")


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--dist", default=str(HERE.parent.parent / "dist"))
    p.add_argument("--json", metavar="FILE")
    args = p.parse_args()
    busbar = str(pathlib.Path(args.dist).resolve() / "bin/busbar")
    env = dict(os.environ, POCL_CACHE_DIR=str(CACHE / "pocl"))
    CACHE.mkdir(exist_ok=True)
    children = []
    with tempfile.TemporaryDirectory(prefix="busbar-bench-") as work:
        exe = str(pathlib.Path(work) / "rates")
        subprocess.run(
            ["gcc", "-O2", "-o", exe, str(HERE / "programs/opencl_rates.c"), "-lOpenCL"], check=True
        )
        try:
            out = {"tcp_gb_per_s": tcp_copy(), "native": measure([exe, "all"], env)}
            serve = [busbar, "serve", "--listen", "127.0.0.1:0", "--api", "opencl"]
            server, address = started([*serve, "--drain", "0s"], env)
            children.append(server)
            stats = dict(env, BUSBAR_STATS="1")

            def through(where, what):
                return measure([busbar, "run", "--server", where, "--", exe, what], stats)

            out["busbar"] = through(address, "all")
            out["busbar_empty"] = through(address, "empty")
            link, far = started(
                [
                    busbar,
                    "link",
                    "--listen",
                    "127.0.0.1:0",
                    "--to",
                    address,
                    "--delay",
                    "1ms",
                    "--json",
                ],
                env,
            )
            children.append(link)
            out["busbar_1ms"] = through(far, "chain")
        finally:
            for child in reversed(children):
                child.terminate()
                child.wait()
    n, b, far = out["native"], out["busbar"], out["busbar_1ms"]
    empty = out["busbar_empty"]["stats"]
    print(f"{'':<38} {'native':>12} {'Busbar':>12}")
    print(
        f"{'empty kernels enqueued, 1/s':<38} {n['enqueue_per_s']:>12.0f} "
        f"{b['enqueue_per_s']:>12.0f}"
    )
    print(f"{'empty kernels done, 1/s':<38} {n['launch_per_s']:>12.0f} {b['launch_per_s']:>12.0f}")
    print(
        f"{'1,000 dependent launches + read, ms':<38} {n['chain_ms']:>12.2f} {b['chain_ms']:>12.2f}"
    )
    print(f"{'the same, 1 ms one-way delay, ms':<38} {'':>12} {far['chain_ms']:>12.2f}")
    print(f"{'64 MiB write, GB/s':<38} {n['write_gb_per_s']:>12.2f} {b['write_gb_per_s']:>12.2f}")
    print(f"{'64 MiB read, GB/s':<38} {n['read_gb_per_s']:>12.2f} {b['read_gb_per_s']:>12.2f}")
    print(f"{'plain TCP copy of 64 MiB, GB/s':<38} {out['tcp_gb_per_s']:>12.2f}")
    print(f"100,002 launches took {empty['calls']} calls and {empty['round_trips']} round trips")
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    main()
