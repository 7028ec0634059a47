#!/usr/bin/env python3
"""What it costs a program to load code, by its size, on the simulated driver.

    python3 testing/loading.py [--dist dist ...] [--rounds 3]

Images of machine code, and fat binaries of three architectures of which one fits, are loaded as a
module (which waits for the server) and as a library (which is queued), each once in a process. In
the first round the server has none of them; the others tell what it costs when it does. Several
builds are measured in turn. Prints milliseconds, medians of twelve images, for each MB of code that
the device can use.
"""

import argparse
import ctypes
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from startup import line_of

IMAGES = 12
CASES = [("elf", 1, "module"), ("fat", 1, "module"), ("fat", 10, "module"), ("fat", 40, "library")]


def elf(size, seed):
    """A file of machine code: a header, a section header at its end, and bytes between."""
    head = bytearray(64)
    head[:7] = b"\x7fELF\x02\x01\x01"
    struct.pack_into("<HHI", head, 16, 2, 190, 1)
    struct.pack_into("<Q", head, 40, size - 64)
    struct.pack_into("<H", head, 52, 64)
    struct.pack_into("<HHH", head, 58, 64, 1, 0)
    block = random.Random(seed).randbytes(1 << 16)
    return bytes(head) + (block * (size // len(block) + 1))[: size - 128] + bytes(64)


def fat(size, seed):
    entries = b""
    for arch in (80, 90, 100):
        code = elf(size, seed + arch)
        head = bytearray(64)
        struct.pack_into("<HHIQ", head, 0, 2, 0x101, len(head), len(code))
        struct.pack_into("<I", head, 28, arch)
        entries += bytes(head) + code
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entries)) + entries


def program(kind, size, how):
    """What runs through Busbar."""
    cuda = ctypes.CDLL("libcuda.so.1")
    context, loaded = ctypes.c_void_p(), ctypes.c_void_p()
    assert cuda.cuInit(0) == 0
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert cuda.cuCtxSetCurrent(context) == 0
    make = {"elf": elf, "fat": fat}[kind]
    took = []
    for seed in range(0, IMAGES * 1000, 1000):
        image = make(size, seed)
        begin = time.perf_counter()
        if how == "module":
            rc = cuda.cuModuleLoadData(ctypes.byref(loaded), image)
        else:
            rc = cuda.cuLibraryLoadData(ctypes.byref(loaded), image, None, None, 0, None, None, 0)
        took.append(1000 * (time.perf_counter() - begin))
        assert rc == 0, rc
        cuda.cuCtxSynchronize()
    print(json.dumps(sorted(took)[len(took) // 2]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--dist", type=Path, nargs="+", default=[Path("dist")])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--program", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.program:
        kind, size, how = args.program
        program(kind, int(size), how)
        return
    env = {k: v for k, v in os.environ.items() if not k.startswith("BUSBAR_")}
    servers = []
    with tempfile.TemporaryDirectory() as folder:
        for i, dist in enumerate(map(Path.resolve, args.dist)):
            command = [str(dist / "bin/busbar"), "serve", "--api", "cuda"]
            command += ["--cuda-library", str(dist / "lib/fakedev/libcuda.so.1")]
            command += ["--listen", "127.0.0.1:0", "--cache-dir", f"{folder}/cache{i}"]
            servers.append((dist, *line_of(command, env, "listening on")))
        try:
            print("| code | loaded as | " + " | ".join(str(d) for d, _, _ in servers) + " |")
            print("|---|---|" + "---|" * len(servers))
            for kind, mb, how in CASES:
                cells = [[] for _ in servers]
                for _ in range(args.rounds):
                    for cell, (dist, _, address) in zip(cells, servers):
                        words = [sys.executable, __file__, "--program"]
                        words += [kind, str(mb * 1_000_000), how]
                        run = [str(dist / "bin/busbar"), "run", "--server", address, "--", *words]
                        out = subprocess.run(
                            run, env=env, check=True, stdout=subprocess.PIPE, text=True
                        )
                        cell.append(json.loads(out.stdout) / mb)
                said = (f"{c[0]:.2f}, then {min(c[1:]):.2f} to {max(c[1:]):.2f}" for c in cells)
                print(f"| {kind}, {mb} MB | {how} | " + " | ".join(said) + " |", flush=True)
        finally:
            for _, server, _ in servers:
                server.terminate()
                server.wait()


main()
