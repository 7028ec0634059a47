#!/usr/bin/env python3
"""Builds the tests of the workspace and runs their programs side by side.

`cargo test` runs one test program after the other, and most of those of Busbar wait for a process
or a limit. What a program prints is kept apart and shown if it fails; a table says how long each
took. A program that fails is run once more when it has the machine to itself: one that passes then
is named as unsteady, with what it printed the first time, and does not stop a change that has
nothing to do with it. It is a fault all the same, of the test or of what it tests.

    tests.py [--jobs N] [--limit SECONDS] [--built FILE] [--part N/M] [ARGUMENT of cargo test ...]

FILE has what a build has said with `--no-run --message-format=json`: then nothing is built. N/M is
the Nth of M parts of the programs.
"""

import argparse
import concurrent.futures
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
from textwrap import indent

# Beside others these have failed: they have the machine to themselves.
ALONE = ("soak", "opencl_clients", "opencl_random")
# These take longest; begun last, they would be waited for alone.
FIRST = ("cuda_memory", "cuda_semantics", "formats", "opencl")


def build(arguments):
    """Builds the tests: what cargo says of them."""
    argv = ["cargo", "test", "--no-run", "--message-format=json-render-diagnostics", *arguments]
    cargo = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=False)
    if cargo.returncode:
        sys.exit(f"tests: {' '.join(argv)} ended with {cargo.returncode}")
    return cargo.stdout


def programs_of(said, arguments):
    """A name, a command line and a folder for each program of a build."""
    for line in said.splitlines():
        message = json.loads(line)
        if message["reason"] != "compiler-artifact" or not message.get("executable"):
            continue
        if message["profile"]["test"]:
            folder = os.path.dirname(message["manifest_path"])
            target = message["target"]
            name = f"{os.path.basename(folder)}: {target['name']} ({target['kind'][0]})"
            yield name, [message["executable"]], folder
    if all(a == "--workspace" for a in arguments):
        yield "examples in comments", ["cargo", "test", "--doc", *arguments], os.getcwd()


def packets():
    """How many packets this machine's RDMA devices of software have sent."""
    counters = pathlib.Path("/sys/class/infiniband").glob("*/ports/*/hw_counters/sent_pkts")
    return sum(int(counter.read_text()) for counter in counters)


def held():
    """What this machine's RDMA devices have open: queue pairs, registrations and all else."""
    if not any(pathlib.Path("/sys/class/infiniband").glob("*")):
        return ""
    return subprocess.run(["rdma", "resource", "show"], stdout=subprocess.PIPE, text=True).stdout


def let_go(before):
    """Whether devices come to have open what they had, and no more, soon enough."""
    until = time.monotonic() + 120
    while held() != before:
        if time.monotonic() > until:
            return False
        time.sleep(0.2)
    return True


def run(name, argv, folder, limit, alone):
    """Runs one program to its end; returns its name, exit status, output and seconds. One that runs
    alone must leave nothing on RDMA devices."""
    env, before = {**os.environ, "CARGO_MANIFEST_DIR": folder}, held() if alone else ""
    began = time.monotonic()
    with tempfile.TemporaryFile() as said:
        child = subprocess.Popen(
            argv,
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = child.wait(limit)
        except subprocess.TimeoutExpired:
            status = f"none after {limit} s"
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        said.seek(0)
        output = said.read().decode(errors="replace")
    if alone and not let_go(before):
        status, output = status or 1, f"{output}\nleft on devices: {held()}, before: {before}\n"
    return name, status, output, time.monotonic() - began


def short(program):
    """A program's name as cargo's `--test` has it."""
    return program[0].split(": ")[-1].split(" (")[0]


def rank(program):
    """Where a program comes in the order of all."""
    return FIRST.index(short(program)) if short(program) in FIRST else len(FIRST)


def results(programs, jobs, limit):
    """What becomes of the programs, as they end: side by side, and those after all that want
    to be alone."""
    for alone, workers in ((False, jobs), (True, 1)):
        some = [program for program in programs if (short(program) in ALONE) == alone]
        with concurrent.futures.ThreadPoolExecutor(workers) as pool:
            todo = [pool.submit(run, *program, limit, workers == 1) for program in some]
            yield from concurrent.futures.as_completed(todo)


def told(one, sent):
    """Prints how a program ended; returns what RDMA devices have sent by now."""
    name, _, output, seconds = one
    counts = [line for line in output.splitlines() if line.startswith("test result: ")]
    said = counts[-1].removeprefix("test result: ") if counts else "no result"
    said, now = said.split(";")[0], packets()
    if now > sent:
        said += f"; {now - sent} packets over RDMA"
    print(f"{seconds:6.1f} s  {name}: {said}", flush=True)
    return now


def main():
    """Builds, runs, and says how each program ended."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--jobs", type=int, default=(os.cpu_count() or 1) + 1)
    parser.add_argument("--limit", type=int, default=900, help="seconds for a program")
    parser.add_argument("--built", type=pathlib.Path, help="what cargo has said of a build")
    parser.add_argument("--part", default="1/1", help="such a part of the programs")
    options, arguments = parser.parse_known_args()
    part, parts = map(int, options.part.split("/"))
    began = time.monotonic()
    said = options.built.read_text() if options.built else build(arguments)
    programs = sorted(programs_of(said, arguments))[part - 1 :: parts]
    programs.sort(key=rank)
    print(f"{len(programs)} test programs built in {time.monotonic() - began:.0f} s", flush=True)
    ended, failed, unsteady, sent = [], [], [], packets()
    for future in results(programs, options.jobs, options.limit):
        one = future.result()
        sent = told(one, sent)
        ended.append(one)
        if one[1]:
            failed.append(one)
            # One after the other is for a machine that may be ended before the last of them.
            if options.jobs == 1:
                print(one[2], flush=True)
    again = {name: (argv, folder) for name, argv, folder in programs}
    # So many do not fail by chance.
    for one in failed.copy() if len(failed) <= 3 else ():
        second = run(one[0], *again[one[0]], options.limit, True)
        sent = told((f"again: {one[0]}", *second[1:]), sent)
        if not second[1]:
            failed.remove(one)
            unsteady.append(one)
    # Whoever shows a part of this most likely shows its beginning.
    for name, status, output, _ in failed:
        print(f"\n==== {name} ended with {status}\n{output}")
    for name, status, output, _ in unsteady:
        print(f"\n==== unsteady: {name} ended with {status} at first\n{indent(output, '| ')}")
    print("\nthe longest:")
    for name, _, _, seconds in sorted(ended, key=lambda one: one[3], reverse=True)[:12]:
        print(f"{seconds:6.1f} s  {name}")
    for name, *_ in unsteady:
        print(f"unsteady, passed when run alone: {name}")
    print(f"{len(ended) - len(failed)} test programs passed, {len(failed)} failed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
