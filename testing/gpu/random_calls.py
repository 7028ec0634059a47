"""Random programs of CUDA calls, natively and through Busbar on one GPU machine.

    python3 testing/gpu/random_calls.py --dist dist [--seeds 400] [--first 1] [--steps 120]
                                        [--threads 1] [--devices 1] [--link NAME] [--jobs 12]

Runs `programs/random_calls.cu` (what it does stands there) with each seed twice natively and once
remotely. A program whose native runs differ tells nothing, and is counted. Of each other that
differs the first lines that do are printed, and the whole output is kept in `--logs`. With `--link`
the clients share no memory with the server.
"""

import argparse
import concurrent.futures
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from remote import Remote, compare, run


def main():
    parse = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parse.add_argument("--dist", default="dist")
    parse.add_argument("--program", help="as compiled; or else it is in the tree, or compiled now")
    parse.add_argument("--seeds", type=int, default=400)
    parse.add_argument("--first", type=int, default=1)
    parse.add_argument("--rounds", type=int, default=5, help="seeds that one process runs")
    parse.add_argument("--steps", type=int, default=120)
    parse.add_argument("--threads", type=int, default=1)
    parse.add_argument("--devices", type=int, default=1, help="all of one host")
    parse.add_argument("--link", help="an emulated network between (busbar link --preset)")
    parse.add_argument("--jobs", type=int, default=12)
    parse.add_argument("--port", type=int, default=7720)
    parse.add_argument("--minutes", type=float, default=60, help="nothing begins after them")
    parse.add_argument("--logs", default="random-logs")
    a = parse.parse_args()
    work = pathlib.Path(tempfile.mkdtemp(prefix="busbar-random-"))
    logs = pathlib.Path(a.logs).resolve()
    logs.mkdir(parents=True, exist_ok=True)
    program = a.program or pathlib.Path(a.dist) / "lib/cuda/programs/random_calls"
    if not pathlib.Path(program).exists():
        program = work / "random_calls"
        source = pathlib.Path(__file__).parent / "programs/random_calls.cu"
        subprocess.run(
            ["nvcc", "-O1", "-std=c++17", "-arch=native", source, "-o", program, "-lcuda"],
            check=True,
        )
    begun = time.monotonic()

    def one(seed):
        if time.monotonic() - begun > 60 * a.minutes:
            return seed, "-", "", ()
        numbers = (seed, a.rounds, a.steps, a.threads, a.devices)
        words, env = [str(pathlib.Path(program).resolve()), *map(str, numbers)], dict(os.environ)
        natively = [run(words, 90, env) for _ in range(2)]
        if natively[0]["rc"] != 0 or compare(*natively)[0] != "same":
            return seed, "odd", compare(*natively)[1] or f"natively {natively[0]['rc']}", natively
        remotely = run(server.prefix() + words, 180, env)
        verdict, why = compare(natively[0], remotely)
        return seed, verdict, why, (natively[0], remotely)

    counts = {}
    with Remote(a.dist, a.port, work, logs / "serve.log", link=a.link) as server:
        with concurrent.futures.ThreadPoolExecutor(a.jobs) as pool:
            seeds = range(a.first, a.first + a.seeds, a.rounds)
            for seed, verdict, why, runs in pool.map(one, seeds):
                counts[verdict] = counts.get(verdict, 0) + 1
                if verdict in ("same", "-"):
                    continue
                print(f"{seed:>6} {verdict:<6} {why}", flush=True)
                for side, ran in zip("ab", runs):
                    (logs / f"{seed}.{side}").write_text(ran["out"] + ran["err"][-4000:])
    told = ", ".join(f"{n} {verdict}" for verdict, n in sorted(counts.items()))
    print(f"{a.rounds} programs each: {told}")
    sys.exit(1 if counts.keys() - {"same", "odd", "-"} else 0)


main()
