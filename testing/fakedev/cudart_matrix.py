#!/usr/bin/env python3
"""Runs twelve real CUDA runtime libraries over a given libcuda.so.1, and prints one table.

Each runtime gets a process of its own that loads it by ctypes, with the folder of the driver
library first in LD_LIBRARY_PATH. The driver's modules are those of fakedev, so the driver is either
fakedev itself or Busbar's shim in front of a worker that runs on fakedev:

    cudart_matrix.py --libcuda target/debug/libfakedev.so
    cudart_matrix.py --libcuda DIR --run-prefix "busbar run --" --only 12.8

Exit status 1 if anything failed.
"""

import argparse
import concurrent.futures
import ctypes
import json
import os
import pathlib
import shlex
import struct
import subprocess
import sys
import tempfile
import zipfile

VERSIONS = {
    "11.8.89": "nvidia-cuda-runtime-cu11",
    "12.1.105": "nvidia-cuda-runtime-cu12",
    "12.4.127": "nvidia-cuda-runtime-cu12",
    "12.6.77": "nvidia-cuda-runtime-cu12",
    "12.8.90": "nvidia-cuda-runtime-cu12",
    "12.9.79": "nvidia-cuda-runtime-cu12",
    "13.0.96": "nvidia-cuda-runtime",
    "13.1.80": "nvidia-cuda-runtime",
    "13.2.51": "nvidia-cuda-runtime",
    "13.3.29": "nvidia-cuda-runtime",
    "13.4.49": "nvidia-cuda-runtime",
    "13.5.37": "nvidia-cuda-runtime",
}

STEPS = [
    "devices",
    "malloc",
    "pointer",
    "copy",
    "memset",
    "stream",
    "event",
    "async",
    "register",
    "library",
    "error",
    "free",
    "reset",
    "again",
]
TIMEOUT_S = 60
IMAGE = b"fakedev-module 1\nkernel fill fill_u32 ptr u32 u64\nglobal counter 64\n\0"
HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2
INVALID_VALUE = 1


