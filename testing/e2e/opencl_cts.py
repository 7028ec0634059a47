#!/usr/bin/env python3
"""The Khronos conformance suite natively and through Busbar on the same device, and what differs.

    python3 testing/e2e/opencl_cts.py --cts BUILD [--dist dist] [--limit 60] [--json FILE]
                                      [--again] [SUITE[/TEST] ...]

BUILD is the build folder of github.com/KhronosGroup/OpenCL-CTS. Every test runs in a process of its
own. A test differs when it passes natively and not through Busbar; such tests are listed, and those
of memory that host and device share finely do not count, for that is refused. The exit status is 1
when any counts. Results are kept in FILE as they come, and a later call goes on where this one
ended; with --again it runs those once more that ended at the limit or differed. Maths and
conversions run for vectors of one and four elements, conversions a destination at a time; image
streams for small images of four channels and the nearest pixel.
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

REFUSED = ("svm_fine", "svm_enqueue_api_fine")
# What a suite's program gets beside the test's name.
EXTRA = {
    "bruteforce": ["-1", "-4"],
    "conversions": ["-1", "-4"],
    "image_streams": ["CL_FILTER_NEAREST", "UNNORMALIZED", "small_images", "CL_RGBA"],
}
INTEGERS = "uchar char ushort short uint int ulong long".split()
FLOATS = "float double".split()


def programs(build):
    found = build.glob("test_conformance/**/test_*")
    return {p.name[len("test_"):]: p for p in found if p.is_file() and os.access(p, os.X_OK)}


def conversions(to):
    """The names that the suite has for conversions to a type."""
    modes = ["", "_rte", "_rtz"] + (["_sat", "_sat_rtp"] if to in INTEGERS else [])
    return [f"{to}{mode}_{source}" for source in INTEGERS + FLOATS for mode in modes]


def tests_of(suite, exe):
    if suite == "conversions":
        return INTEGERS + FLOATS
    out = subprocess.run([exe, "--list"], capture_output=True, text=True, timeout=60).stdout
    return [x.strip() for x in out.splitlines() if x.startswith("\t") and " " not in x.strip()]


def words_of(suite, test):
    """What makes a suite's program run a test."""
    return EXTRA.get(suite, []) + (conversions(test) if suite == "conversions" else [test])


def result(command, words, limit, env):
    """`pass`, `fail`, `skip`, `timeout` or the exit status, and the seconds it took."""
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.json"
        start = time.monotonic()
        env = dict(env, CL_CONFORMANCE_RESULTS_FILENAME=str(report))
        child = subprocess.Popen(command + words, env=env, cwd=pathlib.Path(words[0]).parent,
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
            (verdict,) = json.loads(report.read_text())["results"].values()
            return verdict, seconds
        except (OSError, ValueError, KeyError):
            # In good order, but nothing to report: the device has not what the suite is about.
            return ("skip" if code == 0 else f"exit {code}"), seconds


def chosen(exes, wanted):
    """The tests that were asked for: suite, test and what runs it."""
    for name in wanted:
        suite, _, only = name.partition("/")
        for test in tests_of(suite, exes[suite]):
            if only in ("", test):
                yield suite, test, [str(exes[suite]), *words_of(suite, test)]


def settled(row):
    """Whether both sides say the same, and not only that the time was up."""
    return row and row["native"][0] == row["busbar"][0] != "timeout"


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--cts", required=True, type=pathlib.Path, metavar="BUILD")
    p.add_argument("--dist", default=ROOT / "dist", type=pathlib.Path)
    p.add_argument("--limit", type=int, default=60, help="seconds for one test")
    p.add_argument("--json", type=pathlib.Path, metavar="FILE")
    p.add_argument("--again", action="store_true", help="rerun what FILE has no clear result of")
    p.add_argument("wanted", nargs="*", metavar="SUITE[/TEST]", help="default: all that BUILD has")
    args = p.parse_args()
    exes = programs(args.cts.resolve())
    wanted = args.wanted or sorted(exes)
    suites = list(dict.fromkeys(w.partition("/")[0] for w in wanted))
    if missing := [s for s in suites if s not in exes]:
        sys.exit(f"{args.cts} has no test_{missing[0]}; it has {', '.join(sorted(exes))}")
    env = dict(os.environ, POCL_CACHE_DIR=str(CACHE / "pocl-cts"), CL_WIMPY_MODE="1",
               BUSBAR_DEVICE_NAMES="plain")
    done = json.loads(args.json.read_text()) if args.json and args.json.exists() else {}
    with Server(args.dist, env, "opencl") as server:
        remote = server.prefix()
        for suite, test, words in chosen(exes, wanted):
            row = done.get(f"{suite}/{test}", {})
            if args.again and not settled(row):
                row = {}
            for side, command in (("native", []), ("busbar", remote)):
                if side not in row:
                    row[side] = result(command, words, args.limit, env)
            done[f"{suite}/{test}"] = row
            if args.json:
                args.json.write_text(json.dumps(done, indent=0) + "\n")
            if row["native"][0] != row["busbar"][0]:
                say(f"  {suite}/{test}: {row['native'][0]} natively, "
                    f"{row['busbar'][0]} through Busbar")
    say(f"\n  {'suite':<18}{'tests':>6}   natively: pass skip  not    Busbar: pass skip  not"
        "   lost")
    bad = 0
    for suite in suites:
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
