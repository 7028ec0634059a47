"""What the numbers were measured on."""

import os
import platform
import shutil
import subprocess


def _output(*command):
    if shutil.which(command[0]) is None:
        return None
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _cpu():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            found = [line for line in file if line.startswith("model name")]
    except OSError:
        found = []
    return found[0].split(":", 1)[1].strip() if found else platform.processor()


def _gpus():
    fields = "name,driver_version,memory.total,clocks.max.sm,pcie.link.gen.max,pcie.link.width.max"
    text = _output("nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader")
    if not text:
        return []
    names = fields.split(",")
    rows = [map(str.strip, line.split(",")) for line in text.splitlines()]
    return [dict(zip(names, row, strict=False)) for row in rows]


def describe():
    """The machine, as far as it can be told without a GPU library."""
    return {
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)),
        "load": list(os.getloadavg()),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "gpus": _gpus(),
    }
