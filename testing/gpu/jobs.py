"""The lane of jobs: ranks on two GPUs, of one server and of two, natively and through Busbar.

    python3 testing/gpu/jobs.py --dist dist [--only NAME ...] [--jobs 2] [--json FILE] [--logs DIR]

Programs run as their launchers start them, and must print the same on both sides; PyTorch's own
distributed tests end alike, one by one; and while two ranks train, a rank, a worker, a server is
killed: the other rank ends with an error that says so, and the GPUs are free. Clients see no driver
(remote.py). Two servers of one machine are two hosts to NCCL, with sockets between them. Needs
root, PyTorch and two GPUs.
"""

import argparse
import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from remote import Remote, compare, hiding, run, start, stop

HERE = pathlib.Path(__file__).resolve().parent
PY = HERE / "programs"
# A rank that is left has an error after so many seconds at most.
LOST = 30
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2"]
TORCHRUN += ["--master_port", "{port}"]
ACCELERATE = ["accelerate", "launch", "--multi_gpu", "--num_processes", "2", "--num_machines", "1"]
ACCELERATE += ["--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "{port}"]
# Name, servers, command, seconds; without `devices` of two servers natively is what one has.
PROGRAMS = [
    ("nccl_two_gpus", 1, [sys.executable, f"{PY}/nccl_two_gpus.py"], 150),
    ("nccl_two_gpus", 2, [sys.executable, f"{PY}/nccl_two_gpus.py"], 150),
    ("torchrun", 1, [*TORCHRUN, f"{PY}/ddp_job.py"], 120),
    ("torchrun", 2, [*TORCHRUN, f"{PY}/ddp_job.py"], 120),
    ("accelerate", 1, [*ACCELERATE, f"{PY}/ddp_job.py"], 120),
    ("accelerate", 2, [*ACCELERATE, f"{PY}/ddp_job.py"], 120),
    ("several_devices", 1, [sys.executable, f"{PY}/several_devices.py", "2"], 150),
    ("several_devices", 2, [sys.executable, f"{PY}/several_devices.py", "2"], 150),
]
# Instead of how many servers: that of the suite; one whose GPUs nobody reserves, as without `-n`.
SUITE, SHARED = 0, -1
PROGRAMS += [(name, SHARED, *rest) for name, count, *rest in PROGRAMS if count == 1]
KILLS = ("rank", "worker", "server")


def sorted_lines(result):
    """Ranks print in any order; that one device reaches the other is said of one server alone."""
    text = "\n".join(sorted(line for line in result["out"].splitlines() if line.strip()))
    return {**result, "out": re.sub(r", peers \[.*?\]", "", text)}


class Servers:
    """One server with both GPUs, two with one each, and one more with both for a suite: a job has
    its GPUs to itself."""

    def __init__(self, dist, port, work, logs, stack):
        self.hide = hiding(work)
        self.busbar = pathlib.Path(dist).resolve() / "bin/busbar"
        self.all = []
        each = [("0,1", "one"), ("0", "a"), ("1", "b"), ("0,1", "suite"), ("0,1", "shared")]
        for n, (devices, name) in enumerate(each):
            options = ["--devices", devices, "--cache-dir", str(pathlib.Path(work) / f"cache-{n}")]
            before = os.environ.get("NCCL_HOSTID")
            os.environ["NCCL_HOSTID"] = name
            server = Remote(dist, port + n, work, logs / f"serve-{name}.log", options)
            self.all.append(stack.enter_context(server))
            os.environ.pop("NCCL_HOSTID")
            if before:
                os.environ["NCCL_HOSTID"] = before

    def addresses(self, count):
        one, a, b, suite, shared = self.all
        of = {1: [one], 2: [a, b], SUITE: [suite], SHARED: [shared]}
        return ",".join(s.server for s in of[count])

    def prefix(self, count):
        run = [str(self.busbar), "run", "--server", self.addresses(count)]
        reserve = [] if count == SHARED else ["-n", "2", "--wait", "3m"]
        return [*self.hide, *run, *reserve, "--"]

    def sessions(self, count):
        """What `busbar ps` lists."""
        command = [self.busbar, "ps", "--json", "--server", self.addresses(count)]
        said = subprocess.run(command, capture_output=True, text=True, timeout=30)
        return [s for one in json.loads(said.stdout) for s in one["status"]["sessions"]]


def program(servers, entry, port):
    name, count, command, limit = entry
    if not shutil.which(command[0]):
        return {"name": name, "verdict": "-", "why": f"no {command[0]} here"}
    env = dict(os.environ, PYTHONUNBUFFERED="1", NCCL_IB_DISABLE="1", OMP_NUM_THREADS="4")
    # Natively and remotely at once, and beside others.
    env["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    words = [w.replace("{port}", str(port)) for w in command]
    native = run(words, limit, env)
    words = [w.replace("{port}", str(port + 1)) for w in command]
    remote = run([*servers.prefix(count), *words], limit, dict(env, BUSBAR_LOG="warn"))
    verdict, why = compare(*map(sorted_lines, (native, remote)))
    where = "not reserved" if count == SHARED else f"{count} server(s)"
    row = {"name": f"{name}, {where}", "verdict": verdict, "why": why}
    row.update(native_s=native["seconds"], remote_s=remote["seconds"])
    if verdict != "same":
        row["log"] = "\n".join(
            [*("== native", native["out"][-9000:], native["err"][-6000:])]
            + ["== remote", remote["out"][-9000:], remote["err"][-9000:]]
        )
    return row


def outcomes(text):
    """How each test ended, of what pytest said of each as it came."""
    found = {}
    for how, name in re.findall(r"(PASSED|FAILED|ERROR|SKIPPED)\b[^\n]*?::(test_\w+)", text):
        found[name] = how.lower()
    return found


def distributed(servers, work, part, seconds):
    """PyTorch's own tests, those of one part natively and remotely, side by side."""
    k, n = part
    pytest = [sys.executable, "-m", "pytest", "--noconftest", "-p", "no:cacheprovider"]
    file = f"{HERE}/suite/test_distributed.py"
    collected = subprocess.run(
        [*pytest, "-q", "--collect-only", file], capture_output=True, text=True, cwd=work
    )
    names = [line.split("::")[-1] for line in collected.stdout.splitlines() if "::" in line]
    chosen = names[k - 1::n]

    def side(name, prefix):
        here = pathlib.Path(work) / f"distributed-{name}-{k}"
        here.mkdir(exist_ok=True)
        command = [*pytest, "-v", "-n", "4", "-p", "no:randomly"]
        command += [f"{file}::TestDistBackendWithSpawn::{c}" for c in chosen]
        env = dict(os.environ, TMPDIR=str(here), OMP_NUM_THREADS="2", BUSBAR_LOG="warn")
        for ours in ("MASTER_PORT", "TEMP_DIR", "NCCL_HOSTID"):
            env.pop(ours, None)
        result = run([*prefix, *command], seconds, env)
        return result, outcomes(result["out"])

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        first = pool.submit(side, "native", [])
        second = pool.submit(side, "remote", servers.prefix(SUITE))
        (native, here), (remote, there) = first.result(), second.result()
    # A side that ran out of time has not reached all of them.
    passed = [c for c in here if here[c] == "passed" and c in there]
    lost = [c for c in passed if there[c] != "passed"]
    why = f"{len(passed)} of {len(chosen)} pass natively, {len(passed) - len(lost)} remotely"
    why += f"; not: {', '.join(lost[:9])}" if lost else ""
    row = {"name": f"distributed tests {k}/{n}", "verdict": "same" if passed else "FAIL"}
    row.update(why=why, native_s=native["seconds"], remote_s=remote["seconds"])
    if lost or not passed:
        row["verdict"] = "DIFF"
        row["log"] = "\n".join([why, *lost, native["out"][-9000:], native["err"][-2000:],
                                remote["out"][-60000:], remote["err"][-5000:]])
    return row


class Trained:
    """Two ranks that train, whose lines a thread follows."""

    def __init__(self, servers, count):
        env = dict(os.environ, NCCL_IB_DISABLE="1", TORCH_NCCL_ASYNC_ERROR_HANDLING="1")
        command = [*servers.prefix(count), sys.executable, f"{PY}/job_steps.py"]
        self.process = start(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env
        )
        self.lines, self.more, self.done = [], threading.Condition(), False
        self.thread = threading.Thread(target=self.follow)
        self.thread.start()

    def follow(self):
        for line in self.process.stdout:
            with self.more:
                self.lines.append((time.monotonic(), line.rstrip()))
                self.more.notify_all()
        with self.more:
            self.done = True
            self.more.notify_all()

    def seen(self, pattern, limit):
        """When the first line came that has this, or None."""
        found = lambda: next((m for m in self.lines if re.search(pattern, m[1])), None)
        with self.more:
            self.more.wait_for(lambda: found() or self.done, limit)
            return found()

    def end(self):
        stop(self.process)
        self.thread.join()


def killed(servers, what, count):
    """One of them is killed: the other rank is told, and nothing hangs."""
    trained = Trained(servers, count)
    row = {"name": f"{what} killed, {count} server(s)", "verdict": "FAIL"}
    try:
        if not all(trained.seen(f"^rank {r}: step 40$", 90) for r in (0, 1)):
            row["why"] = "the ranks did not train"
            return row
        pid = int(trained.seen(r"^rank 1: process \d+", 1)[1].split()[-1])
        if what == "rank":
            os.kill(pid, signal.SIGKILL)
        elif what == "worker":
            each = [s for s in servers.sessions(count) if s.get("pid") == pid]
            if not each:
                row["why"] = f"no session of process {pid} among {servers.sessions(count)}"[:300]
                return row
            os.kill(each[0]["worker_pid"], signal.SIGKILL)
        else:
            servers.all[0 if count == 1 else 2].process.kill()
        begun = time.monotonic()
        ended = trained.seen(r"^rank 0: ended with", LOST + 30)
        if not ended:
            row["why"] = "rank 0 hangs"
            return row
        took = ended[0] - begun
        texts = [t for at, t in trained.lines if at >= begun]
        named = next((t for t in texts if re.search(r"busbar: .*(rank|server|worker)", t)), "")
        row["remote_s"] = took
        row["verdict"] = "same" if named and took <= LOST else "FAIL"
        row["why"] = f"rank 0 ended after {took:.1f} s: {named[:160] or 'nothing names the loss'}"
        return row
    finally:
        trained.end()
        if row["verdict"] != "same":
            row["log"] = "\n".join(t for _, t in trained.lines[-200:])


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--dist", default="dist")
    p.add_argument("--only", nargs="*", default=[], help="names to run (regular expressions)")
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--part", default="1/8", help="K/N of PyTorch's distributed tests")
    p.add_argument("--seconds", type=float, default=200, help="for those")
    p.add_argument("--port", type=int, default=7430)
    p.add_argument("--json")
    p.add_argument("--logs", help="folder for the output of what did not pass")
    a = p.parse_args()
    work = pathlib.Path(tempfile.mkdtemp(prefix="busbar-jobs-"))
    logs = pathlib.Path(a.logs or work / "logs")
    logs.mkdir(parents=True, exist_ok=True)
    wanted = lambda name: not a.only or any(re.fullmatch(o, name) for o in a.only)
    rows = []

    def told(row):
        rows.append(row)
        log = row.pop("log", None)
        if log:
            (logs / (re.sub(r"\W+", "-", row["name"]) + ".txt")).write_text(log)
        n, m = (f"{row[k]:.1f}" if row.get(k) else "" for k in ("native_s", "remote_s"))
        print(f"{row['name']:<32} {row['verdict']:<5} {n:>7} {m:>7}  {row['why']}", flush=True)
        if a.json:
            pathlib.Path(a.json).write_text(json.dumps(rows, indent=1))

    print(f"{'job':<32} {'':<5} {'native':>7} {'remote':>7}", flush=True)
    with contextlib.ExitStack() as stack:
        servers = Servers(a.dist, a.port, work, logs, stack)
        with concurrent.futures.ThreadPoolExecutor(a.jobs) as pool:
            todo = [pool.submit(program, servers, e, 29500 + 10 * n)
                    for n, e in enumerate(PROGRAMS) if wanted(e[0])]
            if wanted("distributed"):
                part = tuple(map(int, a.part.split("/")))
                todo.append(pool.submit(distributed, servers, work, part, a.seconds))
            for future in concurrent.futures.as_completed(todo):
                told(future.result())
        # A server that is killed is not there for the next.
        for count in (1, 2):
            for what in KILLS:
                if wanted(f"kill-{what}"):
                    told(killed(servers, what, count))
    bad = [r for r in rows if r["verdict"] not in ("same", "-")]
    print(f"{len(rows) - len(bad)} passed, {len(bad)} failed")
    sys.exit(1 if bad else 0)


main()