def fat_binary():
    """The image as nvcc would wrap it, one ELF entry for architecture 90, and what it points to."""
    payload = IMAGE.ljust((len(IMAGE) + 7) // 8 * 8, b"\0")
    sizes = (64, len(payload), 0, 0, 0, 0)
    entry = struct.pack("<HHIQIIHHIIIQQQ", 2, 0x101, *sizes, 90, 64, 0, 0, 0, 0)
    body = entry.ljust(64, b"\0") + payload
    blob = struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body
    room = ctypes.create_string_buffer(blob, len(blob))
    wrapper = struct.pack("<IIQQ", 0x466243B1, 1, ctypes.addressof(room), 0)
    return ctypes.create_string_buffer(wrapper), room


class Dim3(ctypes.Structure):
    _fields_ = [("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint)]


class Program:
    """The test program: runs inside the child process."""

    def __init__(self, path):
        self.rt = ctypes.CDLL(path)
        self.result = {}
        self.wrapper, self.keep = fat_binary()
        self.n = 1 << 16

    def call(self, name, *args):
        code = getattr(self.rt, name)(*args)
        if code != 0:
            raise RuntimeError(f"{name}: error {code}")

    def run(self):
        for step in STEPS:
            try:
                answer = getattr(self, step)()
                self.result[step] = "ok" if answer is None else answer
            except (RuntimeError, AssertionError) as error:
                self.result[step] = str(error)
        return self.result

    def read(self, address, size):
        out = ctypes.create_string_buffer(size)
        self.call("cudaMemcpy", out, address, ctypes.c_size_t(size), DEVICE_TO_HOST)
        return out.raw

    def devices(self):
        count = ctypes.c_int()
        self.call("cudaGetDeviceCount", ctypes.byref(count))
        assert count.value >= 1, f"{count.value} devices"
        self.call("cudaSetDevice", 0)
        version = ctypes.c_int()
        self.call("cudaDriverGetVersion", ctypes.byref(version))
        assert version.value >= 11080, f"driver {version.value}"

    def malloc(self):
        self.address = ctypes.c_void_p()
        self.call("cudaMalloc", ctypes.byref(self.address), ctypes.c_size_t(self.n))
        assert self.address.value, "null"

    def pointer(self):
        """What kind of memory a pointer is; the runtime asks with a variable it has not cleared."""
        host = ctypes.c_void_p()
        self.call("cudaHostAlloc", ctypes.byref(host), ctypes.c_size_t(4096), 0)
        for address, kind in ((host.value, 1), (self.address.value, 2)):
            # The structure has grown to 88 bytes and may grow again.
            out = (ctypes.c_int * 64)()
            self.call("cudaPointerGetAttributes", ctypes.byref(out), ctypes.c_void_p(address))
            assert out[0] == kind, f"type {out[0]} of memory that is {kind}"
        self.call("cudaFreeHost", host)

    def copy(self):
        data = os.urandom(self.n)
        self.call("cudaMemcpy", self.address, data, ctypes.c_size_t(self.n), HOST_TO_DEVICE)
        assert self.read(self.address, self.n) == data, "bytes differ"

    def memset(self):
        self.call("cudaMemset", self.address, 0x5A, ctypes.c_size_t(self.n))
        self.call("cudaDeviceSynchronize")
        assert self.read(self.address, self.n) == b"\x5a" * self.n, "bytes differ"

    def stream(self):
        self.stream_handle = ctypes.c_void_p()
        self.call("cudaStreamCreate", ctypes.byref(self.stream_handle))

    def event(self):
        begin, end, ms = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_float()
        self.call("cudaEventCreate", ctypes.byref(begin))
        self.call("cudaEventCreate", ctypes.byref(end))
        self.call("cudaEventRecord", begin, self.stream_handle)
        size = ctypes.c_size_t(self.n)
        self.call("cudaMemsetAsync", self.address, 1, size, self.stream_handle)
        self.call("cudaEventRecord", end, self.stream_handle)
        self.call("cudaEventSynchronize", end)
        self.call("cudaEventQuery", end)
        self.call("cudaEventElapsedTime", ctypes.byref(ms), begin, end)
        assert ms.value >= 0, f"{ms.value} ms"
        self.call("cudaEventDestroy", begin)
        self.call("cudaEventDestroy", end)

    def locals_of(self, *values):
        holders = [value for value in values]
        pointers = (ctypes.c_void_p * len(holders))(*[ctypes.addressof(h) for h in holders])
        return pointers, holders

    def launch(self, kernel, *values):
        pointers, _holders = self.locals_of(*values)
        one = Dim3(1, 1, 1)
        shared = ctypes.c_size_t(0)
        self.call("cudaLaunchKernel", kernel, one, one, pointers, shared, self.stream_handle)
        self.call("cudaStreamSynchronize", self.stream_handle)

    def check_fill(self, kernel, value):
        count = self.n // 4
        self.launch(kernel, self.address, ctypes.c_uint(value), ctypes.c_uint64(count))
        assert self.read(self.address, self.n) == struct.pack("<I", value) * count, "bytes differ"

    def register(self):
        """What the code that nvcc emits does before main."""
        self.rt.__getattr__("__cudaRegisterFatBinary").restype = ctypes.c_void_p
        handle = ctypes.c_void_p(getattr(self.rt, "__cudaRegisterFatBinary")(self.wrapper))
        name = ctypes.c_char_p(b"fill")
        self.stub = ctypes.create_string_buffer(16)
        none = ctypes.c_void_p()
        register = getattr(self.rt, "__cudaRegisterFunction")
        register(handle, self.stub, name, name, -1, none, none, none, none, none)
        getattr(self.rt, "__cudaRegisterFatBinaryEnd")(handle)
        self.check_fill(self.stub, 0xC0FFEE)

    def library(self):
        if not hasattr(self.rt, "cudaLibraryLoadData"):
            return "-"
        library, kernel = ctypes.c_void_p(), ctypes.c_void_p()
        none, zero = ctypes.c_void_p(), ctypes.c_uint(0)
        self.call(
            "cudaLibraryLoadData", ctypes.byref(library), IMAGE, none, none, zero, none, none, zero)
        self.call("cudaLibraryGetKernel", ctypes.byref(kernel), library, b"fill")
        self.check_fill(kernel, 0xBEEF)
        self.call("cudaLibraryUnload", library)

    def error(self):
        bad = ctypes.create_string_buffer(8)
        code = self.rt.cudaMemcpy(ctypes.c_void_p(8), bad, ctypes.c_size_t(8), HOST_TO_DEVICE)
        assert code == INVALID_VALUE, f"a bad copy gave {code}"
        last = self.rt.cudaGetLastError()
        assert last == INVALID_VALUE, f"last error {last}"
        assert self.rt.cudaGetLastError() == 0, "the last error stayed"

    # "async" is a keyword of the language, so this step is reached by its name only.
    def async_copies(self):
        size = ctypes.c_size_t(self.n)
        pinned = ctypes.c_void_p()
        self.call("cudaMallocHost", ctypes.byref(pinned), size)
        ctypes.memmove(pinned, bytes(range(256)) * (self.n // 256), self.n)
        stream = self.stream_handle
        self.call("cudaMemcpyAsync", self.address, pinned, size, HOST_TO_DEVICE, stream)
        self.call("cudaStreamSynchronize", stream)
        ctypes.memset(pinned, 0, self.n)
        self.call("cudaMemcpyAsync", pinned, self.address, size, DEVICE_TO_HOST, stream)
        self.call("cudaStreamSynchronize", stream)
        back = ctypes.string_at(pinned, self.n)
        assert back == bytes(range(256)) * (self.n // 256), "bytes differ"
        self.call("cudaFreeHost", pinned)

    def free(self):
        self.call("cudaStreamDestroy", self.stream_handle)
        self.call("cudaFree", self.address)

    def reset(self):
        self.call("cudaDeviceReset")

    def again(self):
        """After a reset everything works as from the start, and so does code registered before."""
        for _ in range(2):
            self.malloc()
            self.copy()
            self.stream()
            self.check_fill(self.stub, 0xCAFE)
            self.event()
            self.reset()


setattr(Program, "async", Program.async_copies)


def fetch(version, cache):
    """The runtime library of a version, downloaded once."""
    home = cache / version
    found = list(home.glob("**/libcudart.so.*"))
    if not found:
        home.mkdir(parents=True, exist_ok=True)
        command = [
            sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:",
            "--dest", str(home), f"{VERSIONS[version]}=={version}",
        ]
        subprocess.run(command, check=True)
        for wheel in home.glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                for name in archive.namelist():
                    if "libcudart.so" in name:
                        archive.extract(name, home)
            wheel.unlink()
        found = list(home.glob("**/libcudart.so.*"))
    if not found:
        raise FileNotFoundError(f"no runtime library in the wheel of {version}")
    return found[0]


def test(version, args, folder):
    """Runs the program for one version: its steps' results, or one line on what went wrong."""
    try:
        runtime = fetch(version, args.cache)
    except (subprocess.CalledProcessError, OSError) as error:
        return {"fetch": str(error)}
    env = dict(os.environ)
    env["LD_LIBRARY_PATH"] = f"{folder}:{env.get('LD_LIBRARY_PATH', '')}".rstrip(":")
    command = [*args.run_prefix, sys.executable, os.path.abspath(__file__), "--child", str(runtime)]
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return {"run": f"no end after {TIMEOUT_S} s"}
    except OSError as error:
        return {"run": str(error)}
    lines = done.stdout.strip().splitlines()
    if done.returncode != 0 or not lines:
        return {"run": f"status {done.returncode}: {done.stderr.strip()[-300:]}"}
    return json.loads(lines[-1])


def main():
    raw = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--libcuda", type=pathlib.Path,
                        help="the folder that has libcuda.so.1, or a library to use as it")
    parser.add_argument("--run-prefix", type=shlex.split, default=[],
                        help="what to run each program with")
    parser.add_argument("--cache", type=pathlib.Path, help="where runtime libraries are kept",
                        default=pathlib.Path.home() / ".cache" / "busbar" / "cudart")
    parser.add_argument("--only", action="append", default=[], help="only versions that begin so")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        print(json.dumps(Program(args.child).run()))
        return 0
    if args.libcuda is None:
        parser.error("--libcuda is needed")
    chosen = [v for v in VERSIONS if not args.only or any(v.startswith(o) for o in args.only)]
    if not chosen:
        parser.error("no version begins so; there are: " + ", ".join(VERSIONS))
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.libcuda.resolve()
        if folder.is_file():
            (pathlib.Path(scratch) / "libcuda.so.1").symlink_to(folder)
            folder = pathlib.Path(scratch)
        elif not (folder / "libcuda.so.1").exists():
            parser.error(f"{folder} has no libcuda.so.1")
        with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
            results = dict(zip(chosen, pool.map(lambda v: test(v, args, folder), chosen)))
    print("runtime   " + " ".join(f"{step:>8}" for step in STEPS))
    failures = []
    for version, result in results.items():
        marks = []
        for step in STEPS:
            answer = result.get(step, "not run")
            marks.append(answer if answer in ("ok", "-") else "FAIL")
        failures += [f"{version} {step}: {why}" for step, why in result.items()
                     if why not in ("ok", "-")]
        failures += [f"{version}: the program did not run"] if not result else []
        print(f"{version:<10}" + " ".join(f"{mark:>8}" for mark in marks))
    for failure in failures:
        print(failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
