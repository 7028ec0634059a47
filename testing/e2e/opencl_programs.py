#!/usr/bin/env python3
"""Unmodified OpenCL programs, natively and through Busbar on the same device, side by side.

    python3 testing/e2e/opencl_programs.py [--dist dist] [--quick | --full] [--only NAME ...]
                                           [--json FILE]

Installs what is missing (testing/setup.sh), starts a server on this machine, and runs
every program twice. A program passes when both runs exit alike and print the same result, and the
second one did go through Busbar. The exit status is 1 when any did not. Compiled kernels stay in
.cache, so that later runs are quick.
"""

import argparse
import hashlib
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

from side_by_side import (
    CACHE,
    HERE,
    ROOT,
    Program,
    Server,
    compare_all,
    environment,
    losses,
    report,
    say,
    start,
)

PYTHON = ROOT / ".venv/bin/python"
PROGRAMS = HERE / "programs"


# What cannot be equal: memory shared with the host or with other APIs and host functions are
# refused through Busbar, and the rest is memory that happens to be free.
CLINFO_MAY_DIFFER = (
    "_EXTENSIONS", "_EXTERNAL_MEMORY_", "_SEMAPHORE_", "CL_DEVICE_SVM_CAPABILITIES",
    "CL_DEVICE_EXECUTION_CAPABILITIES", "CL_DEVICE_COMMAND_BUFFER", "CL_DEVICE_GLOBAL_MEM_SIZE",
    "CL_DEVICE_MAX_MEM_ALLOC_SIZE")


def clinfo_lines(out):
    return [line for line in out.splitlines()
            if not line.startswith("   ") and not any(word in line for word in CLINFO_MAY_DIFFER)]


def matching(*patterns):
    return lambda out: [x for x in out.splitlines() if any(re.search(p, x) for p in patterns)]


def clpeak_lines(out):
    """What it measured, without the figures, which differ from run to run."""
    rows = re.findall(r"^\s*([\w ./()-]+?)\s*:\s*[\d.]+(?: us)?\s*$", out, re.M)
    return [f"{len(rows)} figures"] + rows if rows else []


def hashcat_speed_lines(out):
    """That the self-test passed and a speed was found; not the speed."""
    modes = re.findall(r"^\* (Hash-Mode .*)$", out, re.M)
    speeds = re.findall(r"^Speed\.#\d+\.*:\s+[\d.]+ \w?H/s", out, re.M)
    return modes + ["speed measured"] * len(speeds)


def clblast_lines(out):
    """Passed, skipped and failed tests, without colours and the name of the device."""
    plain = re.sub(r"\x1b\[[\d;]*m", "", out)
    return [x.strip() for x in plain.splitlines() if re.search(r"passed|failed|Testing", x)]


def last(lines):
    return lines[-1] if lines else "nothing"


def compile_c(source, exe, *flags):
    """Compiles a program of this folder. Returns what the compiler says is wrong, or nothing."""
    compiler = "g++" if source.endswith("cpp") else "gcc"
    libraries = ["-lOpenCL", "-lpthread", "-lm"]
    command = [compiler, "-O1", *flags, "-o", exe, PROGRAMS / source, *libraries]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError as e:
        return str(e)
    return (done.stderr.strip().splitlines() or ["?"])[0] if done.returncode else None


# Those of ffmpeg whose results do not depend on chance.
FILTERS = (
    "avgblur_opencl=3,unsharp_opencl=lx=5:ly=5", "boxblur_opencl=5",
    "convolution_opencl=0m=1 1 1 1 1 1 1 1 1", "dilation_opencl", "erosion_opencl",
    "nlmeans_opencl=s=2:p=3:r=5", "pad_opencl=400:300:20:20", "prewitt_opencl", "roberts_opencl",
    "sobel_opencl", "transpose_opencl=1")


def ffmpeg():
    """A command that applies each to a video, and one filter each to two of them at a time."""
    inputs = [["-f", "lavfi", "-i", f"{source}=size=320x240:rate=5:duration=1"]
              for source in ("testsrc2", "testsrc")]
    to, back = "format=yuv420p,hwupload", "hwdownload,format=yuv420p"
    two = ("overlay_opencl=20:30", "xfade_opencl=transition=wipeleft:duration=0.5:offset=0.3")
    n = len(FILTERS) + len(two)
    graph = [f"[0:v]split={n}" + "".join(f"[a{i}]" for i in range(n))]
    graph += [f"[1:v]split={len(two)}" + "".join(f"[b{i}]" for i in range(len(two)))]
    graph += [f"[a{i}]{to},{f},{back}[out{i}]" for i, f in enumerate(FILTERS)]
    for i, f in enumerate(two):
        at = len(FILTERS) + i
        graph += [f"[a{at}]{to}[c{i}];[b{i}]{to}[d{i}];[c{i}][d{i}]{f},{back}[out{at}]"]
    outputs = [word for i in range(n) for word in ("-map", f"[out{i}]", "-f", "md5", "-")]
    return ["ffmpeg", "-hide_banner", "-loglevel", "error", "-init_hw_device", "opencl=d:0.0",
            "-filter_hw_device", "d", *inputs[0], *inputs[1], "-filter_complex", ";".join(graph),
            *outputs]


