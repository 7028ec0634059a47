"""``python -m busbar_bench.worker NAME[:BATCH[:PRECISION[:OPTIONS]]] --json``

One process that runs workloads one after another and prints one JSON object a line: first the
process's own start-up, then a line for each workload as it ends. It does not know whether the GPU
is near or far.
"""

import argparse
import gc
import json
import math
import os
import sys
import time
import traceback

from busbar_bench import spec as specs
from busbar_bench import workloads
from busbar_bench.method import measure

NO_TORCH = ("nothing",)


def process_age():
    """Seconds since this process was started, from the kernel; None where it does not say."""
    try:
        with open("/proc/self/stat", encoding="ascii") as file:
            ticks = int(file.read().rsplit(")", 1)[1].split()[19])
        with open("/proc/uptime", encoding="ascii") as file:
            return float(file.read().split()[0]) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None


def start_torch():
    """Imports PyTorch and makes the first result on the device, timing both."""
    began = time.perf_counter()
    import torch

    imported = time.perf_counter()
    line = {"torch": torch.__version__, "cuda": torch.version.cuda, "import_s": imported - began}
    if torch.cuda.is_available():
        torch.zeros(1).cuda()
        torch.cuda.synchronize()
        line["first_result_s"] = time.perf_counter() - imported
        line["gpu"] = torch.cuda.get_device_name(0)
        line["cudnn"] = torch.backends.cudnn.version()
        line["tf32"] = {
            "matmul": torch.backends.cuda.matmul.allow_tf32,
            "cudnn": torch.backends.cudnn.allow_tf32,
        }
    return line


def run_one(spec, args):
    """Measures one workload; a failure is a result too."""
    line = {"spec": str(spec), "batch": spec.batch, "precision": spec.precision}
    began = time.perf_counter()
    workload = None
    try:
        workload = workloads.build(spec, {"workers": args.workers})
        workload.synchronize()
        line["build_s"] = time.perf_counter() - began
        line.update(
            measure(
                workload,
                args.steps,
                args.warmup,
                args.block,
                spec.has("read"),
                seconds=args.seconds,
            )
        )
    except Exception as error:  # noqa: BLE001 - whatever a workload raises is its result
        line["error"] = f"{type(error).__name__}: {error}"
        traceback.print_exc()
    finally:
        if workload is not None:
            workload.close()
    return line


def release_memory():
    """Leaves the next workload the memory that the last one had."""
    gc.collect()
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return
    # Resetting a compiler that was never used would first import it, which takes seconds.
    if "torch._dynamo" in sys.modules:
        torch.compiler.reset()
    torch.cuda.empty_cache()


def parser():
    """The worker's arguments."""
    parser = argparse.ArgumentParser(prog="python -m busbar_bench.worker", description=__doc__)
    parser.add_argument("spec", nargs="?", help="NAME:BATCH:PRECISION:OPTIONS")
    parser.add_argument("--list", help="several specifications, separated by commas")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--warmup", type=int, default=10)
    parser.add_argument("--block", type=int, default=10, help="steps between two readings of time")
    parser.add_argument(
        "--seconds", type=float, default=math.inf, help="begin no block after this time"
    )
    parser.add_argument("--workers", type=int, default=8, help="DataLoader processes")
    parser.add_argument("--json", action="store_true", help="print JSON lines and nothing else")
    return parser


def main(argv=None):
    """Runs the worker; returns the exit status."""
    args = parser().parse_args(argv)
    text = ",".join(filter(None, [args.spec, args.list]))
    try:
        wanted = specs.parse_list(text)
    except ValueError as error:
        print(f"busbar-bench: {error}", file=sys.stderr)
        return 2
    if not wanted or min(args.steps, args.block) < 1 or args.warmup < 0:
        print("busbar-bench: nothing to run: name a workload, and steps above 0", file=sys.stderr)
        return 2
    process = {"process": True, "pid": os.getpid(), "start_s": process_age()}
    if any(spec.name not in NO_TORCH for spec in wanted):
        process.update(start_torch())
    emit(process, args.json)
    failed = False
    for spec in wanted:
        line = run_one(spec, args)
        emit(line, args.json)
        failed |= "error" in line
        release_memory()
    return 1 if failed else 0


def emit(line, as_json):
    """Prints one line, at once: the next workload may end the process."""
    if as_json:
        print(json.dumps(line), flush=True)
    elif line.get("process"):
        print(", ".join(f"{k}={v}" for k, v in line.items()), flush=True)
    elif "error" in line:
        print(f"{line['spec']}: {line['error']}", flush=True)
    else:
        spread = line["rate_spread"]
        print(
            f"{line['spec']}: {line['rate']:.1f} {line['unit']} "
            f"+/- {spread['uncertainty']:.1f} (jitter {spread['jitter']:.1f}), "
            f"first step {line['first_step_s'] or 0:.2f} s, warm-up {line['warmup_s']:.2f} s",
            flush=True,
        )


if __name__ == "__main__":
    sys.exit(main())
