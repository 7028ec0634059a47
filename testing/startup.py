#!/usr/bin/env python3
"""How long `busbar run` takes against a warm server, beyond the program itself.

    python3 testing/startup.py --dist dist [--program PROGRAM ARGUMENTS...]

A server with the simulated driver, and links of several delays before it. Each command is started
through Busbar and by itself, in turns; what is more is fitted by a constant and a number of round
trips. The bar is 50 ms and 4 round trips, for a program that makes no call.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

DELAYS_MS = [0, 5, 20]
MOST_MS, MOST_TRIPS = 50, 4


def line_of(command, env, begins):
    """Starts something that says where it listens."""
    child = subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    for line in child.stdout:
        if begins in line:
            return child, line.strip().rsplit(" ", 1)[1]
    raise RuntimeError(f"{command[0]} says no address")


def took(command, env):
    start = time.perf_counter()
    subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL)
    return 1000 * (time.perf_counter() - start)


def fitted(points):
    """The constant and the factor of a line, by least squares."""
    mean_x = statistics.mean(x for x, _ in points)
    mean_y = statistics.mean(y for _, y in points)
    across = sum((x - mean_x) ** 2 for x, _ in points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / across
    return mean_y - slope * mean_x, slope


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--dist", type=Path, default=Path("dist"))
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--program", nargs=argparse.REMAINDER, default=[])
    args = parser.parse_args()
    dist = args.dist.resolve()
    busbar = str(dist / "bin/busbar")
    fake = str(dist / "lib/fakedev/libcuda.so.1")
    folder = tempfile.TemporaryDirectory()
    plain = {k: v for k, v in os.environ.items() if not k.startswith("BUSBAR_")}
    plain |= {"BUSBAR_CONFIG": f"{folder.name}/none", "BUSBAR_PLAINTEXT": "1"}
    children = []
    rows = [("true", [], ["true"]), ("true, with -n 1", ["-n", "1"], ["true"])]
    if args.program:
        rows.append((" ".join(args.program), [], args.program))
    missed = False
    try:
        server, at = line_of(
            [busbar, "serve", "--listen", "127.0.0.1:0", "--api", "cuda"]
            + ["--cuda-library", fake, "--cache-dir", f"{folder.name}/cache"],
            plain,
            "listening on",
        )
        children.append(server)
        ways = []
        for delay in DELAYS_MS:
            link, address = line_of(
                [busbar, "link", "--listen", "127.0.0.1:0", "--to", at, "--delay", f"{delay}ms"],
                plain,
                "listening on",
            )
            children.append(link)
            ways.append((delay, address))
        native = plain | {"LD_LIBRARY_PATH": str(Path(fake).parent)}
        for name, flags, program in rows:
            points = []
            for delay, address in ways:
                run = [busbar, "run", "--server", address, *flags, "--", *program]
                # The first one warms the server.
                took(run, plain)
                pairs = [(took(run, plain), took(program, native)) for _ in range(args.runs)]
                more = [a - b for a, b in pairs]
                points.append((2 * delay, statistics.median(more)))
                spread = f"{min(more):.1f} to {max(more):.1f}"
                print(f"{name}: round trip {2 * delay} ms: {points[-1][1]:.1f} ms more ({spread})")
            constant, trips = fitted(points)
            print(f"{name}: {constant:.1f} ms and {trips:.1f} round trips")
            # What a program's own calls wait for is its own.
            bound = program == ["true"]
            missed |= bound and (constant > MOST_MS or trips > MOST_TRIPS + 0.5)
    finally:
        for child in children:
            child.kill()
            child.wait()
    if missed:
        sys.exit(f"more than {MOST_MS} ms and {MOST_TRIPS} round trips")


if __name__ == "__main__":
    main()
