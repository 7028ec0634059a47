"""What becomes of training on a GPU when something dies, and how soon.

    python3 testing/gpu/faults.py [--dist dist] [--cut 30] [--kills 5] [--json FILE]

Programs train through Busbar and print each loss with all its digits. Then the link is cut for some
seconds, a worker, a server or the program itself is killed, many sessions begin and end, and
workers run confined. Each row of the table says what was expected, what came of it, and after how
many milliseconds. The exit status is 1 when anything else came of it. Needs root, and PyTorch;
another program can be named that prints `step N ...` for each step, the same at each run.
"""

import argparse
import concurrent.futures
import ctypes
import json
import pathlib
import random
import shlex
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from remote import Remote, start, stop

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))
from side_by_side import session_of, sessions  # noqa: E402

# Longer than anything here takes, and than any wait that Busbar is told of.
PATIENCE = 150
# A session that allocates memory and ends.
VISIT = """
import ctypes
cuda, v, p = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
ok = [cuda.cuInit(0), cuda.cuCtxCreate_v2(ctypes.byref(v), 0, 0),
      cuda.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(64 << 20)), cuda.cuCtxSynchronize()]
raise SystemExit(any(ok))
"""


class Memory:
    """How much of the GPU's memory is in use, as the driver says."""

    def __init__(self):
        try:
            self.nvml = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError:
            self.nvml = None
            return
        self.device = ctypes.c_void_p()
        self.nvml.nvmlInit_v2()
        self.nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.device))

    def used(self):
        """Bytes; None where there is no NVML."""
        if self.nvml is None:
            return None
        total_free_used = (ctypes.c_ulonglong * 3)()
        self.nvml.nvmlDeviceGetMemoryInfo(self.device, total_free_used)
        return total_free_used[2]

    def falls_to(self, before):
        """The seconds until no more is in use than before; None if that takes too long."""
        begun = time.monotonic()
        # The driver itself takes and gives back some MiB.
        while self.nvml and self.used() > before + (32 << 20):
            if time.monotonic() - begun > 20:
                return None
            time.sleep(0.005)
        return time.monotonic() - begun


class Training:
    """A program that trains, with its output followed from a thread."""

    def __init__(self, command):
        self.process = start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.lines, self.errors, self.ended = [], [], None
        self.more = threading.Condition()
        self.threads = [threading.Thread(target=t) for t in (self.follow, self.hear)]
        for t in self.threads:
            t.start()

    def follow(self):
        for line in self.process.stdout:
            if not line.startswith("#"):
                with self.more:
                    self.lines.append(line.rstrip())
                    self.more.notify_all()
        self.process.wait()
        with self.more:
            self.ended = time.monotonic()
            self.more.notify_all()

    def hear(self):
        self.errors.extend(self.process.stderr)

    def reaches(self, step):
        """Waits for that many steps; says whether they were made."""
        with self.more:
            self.more.wait_for(lambda: len(self.lines) >= step or self.ended, PATIENCE)
            return len(self.lines) >= step

    def end(self):
        """Waits for it: its exit status, or what it did instead of ending."""
        with self.more:
            self.more.wait_for(lambda: self.ended, PATIENCE)
        hangs = self.ended is None
        stop(self.process)
        for t in self.threads:
            t.join()
        return "hangs" if hangs else self.process.returncode

    def complaint(self):
        """Its last words."""
        said = [e.strip() for e in self.errors if "rror" in e]
        return (said or ["no error"])[-1][:90]


def listed(server):
    """How many sessions are listed a second after the last has ended."""
    begun = time.monotonic()
    while (left := len(sessions(server.busbar, server.server))) and time.monotonic() - begun < 1:
        time.sleep(0.02)
    return left


