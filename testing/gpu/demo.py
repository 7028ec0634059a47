"""CUDA programs on this machine's GPU, natively and through Busbar, side by side.

    python3 testing/gpu/demo.py [--dist dist] [--python PYTHON] [--only NAME ...] [--json FILE]

A C program that asks the driver alone; with nvcc, a CUDA program too; and where PYTHON has PyTorch,
PyTorch programs. Where a mount namespace can be made (root), the programs that run through Busbar
cannot see the driver at all; elsewhere their own counters show that they went through Busbar. The
exit status is 1 when an output differs or did not come through Busbar.
"""

import argparse
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

from remote import hiding

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"
sys.path.insert(0, str(HERE.parent / "e2e"))
from side_by_side import (  # noqa: E402
    Program,
    Server,
    compare_all,
    environment,
    losses,
    report,
    say,
    start,
)


def compiled(command, source, exe, *libraries):
    """Compiles a program. Returns what is wrong, or nothing."""
    try:
        done = subprocess.run([*command, "-o", exe, PROGRAMS / source, *libraries],
                              capture_output=True, text=True, timeout=120)
    except (OSError, subprocess.TimeoutExpired) as e:
        return str(e)
    return (done.stderr.strip().splitlines() or ["?"])[-1] if done.returncode else None


def nvcc():
    """The CUDA compiler, which is often installed where no shell looks."""
    return shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")


def without_torch(python):
    """Why this interpreter runs no PyTorch on the GPU; nothing if it does."""
    script = "import torch, sys; sys.exit(0 if torch.cuda.is_available() else 3)"
    try:
        done = subprocess.run([python, "-c", script], capture_output=True, timeout=120)
    except (OSError, subprocess.TimeoutExpired) as e:
        return str(e)
    if done.returncode == 3:
        return f"the PyTorch of {python} sees no GPU"
    return done.returncode and f"{python} has no PyTorch; --python names another"


def energy(lines):
    return lines[0].split(", ")[-1] if lines else "nothing"


def programs(python, work):
    """The programs of this run, and what cannot run with the reason."""
    chosen, absent = [], []
    if error := compiled(["cc", "-O1"], "orbits_driver.c", work / "orbits", "-ldl"):
        absent.append(("orbits in C", f"does not compile: {error}"))
    else:
        chosen.append(Program("orbits in C", [work / "orbits"], show=energy))
    if not nvcc():
        absent.append(("n-body in CUDA", "there is no nvcc here"))
    elif error := compiled(
        [nvcc(), "-O2", "-std=c++17", "-arch=native"], "nbody.cu", work / "nbody"
    ):
        absent.append(("n-body in CUDA", f"nvcc makes nothing of it: {error}"))
    else:
        chosen.append(Program("n-body in CUDA", [work / "nbody"], show=energy))
    if why := without_torch(python):
        absent.append(("PyTorch", why))
        return chosen, absent
    chosen.append(Program("PyTorch operations", [python, PROGRAMS / "smoke.py"], limit=300,
                          show=lambda x: f"{len(x)} lines"))
    chosen.append(Program("PyTorch ResNet", [python, PROGRAMS / "train.py", 50, "fp32"], limit=300,
                          show=losses, every=10))
    return chosen, absent


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--dist", default="dist", help="tree that `cargo xtask dist` makes")
    p.add_argument("--python", default="python3", help="an interpreter that has PyTorch")
    p.add_argument("--only", nargs="+", default=[], metavar="NAME",
                   help="programs whose name has this in it")
    p.add_argument("--json", metavar="FILE", help="write the results there too")
    args = p.parse_args()
    begun = time.monotonic()
    base = environment()
    with tempfile.TemporaryDirectory(prefix="busbar-demo-") as work:
        say("   compiling the programs ...")
        chosen, absent = programs(args.python, pathlib.Path(work))
        chosen = [c for c in chosen if not args.only or any(o in c.name for o in args.only)]
        with Server(args.dist, base, "cuda") as server:
            prefix = server.prefix()
            say(f"\n  a Busbar server listens on {server.address}; each program runs natively, "
                "then through it")
            if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode == 0:
                prefix = hiding(work) + prefix
                say("  without the driver: the second run does not see the GPU's devices")
            else:
                say("  (to hide the driver from the second run takes root; so its counters show "
                    "that it went through Busbar)")
            rows = compare_all(chosen, base, prefix)
    report(rows, absent, time.monotonic() - begun, args.json)


if __name__ == "__main__":
    start(main)
