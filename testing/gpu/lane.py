"""The GPU lane: runs every program natively and through Busbar on one machine, and compares.

    python3 testing/gpu/lane.py --dist dist [--only NAME ...] [--jobs 4] [--turns] [--json FILE]

The server runs as it is; a client runs in a mount namespace in which the driver's files are gone,
so that nothing can reach the GPU but Busbar. A program passes when both runs exit with the same
status and print the same lines. Lines that begin with `#` are for people and are not compared. A
program whose native output differs from run to run is held against `tolerance: X` lines of its own,
if it prints any. Needs root (for the namespace), an NVIDIA GPU, and what the programs import.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

from remote import Remote, compare, run

HERE = pathlib.Path(__file__).resolve().parent
# Name, command ({py}: this folder's programs; {bin}: compiled ones), seconds allowed.
PROGRAMS = [
    ("torch-smoke", "{python} {py}/smoke.py", 90),
    ("train-fp32", "{python} {py}/train.py 50 fp32", 90),
    ("train-bf16", "{python} {py}/train.py 50 bf16", 90),
    ("torch-ops", "{python} {py}/torch_ops.py", 120),
    ("torch-models", "{python} {py}/torch_models.py", 200),
    ("torch-loader", "{python} {py}/torch_loader.py", 120),
    ("torch-graphs", "{python} {py}/graphs_torch.py", 120),
    (
        "torch-segments",
        "env PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True {python} {py}/train.py 20",
        90,
    ),
    (
        "torch-async-pool",
        "env PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync {python} {py}/train.py 20",
        90,
    ),
    ("torch-compile", "{python} {py}/torch_compile.py", 280),
    ("torch-profiler", "{python} {py}/torch_profiler.py", 120),
    ("jax", "{python} {py}/jax_ops.py", 200),
    ("cupy", "{python} {py}/cupy_ops.py", 150),
    ("triton", "{python} {py}/triton_ops.py", 150),
    ("numba", "{python} {py}/numba_ops.py", 100),
    ("generate", "{python} {py}/generate.py", 200),
    ("jax-flax", "{python} {py}/jax_flax.py", 200),
    ("compile-kernel", "{python} {py}/compile_kernel.py", 90),
    ("nvml", "{python} {py}/nvml.py", 60),
    ("visible", "{python} {py}/visible.py", 120),
    ("nccl-one-rank", "{python} {py}/nccl_one_rank.py", 150),
    ("ddp-two-ranks", "{python} {py}/ddp_two_ranks.py", 200),
    ("graphs_driver", "{bin}/graphs_driver", 60),
    ("null_arguments", "{bin}/null_arguments", 240),
]
# Programs whose collectives run at the server.
COLLECTIVES = ("nccl-one-rank", "ddp-two-ranks")
# What a program needs beyond the usual, by the end or the whole of its name.
FLAGS = {
    "_rdc": ["-rdc=true"],
    "_ptds": ["--default-stream=per-thread"],
    "activity": ["-lcupti"],
    "libraries": ["-lcublas", "-lcufft", "-lcusolver", "-lcusparse", "-lcurand"],
}
for source in sorted((HERE / "programs").glob("*.cu")):
    if source.stem == "random_calls":
        continue
    # Those that make contexts one after the other, or have kernels wait for the program, take long
    # beside others that do.
    slow = ("doc_contexts", "environment", "concurrent", "system_atomics")
    limit = 150 if source.stem in slow else 60
    for kind in ("static", "shared"):
        PROGRAMS.append((f"{source.stem}-{kind}", f"{{bin}}/{source.stem}-{kind}", limit))
# Programs made at random: their first seed, how many, steps of each, threads, and devices.
DEVICES = min(2, len(list(pathlib.Path("/dev").glob("nvidia[0-9]*"))) or 1)
for first, many, steps, threads, devices in (
    (30001, 8, 100, 1, 1),
    (33001, 8, 100, 1, 1),
    (34001, 6, 100, 2, 1),
    (32019, 8, 60, 3, 1),
    (35001, 6, 100, 1, DEVICES),
    (36001, 6, 60, 3, DEVICES),
):
    command = "{bin}/random_calls-static"
    numbers = f"{first} {many} {steps} {threads} {devices}"
    PROGRAMS.append((f"random-{first}", f"{command} {numbers}", 150))
for extra in ("managed_numba_cupy", "ipc_torch", "reach", "exec_copies"):
    PROGRAMS.append((extra, f"{{python}} {{py}}/{extra}.py", 120))


def asked_for(name, only):
    return not only or any(re.fullmatch(o, name) for o in only)


def compile_all(folder, only):
    """Compiles each .cu with the static and with the shared runtime, each .c; says which failed."""
    failed = {}
    jobs = []
    for source in sorted((HERE / "programs").glob("*.cu")):
        for kind in ("static", "shared"):
            name = f"{source.stem}-{kind}"
            users = [n for n, command, _ in PROGRAMS if f"/{name}" in command]
            if not any(asked_for(n, only) for n in users):
                continue
            out = folder / name
            flags = [f for end, more in FLAGS.items() if source.stem.endswith(end) for f in more]
            cmd = [
                "nvcc",
                "-arch=sm_90",
                "-std=c++17",
                f"-cudart={kind}",
                "-o",
                str(out),
                str(source),
                *flags,
                "-lcuda",
            ]
            jobs.append((name, cmd))
    for source in sorted((HERE / "programs").glob("*.c")):
        if asked_for(source.stem, only):
            jobs.append(
                (
                    source.stem,
                    ["nvcc", "-cudart=none", "-o", str(folder / source.stem), str(source), "-ldl"],
                )
            )
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for (name, _), r in zip(
            jobs, pool.map(lambda j: subprocess.run(j[1], capture_output=True, text=True), jobs)
        ):
            if r.returncode != 0:
                failed[name] = r.stderr.strip().splitlines()[-1:]
    return failed


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--dist", default="dist")
    p.add_argument("--only", nargs="*", default=[], help="names to run (regular expressions)")
    p.add_argument("--jobs", type=int, default=4)
    p.add_argument("--json")
    p.add_argument("--logs", help="folder for the output of what did not pass")
    p.add_argument("--port", type=int, default=7411)
    p.add_argument("--timeout-scale", type=float, default=1.0)
    p.add_argument("--tls", action="store_true", help="encrypt, as for clients elsewhere")
    p.add_argument("--link", help="over an emulated network (`busbar link --help` lists them)")
    p.add_argument("--turns", action="store_true", help="have the device in turns, as with shares")
    p.add_argument("--minutes", type=float, help="no program begins after this time")
    a = p.parse_args()
    began = time.monotonic()
    dist = pathlib.Path(a.dist).resolve()
    work = pathlib.Path(tempfile.mkdtemp(prefix="busbar-gpu-"))
    logs = pathlib.Path(a.logs or work / "logs")
    logs.mkdir(parents=True, exist_ok=True)
    failed = compile_all(work, a.only) if shutil.which("nvcc") else {}
    rows = []

    def one(entry):
        name, cmd, limit = entry
        if a.minutes and time.monotonic() - began > a.minutes * 60:
            return None
        broken = next((said for n, said in failed.items() if f"/{n}" in cmd), None)
        if broken is not None:
            return {"name": name, "verdict": "FAIL", "why": f"does not compile: {broken}"}
        words = cmd.format(python=sys.executable, py=HERE / "programs", bin=work).split()
        script = next(
            (w for w in words if w.startswith(str(HERE)) or w.startswith(str(work))), None
        )
        if script and not pathlib.Path(script).exists():
            return {"name": name, "verdict": "-", "why": "no such program here"}
        limit *= a.timeout_scale
        env = dict(os.environ, PYTHONUNBUFFERED="1")
        native = run(words, limit, env)
        renv = dict(env, BUSBAR_STATS="1", BUSBAR_LOG=f"warn:{logs}/{name}.client.log")
        if name in COLLECTIVES:
            renv["BUSBAR_NCCL"] = "1"
        remote = run(server.prefix() + words, limit, renv)
        verdict, why = compare(native, remote)
        stats = {}
        for line in remote["err"].splitlines():
            if line.startswith("busbar-stats: "):
                stats = json.loads(line.split(" ", 1)[1])
        if verdict != "same":
            (logs / f"{name}.txt").write_text(
                "== native\n"
                + native["out"]
                + native["err"][-6000:]
                + "\n== remote\n"
                + remote["out"]
                + remote["err"][-9000:]
            )
        return {
            "name": name,
            "verdict": verdict,
            "why": why,
            "native_s": native["seconds"],
            "remote_s": remote["seconds"],
            "calls": stats.get("calls"),
            "round_trips": stats.get("round_trips"),
        }

    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    gpu = subprocess.run(query, capture_output=True, text=True).stdout.strip()
    chosen = [e for e in PROGRAMS if asked_for(e[0], a.only)]
    options = ["--turns", "always"] if a.turns else []
    at = (dist, a.port, work, logs / "serve.log", options)
    with Remote(*at, tls=a.tls, link=a.link) as server:
        with concurrent.futures.ThreadPoolExecutor(a.jobs) as pool:
            # As they come: a run that is cut short has told what it saw.
            print(
                f"{'program':<28} {'result':<6} {'native s':>9} {'remote s':>9} {'calls':>9} "
                f"{'trips':>7}"
            )
            for future in concurrent.futures.as_completed([pool.submit(one, e) for e in chosen]):
                r = future.result()
                if r is None:
                    continue
                rows.append(r)
                n, m = (f"{r[k]:.1f}" if r.get(k) else "" for k in ("native_s", "remote_s"))
                print(
                    f"{r['name']:<28} {r['verdict']:<6} {n:>9} {m:>9} "
                    f"{r.get('calls') or '':>9} {r.get('round_trips') or '':>7}  {r['why']}",
                    flush=True,
                )
                if a.json:
                    said = json.dumps({"gpu": gpu, "rows": rows}, indent=1)
                    pathlib.Path(a.json).write_text(said)
    bad = [r for r in rows if r["verdict"] not in ("same", "-")]
    left = len(chosen) - len(rows)
    late = f", {left} not begun in time" if left else ""
    print(f"{len(rows) - len(bad)} passed, {len(bad)} failed{late}")
    sys.exit(1 if bad else 0)


main()
