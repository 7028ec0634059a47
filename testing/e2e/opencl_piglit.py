#!/usr/bin/env python3
"""Piglit's OpenCL tests natively and through Busbar on the same device, and what differs.

    python3 testing/e2e/opencl_piglit.py [--dist dist] [--out FOLDER] [WORDS ...]

WORDS are regular expressions for names of tests; without any all 710 run, twice 10 minutes on two
cores. Installs Piglit where it is missing. A test differs when it, or one of the tests that it
consists of, does not end as natively; where natively it was ended by a fault of the driver's, it
counts only if it passes no more. The exit status is 1 when any differs.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from side_by_side import CACHE, ROOT, Server, say

# A driver that ends the process that it is in ends a worker's instead.
ENDED = ("crash", "timeout", "incomplete")


def run(prefix, folder, words, env):
    """Each test's result and its parts' results, by name."""
    command = [*prefix, "piglit", "run", "--jobs", str(os.cpu_count()), "--overwrite"]
    for word in words:
        command += ["--include-tests", word]
    subprocess.run([*command, "cl", folder], env=env, check=True, stdout=subprocess.DEVNULL)
    results = {}
    # They are one file when all have ended.
    for file in [folder / "results.json", *folder.glob("tests/*.json")]:
        if file.exists():
            found = json.loads(file.read_text())
            results |= found.get("tests", found)
    return {name: (one["result"], parts(one)) for name, one in results.items()}


def parts(one):
    return {k: v for k, v in (one.get("subtests") or {}).items() if k != "__type__"}


def same(native, remote):
    if native is None or remote is None:
        return False
    ended = native[0] in ENDED or native[0] == "fail" and not native[1]
    return native == remote or ended and remote[0] == "pass"


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--dist", default=ROOT / "dist", type=pathlib.Path)
    p.add_argument("--out", type=pathlib.Path, help="keep Piglit's results there")
    p.add_argument("words", nargs="*", metavar="WORDS")
    args = p.parse_args()
    if subprocess.run([ROOT / "testing/setup.sh", "opencl", "piglit"]).returncode:
        sys.exit(1)
    env = dict(os.environ, POCL_CACHE_DIR=str(CACHE / "pocl-piglit"),
               PIGLIT_COMPRESSION="none")
    out = args.out or pathlib.Path(tempfile.mkdtemp(prefix="busbar-piglit-"))
    native = run([], out / "native", args.words, env)
    with Server(args.dist, env, "opencl") as server:
        remote = run(server.prefix(), out / "busbar", args.words, env)
    names = sorted(native.keys() | remote.keys())
    lost = [name for name in names if not same(native.get(name), remote.get(name))]
    for name in lost:
        say(f"  {name}: {native.get(name)} natively, {remote.get(name)} through Busbar")
    count = sum(len(found[1]) for found in native.values())
    passed = sum(found[0] == "pass" for found in native.values())
    say(f"{len(names)} tests of {count} parts, {passed} pass natively; {len(lost)} differ")
    if not args.out:
        shutil.rmtree(out)
    sys.exit(bool(lost) or not names)


if __name__ == "__main__":
    main()