def programs(args, work):
    """The programs of this run, and what cannot run with the reason."""
    chosen, absent = [], []
    chosen.append(Program("clinfo", ["clinfo", "--raw"], env={"BUSBAR_DEVICE_NAMES": "plain"},
                          lines=clinfo_lines, show=lambda lines: f"{len(lines)} facts"))
    for name, title, show in (
        ("opencl_nbody", "n-body in C", lambda x: x[0].split(", ")[-1] if x else "nothing"),
        ("opencl_features", "every call family", lambda x: f"{len(x)} lines"),
    ):
        if error := compile_c(f"{name}.c", work / name, "-Wno-deprecated-declarations"):
            absent.append((title, f"does not compile: {error}"))
        else:
            chosen.append(Program(title, [work / name], show=show))
    chosen.append(Program("pyopencl matmul", [PYTHON, PROGRAMS / "opencl_matmul.py", 512],
                          show=lambda x: "sum " + x[0].split()[-1] if x else "nothing"))
    chosen.append(Program("tinygrad ResNet",
                          [PYTHON, PROGRAMS / "tinygrad_resnet.py", 3 if args.quick else 10],
                          limit=480, env={"DEV": "CL", "TRAINING": "1"}, show=losses, every=1))
    if args.full:
        more, missing = programs_of_others(work)
        chosen += more
        absent += missing
    return chosen, absent


def programs_of_others(work):
    """Programs of package registries that are here, and those that are not."""
    chosen, absent = [], []

    def offer(present, *of, why="not installed"):
        if present:
            chosen.extend(of)
        else:
            absent.extend((p.name, why) for p in of)

    secret = hashlib.md5(b"zebra7").hexdigest()
    crack = ["hashcat", "-m0", "-a3", "-D", "1", "--potfile-disable", "--force", "--session",
             "busbar", secret, "?l?l?l?l?l?d"]
    offer(shutil.which("hashcat"), *(
        Program("hashcat -m0" + turn, crack, limit=180,
                lines=matching(r"^[0-9a-f]{32}:", r"^Status\."),
                show=lambda x: x[0].split(":")[-1] if x else "nothing")
        for turn in ("", " again")),
        Program("hashcat benchmark", ["hashcat", "-b", "-m", "0", "-D", "1", "--force"], limit=300,
                lines=hashcat_speed_lines, show=last))
    offer(shutil.which("clpeak"), Program(
        "clpeak", ["clpeak", "--kernel-latency", "--transfer-bandwidth"], limit=600,
        lines=clpeak_lines))
    # Checks its results against a reference implementation, argument errors included.
    offer(shutil.which("clblast_test_xaxpy"), Program(
        "CLBlast xAXPY", ["clblast_test_xaxpy", "-n", "4096"], limit=240, lines=clblast_lines,
        show=last))
    # OpenCL filters over generated videos, down to the MD5 of every pixel of each.
    offer(shutil.which("ffmpeg"), Program(
        "ffmpeg filters", ffmpeg(), limit=240, show=lambda x: f"{len(x)} videos"))
    has_opencv = subprocess.run([PYTHON, "-c", "import cv2"], capture_output=True)
    offer(has_opencv.returncode == 0, Program(
        "OpenCV", [PYTHON, PROGRAMS / "opencv_umat.py"], limit=900,
        show=lambda x: f"{len(x)} results"))
    exe = work / "viennacl_cg"
    offer(compile_c("viennacl_cg.cpp", exe, "-w") is None, Program(
        "ViennaCL CG", [exe], show=lambda x: x[0].split(", ")[1] if x else "nothing"),
        why="its headers are not installed")
    has_lightgbm = subprocess.run([PYTHON, "-c", "import lightgbm"], capture_output=True)
    offer(has_lightgbm.returncode == 0, Program(
        "LightGBM", [PYTHON, PROGRAMS / "lightgbm_gpu.py"], limit=180))
    return chosen, absent


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--dist", default=str(ROOT / "dist"), help="tree that `cargo xtask dist` makes")
    p.add_argument("--quick", action="store_true", help="fewer training steps, for CI")
    p.add_argument("--full", action="store_true",
                   help="also hashcat, clpeak, CLBlast, ffmpeg, OpenCV, ViennaCL and LightGBM")
    p.add_argument("--only", nargs="+", default=[], metavar="NAME",
                   help="programs whose name has this in it")
    p.add_argument("--json", metavar="FILE", help="write the results there too")
    p.add_argument("--no-setup", action="store_true", help="install nothing")
    args = p.parse_args()
    if not args.no_setup:
        setup = [ROOT / "testing/setup.sh", "full" if args.full else "opencl"]
        if subprocess.run(setup).returncode:
            sys.exit(1)
    base = environment(POCL_CACHE_DIR=str(CACHE / "pocl"))
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="busbar-opencl-") as work:
        chosen, absent = programs(args, pathlib.Path(work))
        chosen = [c for c in chosen if not args.only or any(o in c.name for o in args.only)]
        with Server(args.dist, base, "opencl") as server:
            say(f"\n  a Busbar server listens on {server.address}; each program runs natively, "
                "then through it")
            rows = compare_all(chosen, base, server.prefix())
    report(rows, absent, time.monotonic() - begun, args.json)


if __name__ == "__main__":
    start(main)
