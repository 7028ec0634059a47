#!/usr/bin/env python3
"""The Khronos conformance suite natively and through Busbar on the same device, and what differs.

    python3 testing/e2e/opencl_cts.py --cts BUILD [--dist dist] [--limit 60] [--json FILE]
                                      [SUITE ...]

BUILD is the build folder of github.com/KhronosGroup/OpenCL-CTS. Every test runs in a process of its
own. A test differs when it passes natively and not through Busbar; such tests are listed, and those
of memory that host and device share finely do not count, for that is refused. The exit status is 1
when any counts. Results are kept in FILE as they come, and a later call goes on where this one
ended.
"""

import argparse
import collections
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

from side_by_side import CACHE, ROOT, Server, say

SUITES = ("api events buffers mem_host_flags multiples profiling device_partition device_timer "
          "printf computeinfo svm basic").split()
REFUSED = ("svm_fine", "svm_enqueue_api_fine")


def programs(build):
    found = [*build.glob("test_conformance/*/test_*"), *build.glob("test_conformance/*/*/test_*")]
    return {p.name[len("test_"):]: p for p in found if p.is_file() and os.access(p, os.X_OK)}


def tests_of(exe):
    out = subprocess.run([exe, "--list"], capture_output=True, text=True, timeout=60).stdout
    return [x.strip() for x in out.splitlines() if x.startswith("\t") and " " not in x.strip()]


def result(command, exe, test, limit, env):
    """`pass`, `fail`, `skip`, `timeout` or the exit status, and the seconds it took."""
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.json"
        start = time.monotonic()
        env = dict(env, CL_CONFORMANCE_RESULTS_FILENAME=str(report))
        child = subprocess.Popen(command + [str(exe), test], env=env, cwd=exe.parent,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                 start_new_session=True)
        try:
            code = child.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            return "timeout", limit
        seconds = round(time.monotonic() - start, 1)
        try:
            return json.loads(report.read_text())["results"][test], seconds
        except (OSError, ValueError, KeyError):
            return ("pass" if code == 0 else f"exit {code}"), seconds


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--cts", required=True, type=pathlib.Path, metavar="BUILD")
    p.add_argument("--dist", default=ROOT / "dist", type=pathlib.Path)
    p.add_argument("--limit", type=int, default=60, help="seconds for one test")
    p.add_argument("--json", type=pathlib.Path, metavar="FILE")
    p.add_argument("suites", nargs="*", default=SUITES, metavar="SUITE", help=" ".join(SUITES))
    args = p.parse_args()
    exes = programs(args.cts.resolve())
    if missing := [s for s in args.suites if s not in exes]:
        sys.exit(f"{args.cts} has no test_{missing[0]}; it has {', '.join(sorted(exes))}")
    env = dict(os.environ, POCL_CACHE_DIR=str(CACHE / "pocl-cts"), CL_WIMPY_MODE="1",
               BUSBAR_DEVICE_NAMES="plain")
    done = json.loads(args.json.read_text()) if args.json and args.json.exists() else {}
    with Server(args.dist, env, "opencl") as server:
        remote = server.prefix()
        for suite in args.suites:
            for test in tests_of(exes[suite]):
                row = done.setdefault(f"{suite}/{test}", {})
                for side, command in (("native", []), ("busbar", remote)):
                    if side not in row:
                        row[side] = result(command, exes[suite], test, args.limit, env)
                if args.json:
                    args.json.write_text(json.dumps(done, indent=0) + "\n")
                if row["native"][0] != row["busbar"][0]:
                    say(f"  {suite}/{test}: {row['native'][0]} natively, "
                        f"{row['busbar'][0]} through Busbar")
    say(f"\n  {'suite':<18}{'tests':>6}   natively: pass skip  not    Busbar: pass skip  not"
        "   lost")
    bad = 0
    for suite in args.suites:
        rows = {k: v for k, v in done.items() if k.startswith(suite + "/")}
        counts = []
        for side in ("native", "busbar"):
            kinds = collections.Counter(v[side][0] for v in rows.values())
            counts += [kinds["pass"], kinds["skip"], len(rows) - kinds["pass"] - kinds["skip"]]
        lost = [k for k, v in rows.items() if v["native"][0] == "pass" != v["busbar"][0]
                and not any(r in k for r in REFUSED)]
        bad += len(lost)
        say(f"  {suite:<18}{len(rows):>6}{counts[0]:>18}{counts[1]:>5}{counts[2]:>5}"
            f"{counts[3]:>16}{counts[4]:>5}{counts[5]:>5}{len(lost):>7}")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
