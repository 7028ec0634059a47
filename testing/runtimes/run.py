#!/usr/bin/env python3
"""Programs of runtimes that take faults and signals for themselves, natively and through Busbar.

    python3 testing/runtimes/run.py --tree TREE

Go and Java, on the simulated driver: what each prints must be what it prints natively, over the
network and with memory shared with the server. `./test runtimes` makes the tree and installs both.
"""

import argparse
import difflib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
LIMIT = 120
# What docs/book/explain/limits.md says of system calls past the C library.
LIMITS = {"write past the C library: <nil>": "write past the C library: bad address"}


def built(folder):
    """A name and a command line for each program."""
    jdk = Path(os.path.realpath(subprocess.check_output(["which", "javac"], text=True).strip()))
    include = jdk.parent.parent / "include"
    go, library = folder / "go", folder / "libruntime.so"
    cc = ["cc", "-shared", "-fPIC", "-Wno-unused-function", f"-I{include}", f"-I{include}/linux"]
    commands = [
        (["go", "build", "-o", go, "."], HERE / "go"),
        ([*cc, "-o", library, HERE / "java.c", "-ldl"], HERE),
        (["javac", "-d", folder, HERE / "Runtime.java"], HERE),
    ]
    for command, where in commands:
        subprocess.run(command, cwd=where, env={**os.environ, "CGO_ENABLED": "1"}, check=True)
    java = ["java", "-Xss512k", "-cp", folder]
    yield "Go", [go]
    for mode in ([], ["-Xint"], ["-Xcomp"]):
        yield " ".join(["Java", *mode]), [*java, *mode, "Runtime", library]


def said(command, env):
    """What a program prints, and how it ended if not well."""
    end = subprocess.run(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT
    )
    return end.stdout + (f"ended with {end.returncode}\n" if end.returncode else "")


def allowed(native, remote):
    """Whether lines differ by what is a known limit alone."""
    a, b = native.splitlines(), remote.splitlines()
    return len(a) == len(b) and all(x == y or LIMITS.get(x) == y for x, y in zip(a, b))


def address_of(server):
    for line in server.stdout:
        if "listening on" in line:
            return line.split()[-1]
    sys.exit("runtimes: the server did not start")


def compare(tree, folder):
    """How many programs print something else through Busbar."""
    driver, named = tree / "lib/fakedev/libcuda.so.1", folder / "driver"
    # Both names, as the driver's own packages have them.
    named.mkdir()
    for link in ("libcuda.so", "libcuda.so.1"):
        (named / link).symlink_to(driver)
    plain = {k: v for k, v in os.environ.items() if not k.startswith("BUSBAR_")}
    plain |= {"BUSBAR_CONFIG": f"{folder}/none", "BUSBAR_PLAINTEXT": "1"}
    serve = [tree / "bin/busbar", "serve", "--listen", "127.0.0.1:0", "--api", "cuda"]
    serve += ["--cuda-library", driver, "--cache-dir", folder / "cache"]
    with open(folder / "log", "w") as log:
        server = subprocess.Popen(serve, env=plain, stdout=subprocess.PIPE, stderr=log, text=True)
    wrong = 0
    try:
        run = [tree / "bin/busbar", "run", "--server", address_of(server), "--"]
        for name, command in built(folder):
            native = said(command, {**plain, "LD_LIBRARY_PATH": str(named)})
            for shared in ("1", "0"):
                start = time.monotonic()
                remote = said([*run, *command], {**plain, "BUSBAR_SHM": shared})
                good = allowed(native, remote) and "ended with" not in native
                how = "shared memory" if shared == "1" else "network"
                word = "as natively" if good else "OTHERWISE"
                if good and native != remote:
                    word += ", but for a known limit"
                print(f"{name:12} {how:14} {time.monotonic() - start:5.1f} s  {word}", flush=True)
                if not good:
                    wrong += 1
                    lines = difflib.unified_diff(native.splitlines(), remote.splitlines())
                    print("\n".join(lines) or native)
    finally:
        server.terminate()
        server.wait()
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--tree", type=Path, required=True)
    tree = parser.parse_args().tree.resolve()
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(compare(tree, Path(folder)) > 0)


if __name__ == "__main__":
    main()
