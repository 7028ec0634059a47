"""A part of a GPU's memory: a program takes all that it can, and its neighbour notices nothing.

    python3 testing/gpu/quota.py --dist dist [--seconds 300] [--part 8GiB] [--small]
    python3 testing/gpu/quota.py --dist dist --beyond

Sixteen threads of the one (quota.cu) take memory in every way that there is and give it back, at
random; whatever is refused is refused for want of memory. The other computes and allocates
meanwhile, with PyTorch, and compares. What the server says that the session holds is asked all the
time, and what NVML says of its worker: never more than its part. With `--small` nine of ten are
small and of pools, so that there are many more. With `--beyond` a program takes what a driver takes
without being asked, and it says what the server counts and what NVML says. Needs root, nvcc,
PyTorch and nvidia-smi.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile
import time

from remote import Remote, sessions, start, stop

HERE = pathlib.Path(__file__).resolve().parent
SIZES = {"MiB": 1 << 20, "GiB": 1 << 30}


def neighbour(seconds):
    """Computes for so long, with memory that comes and goes; says how often."""
    import torch

    x = torch.arange(1 << 20, device="cuda", dtype=torch.float32)
    wanted, steps, longest = (x * 2 + 1).sum().item(), 0, 0.0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        begun = time.monotonic()
        y = torch.full((1 << 24,), float(steps % 7), device="cuda")
        assert y[12345].item() == steps % 7
        assert (x * 2 + 1).sum().item() == wanted
        del y
        if steps % 50 == 0:
            torch.cuda.empty_cache()
        steps += 1
        longest = max(longest, time.monotonic() - begun)
    print(f"{steps} steps, the longest {longest * 1e3:.1f} ms", flush=True)


def held(server, part):
    """The session with that part: bytes that it holds, by kind, and its worker; or None."""
    listed = sessions(server.busbar, server.server)
    mine = [s for s in listed if s.get("memory_limit") == part]
    if not mine:
        return None
    return {k: m["bytes"] for k, m in mine[0]["memory"].items()}, mine[0]["worker_pid"]


def of_nvml(pid):
    """Bytes of the GPU's that NVML says a process has; 0 where it says nothing."""
    query = ["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"]
    said = subprocess.run(query, capture_output=True, text=True, timeout=30).stdout
    rows = [line.split(",") for line in said.splitlines()]
    used = [r[1].strip() for r in rows if r[0].strip() == str(pid)]
    return int(used[0]) << 20 if used and used[0].isdigit() else 0


def beyond(server, program, part, named):
    """What NVML says that a session has beyond what the server counts, step by step."""
    command = [*server.prefix()[:-1], "-m", named, "--", program, "beyond"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as process:
        for line in process.stdout:
            time.sleep(1)
            now = held(server, part)
            if not now:
                print(line.strip())
                continue
            mine, all_ = sum(now[0].values()), of_nvml(now[1])
            print(f"{line.strip():<28} counted {mine}, NVML {all_}: {all_ - mine:+}", flush=True)
            process.stdin.write("\n")
            process.stdin.flush()
    return process.returncode


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--dist", default="dist")
    p.add_argument("--seconds", type=float, default=60)
    p.add_argument("--part", default="8GiB", help="as `busbar run -m` takes it")
    p.add_argument("--small", action="store_true", help="mostly small memory of pools")
    p.add_argument("--port", type=int, default=7460)
    p.add_argument("--beyond", action="store_true")
    p.add_argument("--neighbour", type=float, help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.neighbour:
        return neighbour(a.neighbour)
    part = int(a.part[:-3]) * SIZES[a.part[-3:]]
    with tempfile.TemporaryDirectory(prefix="busbar-quota-") as work:
        program = f"{work}/quota"
        build = ["nvcc", "-std=c++17", "-o", program, str(HERE / "quota.cu"), "-lcuda"]
        subprocess.run(build, check=True)
        with Remote(a.dist, a.port, work, f"{work}/serve.log") as server:
            if a.beyond:
                sys.exit(beyond(server, program, part, a.part))
            prefix = server.prefix()
            beside = [sys.executable, __file__, "--neighbour", str(a.seconds + 10)]
            files = [open(f"{work}/{name}", "w+") for name in ("greedy", "beside")]
            other = start([*prefix, *beside], stdout=files[1], stderr=subprocess.STDOUT)
            time.sleep(8)
            command = [*prefix[:-1], "-m", a.part, "--", program, str(a.seconds)]
            command += ["small"] if a.small else []
            greedy = start(command, stdout=files[0], stderr=subprocess.STDOUT)
            most, seen, nvml, asked = 0, {}, 0, 0
            while greedy.poll() is None:
                now = held(server, part)
                if now:
                    asked += 1
                    if sum(now[0].values()) > most:
                        most, seen = sum(now[0].values()), now[0]
                    if asked % 3 == 0:
                        nvml = max(nvml, of_nvml(now[1]))
                time.sleep(0.05)
            rest = other.wait(a.seconds + 60)
            stop(other)
            texts = []
            for file in files:
                file.seek(0)
                texts.append(file.read().strip())
        print(f"greedy: {greedy.returncode}: {texts[0]}\nneighbour: {rest}: {texts[1]}")
        print(f"held at most {most} of {part}, asked {asked} times: {seen}")
        print(f"NVML: at most {nvml} ({nvml - part:+} of the part)")
        good = greedy.returncode == 0 and rest == 0
        good = good and 0 < most <= part and 0 < nvml <= part
        print("passed" if good else "FAILED")
        sys.exit(0 if good else 1)


main()
