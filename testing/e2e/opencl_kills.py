#!/usr/bin/env python3
"""What becomes of OpenCL programs whose worker, server or link dies, and how soon.

    python3 testing/e2e/opencl_kills.py [--dist dist] [--times 5] [--cut 3]

Kills, at random moments and that many times each, a program's worker, the server, and the link for
some seconds, and prints as rows of a table what the program did and how many milliseconds later.
What becomes of killed programs, `cargo run -p busbar-e2e --example killed_clients -- opencl` says.
The exit status is 1 when a program hung, ended well where it could not have, or computed something
else than natively. Runs on this machine's own devices.
"""

import argparse
import json
import os
import pathlib
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from side_by_side import CACHE, HERE, ROOT, Server, environment, session_of

# Longer than the longest wait that Busbar is told of here.
PATIENCE = 120


def start(program, words, address, env):
    return subprocess.Popen([program, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                            text=True, env=dict(env, BUSBAR_SERVER=address), errors="replace")


def ended(child):
    """What it still said, its status, and when it ended."""
    try:
        said, _ = child.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        return "", "hangs", time.monotonic()
    return said, child.returncode, time.monotonic()


def row(what, outcomes, times):
    seen = ", ".join(sorted(set(outcomes)))
    print(f"| {what} | {len(times)} | {seen} | {statistics.median(times) * 1000:.0f} | "
          f"{max(times) * 1000:.0f} |", flush=True)


def code_of(said, status):
    found = re.findall(r"gave (-\d+)", said)
    return f"error {found[-1]}, exit {status}" if found else f"exit {status}"


def came_to(said, status, native):
    return f"result as natively, exit {status}" if said == native else code_of(said, status)


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--dist", default=str(ROOT / "dist"))
    p.add_argument("--times", type=int, default=5)
    p.add_argument("--cut", type=int, default=3, help="seconds that a link is cut for")
    args = p.parse_args()
    CACHE.mkdir(exist_ok=True)
    base = environment(POCL_CACHE_DIR=str(CACHE / "pocl"))
    bad = 0
    with tempfile.TemporaryDirectory(prefix="busbar-kills-") as folder:
        folder = pathlib.Path(folder)
        program = folder / "opencl_faults"
        subprocess.run(["cc", "-O1", "-w", "-o", program, HERE / "programs/opencl_faults.c",
                        "-lOpenCL"], check=True)
        native = subprocess.run([program, "steps", "2000"], capture_output=True, text=True,
                                env=base, check=True).stdout
        driver = pathlib.Path(args.dist).resolve() / "lib/opencl/libbusbar_opencl.so"
        (folder / "busbar.icd").write_text(f"{driver}\n")
        client = dict(base, OCL_ICD_VENDORS=str(folder))
        print("| killed | times | the program | median, ms | most, ms |\n|---|---|---|---|---|")

        outcomes, times = [], []
        with Server(args.dist, base, "opencl") as server:
            other = start(program, ["steps", "2000"], server.address, client)
            for _ in range(args.times):
                child = start(program, [], server.address, client)
                worker = session_of(server.busbar, server.address, child.pid)["worker_pid"]
                time.sleep(random.random())
                os.kill(worker, signal.SIGKILL)
                begun = time.monotonic()
                said, status, at = ended(child)
                outcomes.append(code_of(said, status))
                times.append(at - begun)
                bad += status != 3
            said, status, _ = ended(other)
            bad += said != native
        row("its worker", outcomes, times)
        print(f"| (meanwhile another worker's) | 1 | {came_to(said, status, native)} | | |")

        outcomes, times = [], []
        for _ in range(args.times):
            with Server(args.dist, base, "opencl") as server:
                child = start(program, [], server.address, client)
                session_of(server.busbar, server.address, child.pid)
                time.sleep(random.random())
                server.process.kill()
                begun = time.monotonic()
                said, status, at = ended(child)
                outcomes.append(code_of(said, status))
                times.append(at - begun)
                bad += status != 3
        row("the server", outcomes, times)

        outcomes, times = [], []
        for _ in range(args.times):
            with Server(args.dist, base, "opencl") as server:
                link = subprocess.Popen(
                    [server.busbar, "link", "--listen", "127.0.0.1:0", "--to", server.address,
                     "--delay", "50us", "--json", "--control", "-"], stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
                address = json.loads(link.stdout.readline())["listening"]
                child = start(program, ["steps", "2000"], address, client)
                said, last, cut = "", time.monotonic(), random.randrange(60)
                for i, line in enumerate(child.stdout):
                    if i == cut:
                        link.stdin.write(f"cut {args.cut}s\n")
                        link.stdin.flush()
                    said, pause = said + line, time.monotonic() - last
                    last += pause
                    if pause > args.cut * 0.8:
                        times.append(pause - args.cut)
                _, status, _ = ended(child)
                outcomes.append(came_to(said, status, native))
                bad += said != native
                link.terminate()
                link.wait()
        row(f"the link, {args.cut} s; on again after", outcomes, times)
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