class Lane:
    """The runs, and their table."""

    def __init__(self, args, work):
        self.args, self.work, self.rows = args, pathlib.Path(work), []
        self.port = args.port
        self.memory = Memory()

    def server(self, *more):
        self.port += 1
        log = self.work / f"server-{self.port}.log"
        return Remote(self.args.dist, self.port, self.work, log, more)

    def program(self, steps):
        return [*shlex.split(self.args.program), str(steps)]

    def row(self, what, wanted, outcomes, times=()):
        good = all(o == wanted or o.startswith(wanted + ":") for o in outcomes)
        times = [round(t * 1000, 1) for t in times if t is not None]
        row = {"what": what, "wanted": wanted, "came": sorted(set(outcomes)), "ms": times,
               "good": good, "times": len(outcomes)}
        self.rows.append(row)
        took = f"{statistics.median(times):.0f} ms, at most {max(times):.0f}" if times else ""
        print(f"{'ok' if good else 'NOT':4} {what:44} {len(outcomes):3} x  {took:26} "
              f"{'; '.join(row['came'])}", flush=True)

    def link_cut(self, native):
        steps = len(native)
        with self.server() as server:
            link = subprocess.Popen(
                [server.busbar, "link", "--listen", "127.0.0.1:0", "--to", server.server,
                 "--preset", "vmxnet3-10g", "--control", "-", "--json"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            address = json.loads(link.stdout.readline())["listening"]
            prefix = [*server.hide, str(server.busbar), "run", "--server", address, "--"]
            t = Training([*prefix, *self.program(steps)])
            t.reaches(steps // 3)
            link.stdin.write(f"cut {self.args.cut}s\n")
            link.stdin.flush()
            cut = time.monotonic()
            status = t.end()
            slept = (t.ended or cut) - cut >= self.args.cut
            came = "losses as natively" if t.lines == native and status == 0 and slept else (
                f"exit {status} after {len(t.lines)} steps: {t.complaint()}")
            link.kill()
            link.wait()
        self.row(f"link cut for {self.args.cut} s in mid-training", "losses as natively", [came])

    def workers_killed(self, native):
        outcomes, times = [], []
        with self.server() as server:
            other = Training([*server.prefix(), *self.program(len(native))])
            for _ in range(3):
                t = Training([*server.prefix(), *self.program(10**6)])
                t.reaches(random.randint(5, 100))
                pid = session_of(server.busbar, server.server, t.process.pid)["worker_pid"]
                subprocess.run(["kill", "-9", str(pid)], check=True)
                begun = time.monotonic()
                status = t.end()
                times.append((t.ended or begun) - begun)
                outcomes.append(f"CUDA error: exit {status}, {t.complaint()}"
                                if status not in (0, "hangs") and t.errors else f"exit {status}")
            status = other.end()
        self.row("worker killed: its program", "CUDA error", outcomes, times)
        same = status == 0 and other.lines == native
        self.row("worker killed: another session", "losses as natively",
                 ["losses as natively" if same else f"exit {status}: {other.complaint()}"])

    def confined(self, native):
        with self.server("--isolation", "off") as server:
            t = Training([*server.prefix(), *self.program(len(native))])
            status = t.end()
        same = status == 0 and t.lines == native
        self.row("workers that are not isolated", "losses as natively",
                 ["losses as natively" if same else f"exit {status}: {t.complaint()}"])

    def programs_killed(self):
        outcomes, times = [], []
        with self.server() as server:
            before = self.memory.used()
            for i in range(self.args.kills):
                t = Training([*server.prefix(), *self.program(10**6)])
                # Also while it starts, before its first step.
                if i:
                    t.reaches(random.randint(1, 200))
                else:
                    session_of(server.busbar, server.server, t.process.pid)
                stop(t.process)
                times.append(self.memory.falls_to(before))
                t.end()
                outcomes.append("memory free" if times[-1] is not None and times[-1] < 1 else
                                "memory in use")
            left = listed(server)
        self.row("program killed: its memory on the GPU", "memory free", outcomes, times)
        self.row("program killed: its session", "gone", ["listed" if left else "gone"])

    def visits(self):
        with self.server() as server:
            command = [*server.prefix(), sys.executable, "-c", VISIT]
            subprocess.run(command, check=True)
            time.sleep(1)
            before = self.memory.used()
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                done = list(pool.map(
                    lambda _: subprocess.run(command, capture_output=True).returncode,
                    range(self.args.visits)))
            freed = self.memory.falls_to(before)
            left = listed(server)
        good = not any(done) and freed is not None and not left
        self.row(f"{self.args.visits} sessions, 8 at a time", "nothing left",
                 ["nothing left" if good else
                  f"{sum(map(bool, done))} failed, {left} listed, "
                  f"memory {'free' if freed is not None else 'in use'}"])

    def server_killed(self):
        with self.server() as server:
            before = self.memory.used()
            trainings = [Training([*server.prefix(), *self.program(10**6)]) for _ in range(2)]
            for t in trainings:
                t.reaches(20)
            server.process.kill()
            begun = time.monotonic()
            statuses = [t.end() for t in trainings]
            times = [(t.ended or begun) - begun for t in trainings]
            freed = self.memory.falls_to(before)
        outcomes = [f"error: exit {s}, {t.complaint()}" if s not in (0, "hangs") and t.errors
                    else f"exit {s}" for s, t in zip(statuses, trainings)]
        self.row("server killed: its programs", "error", outcomes, times)
        self.row("server killed: memory on the GPU", "memory free",
                 ["memory free" if freed is not None else "memory in use"])


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--dist", default="dist", help="tree that `cargo xtask dist` makes")
    p.add_argument("--cut", type=int, default=30, help="seconds that the link is cut for")
    p.add_argument("--kills", type=int, default=5, help="programs that are killed")
    p.add_argument("--visits", type=int, default=100, help="sessions that begin and end")
    p.add_argument("--steps", type=int, default=600, help="steps of a training")
    p.add_argument("--port", type=int, default=7480, help="servers listen on those after it")
    p.add_argument("--json", metavar="FILE", help="write the rows there too")
    p.add_argument("--program", default=f"{sys.executable} {HERE / 'programs/train.py'}",
                   help="what trains; the number of steps is put behind it")
    args = p.parse_args()
    with tempfile.TemporaryDirectory(prefix="busbar-faults-") as work:
        lane = Lane(args, work)
        alone = Training(lane.program(args.steps))
        if alone.end() != 0:
            sys.exit(f"the program does not run natively: {alone.complaint()}")
        # These wait most of the time; what looks at the GPU's memory is alone with it.
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            cut = pool.submit(lane.link_cut, alone.lines)
            time.sleep(1)
            lane.confined(alone.lines)
            lane.workers_killed(alone.lines)
            cut.result()
        lane.programs_killed()
        lane.visits()
        lane.server_killed()
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(lane.rows, indent=1))
    sys.exit(not all(r["good"] for r in lane.rows))


if __name__ == "__main__":
    main()
