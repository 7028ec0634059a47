"""The lane of jobs: ranks on GPUs of one server and of two, natively and through Busbar.

    python3 testing/gpu/jobs.py --dist dist [--gpus 2] [--only NAME ...] [--json FILE] [--logs DIR]

Programs run as their launchers start them, and must print the same on both sides; PyTorch's own
distributed tests end alike, one by one; and while ranks train, a rank, a worker, a server is
killed: the other ranks end with an error that says so, and the GPUs are free; those of an elastic
job (Horovod's) go on without the one that is lost. Clients see no driver (remote.py). Two servers
of one machine are two hosts to NCCL, with sockets between them. Needs root, PyTorch and two GPUs or
more, an even number; a launcher that is not there is left out (DeepSpeed's, Horovod's and MPI's may
be in folders of `PYTHONPATH` and `PATH`).
"""

import argparse
import concurrent.futures
import contextlib
import functools
import importlib.util
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

from remote import Remote, compare, hiding, run, sessions, start, stop

HERE = pathlib.Path(__file__).resolve().parent
PY = HERE / "programs"
# A rank that is left has an error after so many seconds at most.
LOST = 30
# Instead of how many servers: that of the suite; one whose GPUs nobody reserves, as without `-n`;
# one that two machines share by the name of a job; and two of which an elastic job loses one.
SUITE, SHARED, NODES, LOSING = 0, -1, -2, -3


def programs(gpus):
    """Name, servers, command, seconds. A command of two machines is the one of each."""
    python, ddp = sys.executable, f"{PY}/ddp_job.py"
    torchrun = [python, "-m", "torch.distributed.run", "--master_port", "{port}"]
    accelerate = ["accelerate", "launch", "--multi_gpu", "--num_processes", str(gpus)]
    accelerate += ["--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no"]
    accelerate += ["--main_process_port", "{port}"]
    deepspeed = [python, "-m", "deepspeed.launcher.runner", "--num_gpus", str(gpus)]
    deepspeed += ["--master_port", "{port}"]
    mpirun = ["env", "MASTER_PORT={port}", "mpirun", "-np", str(gpus)]
    each = [
        ("nccl_gpus", [python, f"{PY}/nccl_gpus.py", str(gpus)], 150),
        ("torchrun", [*torchrun, "--nproc_per_node", str(gpus), ddp], 120),
        ("accelerate", [*accelerate, ddp], 120),
        ("mpirun", [*mpirun, python, ddp], 120),
        ("deepspeed", [*deepspeed, f"{PY}/deepspeed_job.py"], 240),
        ("several_devices", [python, f"{PY}/several_devices.py", str(gpus)], 150),
    ]
    found = [(name, count, *rest) for count in (1, 2, SHARED) for name, *rest in each]
    nodes = [*torchrun, "--nnodes", "2", "--nproc_per_node", str(gpus // 2)]
    nodes += ["--master_addr", "127.0.0.1", "--node_rank", "{node}", ddp]
    return [*found, ("torchrun of two machines", NODES, nodes, 150)]


def absent(command):
    """What of a command is not here, if anything."""
    first = command[2] if command[0] == "env" else command[0]
    if not shutil.which(first):
        return first
    module = command[2].split(".")[0] if command[1] == "-m" else "os"
    return None if importlib.util.find_spec(module) else module


KILLS = ("rank", "worker", "server")


def sorted_lines(result):
    """Ranks print in any order; that one device reaches the other is said of one server alone.
    What a launcher logs begins with the time in brackets, and is left out."""
    kept = (line for line in result["out"].splitlines() if line.strip() and line[0] != "[")
    text = "\n".join(sorted(kept))
    return {**result, "out": re.sub(r", peers \[.*?\]", "", text)}


class Servers:
    """One server with all GPUs, two with half of them each, and more with all: a job has its GPUs
    to itself."""

    def __init__(self, dist, port, work, logs, stack, gpus):
        self.gpus = gpus
        self.hide = hiding(work)
        self.busbar = pathlib.Path(dist).resolve() / "bin/busbar"
        self.all = []
        numbers = [str(n) for n in range(gpus)]
        first, second, every = (
            ",".join(some) for some in (numbers[: gpus // 2], numbers[gpus // 2:], numbers)
        )
        each = [(every, "one"), (first, "a"), (second, "b")]
        each += [(every, name) for name in ("suite", "shared", "nodes")]
        each += [(first, "c"), (second, "d")]
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
        one, a, b, suite, shared, nodes, c, d = self.all
        of = {1: [one], 2: [a, b], SUITE: [suite], SHARED: [shared], NODES: [nodes]}
        of[LOSING] = [c, d]
        return ",".join(s.server for s in of[count])

    def prefix(self, count, node=0):
        run = [str(self.busbar), "run", "--server", self.addresses(count)]
        reserve = ["-n", str(self.gpus), "--wait", "3m"]
        if count == SHARED:
            reserve = []
        elif count == NODES:
            reserve = ["--job", "two-machines", "--node", f"{node}/2", "-n", str(self.gpus // 2)]
        return [*self.hide, *run, *reserve, "--"]

    def sessions(self, count):
        """What `busbar ps` lists."""
        return sessions(self.busbar, self.addresses(count))


def both(commands, limit, envs):
    """What the machines of one job print, as one result."""
    with concurrent.futures.ThreadPoolExecutor(len(commands)) as pool:
        results = list(pool.map(run, commands, [limit] * len(commands), envs))
    bad = [r["rc"] for r in results if r["rc"] != 0]
    seconds = max(r["seconds"] for r in results)
    out, err = ("".join(r[k] for r in results) for k in ("out", "err"))
    return {"rc": bad[0] if bad else 0, "out": out, "err": err, "seconds": seconds}


def program(servers, entry, port):
    name, count, command, limit = entry
    where = {SHARED: "not reserved", NODES: "1 server"}.get(count, f"{count} server(s)")
    missing = absent(command)
    if missing:
        return {"name": f"{name}, {where}", "verdict": "-", "why": f"no {missing} here"}
    env = dict(os.environ, PYTHONUNBUFFERED="1", NCCL_IB_DISABLE="1", OMP_NUM_THREADS="4")
    # Natively and remotely at once, and beside others.
    env["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    # Open MPI's launcher asks that root says so twice.
    env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    nodes = (0, 1) if count == NODES else (0,)

    def words(port, node):
        return [w.replace("{port}", str(port)).replace("{node}", str(node)) for w in command]

    def devices(node):
        """Natively a machine of two has the half of the GPUs that is the first or the second."""
        half = servers.gpus // 2
        some = ",".join(str(n) for n in range(node * half, (node + 1) * half))
        return {"CUDA_VISIBLE_DEVICES": some} if count == NODES else {}

    # Natively the ranks take themselves for those of as many hosts: sums have the same order then.
    hosts = {"JOB_HOSTS": str(count)} if count > 1 else {}
    here = [dict(env, **hosts, **devices(n)) for n in nodes]
    native = both([words(port, n) for n in nodes], limit, here)
    if native["rc"] != 0:
        name = f"{name}, {where}"
        return {"name": name, "verdict": "-", "why": f"natively: {native['err'].strip()[-200:]!r}"}
    remotely = [[*servers.prefix(count, n), *words(port + 1, n)] for n in nodes]
    remote = both(remotely, limit, [dict(env, BUSBAR_LOG="warn")] * len(nodes))
    verdict, why = compare(*map(sorted_lines, (native, remote)))
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

    def side(name, prefix, chosen=chosen):
        here = pathlib.Path(work) / f"distributed-{name}-{k}"
        here.mkdir(exist_ok=True)
        command = [*pytest, "-v", "-n", "4", "-p", "no:randomly"]
        command += [f"{file}::TestDistBackendWithSpawn::{c}" for c in chosen]
        env = dict(os.environ, TMPDIR=str(here), OMP_NUM_THREADS="2", BUSBAR_LOG="warn")
        env["WORLD_SIZE"] = str(servers.gpus)
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
    # Both sides listen on ports of one machine: who had none is asked again, alone.
    failed = [c for c in passed if there[c] != "passed"]
    again = side("again", servers.prefix(SUITE), failed)[1] if failed else {}
    lost = [c for c in failed if again.get(c) != "passed"]
    why = f"{len(passed)} of {len(chosen)} pass natively, {len(passed) - len(lost)} remotely"
    why += f"; not: {', '.join(lost[:9])}" if lost else ""
    once = [c for c in failed if c not in lost]
    why += f"; when asked again: {', '.join(once[:9])}" if once else ""
    row = {"name": f"distributed tests {k}/{n}", "verdict": "same" if passed else "FAIL"}
    row.update(why=why, native_s=native["seconds"], remote_s=remote["seconds"])
    if lost or not passed:
        row["verdict"] = "DIFF"
        row["log"] = "\n".join([why, *lost, native["out"][-9000:], native["err"][-2000:],
                                remote["out"][-60000:], remote["err"][-5000:]])
    return row


class Trained:
    """Ranks that train, whose lines a thread follows."""

    def __init__(self, command):
        env = dict(os.environ, NCCL_IB_DISABLE="1", TORCH_NCCL_ASYNC_ERROR_HANDLING="1")
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


def kill(servers, what, count, pid):
    """Kills that process, its worker, or its server; what keeps it from that, if anything."""
    if what == "rank":
        os.kill(pid, signal.SIGKILL)
    elif what == "worker":
        each = [s for s in servers.sessions(count) if s.get("pid") == pid]
        if not each:
            return f"no session of process {pid} among {servers.sessions(count)}"[:300]
        # Of several the last: ranks have the GPUs in the order of the servers.
        os.kill(each[-1]["worker_pid"], signal.SIGKILL)
    else:
        servers.all[{1: 0, 2: 2, LOSING: -1}[count]].process.kill()
    return None


def outlived(servers, prefix, what, count):
    """What an elastic job says at its end whose last worker is lost on the way, after how many
    seconds it goes on without that one, and its lines; or why it does not."""
    job = [sys.executable, f"{PY}/elastic_horovod.py", "launch", str(servers.gpus)]
    last = servers.gpus - 1
    trained = Trained([*prefix, *job])
    try:
        if not trained.seen(f"worker {last}: step 100$", 120):
            return "the workers did not train", trained
        pid = int(trained.seen(f"worker {last}: process", 1)[1].split()[-1])
        why = kill(servers, what, count, pid)
        if why:
            return why, trained
        lost = time.monotonic()
        again = trained.seen(r"rank 0 of \d+ from step [1-9]", 90)
        end = trained.seen(r'worker 0: \{"steps"', 90)
        if not again or not end:
            return "the others do not go on", trained
        said = json.loads(end[1][end[1].index("{"):])
        return {**said, "after": again[0] - lost}, trained
    finally:
        trained.end()


@functools.cache
def elastic_natively(servers):
    """The same without Busbar, where a process is all that can be killed."""
    return outlived(servers, [], "rank", 1)


def elastic(servers, what, count):
    """A rank, its worker or its server is lost: the others go on, and learn what they would have
    learned with it, since all learn from the same batches."""
    row = {"name": f"elastic, {what} killed, {1 if count == 1 else 2} server(s)"}
    missing = absent([sys.executable, "-m", "horovod"])
    if missing:
        return {**row, "verdict": "-", "why": f"no {missing} here"}
    native, here = elastic_natively(servers)
    remote, there = outlived(servers, servers.prefix(count), what, count)
    if isinstance(native, str) or isinstance(remote, str):
        row.update(verdict="FAIL", why=f"natively {native}, remotely {remote}"[:300])
    else:
        row["native_s"], row["remote_s"] = (side["after"] for side in (native, remote))
        same = native["losses"] == remote["losses"]
        row["verdict"] = "same" if same else "DIFF"
        row["why"] = f"{remote['steps']} steps, the last of {remote['ranks']} rank(s)"
    if row["verdict"] != "same":
        row["log"] = "\n== remote\n".join(
            "\n".join(t for _, t in side.lines[-200:]) for side in (here, there)
        )
    return row


def killed(servers, what, count):
    """One of them is killed: each other rank is told, and nothing hangs."""
    job = [sys.executable, f"{PY}/job_steps.py", str(servers.gpus)]
    trained = Trained([*servers.prefix(count), *job])
    ranks = range(servers.gpus)
    row = {"name": f"{what} killed, {count} server(s)", "verdict": "FAIL"}
    try:
        if not all(trained.seen(f"^rank {r}: step 40$", 90) for r in ranks):
            row["why"] = "the ranks did not train"
            return row
        pid = int(trained.seen(r"^rank 1: process \d+", 1)[1].split()[-1])
        row["why"] = kill(servers, what, count, pid)
        if row["why"]:
            return row
        begun = time.monotonic()
        took = 0
        for rank in ranks:
            if rank == 1 and what != "server":
                continue
            ended = trained.seen(f"^rank {rank}: ended with", begun + LOST + 30 - time.monotonic())
            if not ended:
                row["why"] = f"rank {rank} hangs"
                return row
            took = max(took, ended[0] - begun)
        texts = [t for at, t in trained.lines if at >= begun]
        named = next((t for t in texts if re.search(r"busbar: .*(rank|server|worker)", t)), "")
        row["remote_s"] = took
        row["verdict"] = "same" if named and took <= LOST else "FAIL"
        named = named[:160] or "nothing names the loss"
        row["why"] = f"all others ended after {took:.1f} s: {named}"
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
    p.add_argument("--gpus", type=int, default=2, help="an even number")
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--part", default="1/8", help="K/N of PyTorch's distributed tests")
    p.add_argument("--seconds", type=float, default=200, help="for those")
    p.add_argument("--port", type=int, default=7430)
    p.add_argument("--json")
    p.add_argument("--logs", help="folder for the output of what did not pass")
    a = p.parse_args()
    if a.gpus < 2 or a.gpus % 2:
        p.error("--gpus takes an even number: each of two servers has half of them")
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
        servers = Servers(a.dist, a.port, work, logs, stack, a.gpus)
        with concurrent.futures.ThreadPoolExecutor(a.jobs) as pool:
            todo = [pool.submit(program, servers, e, 29500 + 10 * n)
                    for n, e in enumerate(programs(a.gpus)) if wanted(e[0])]
            if wanted("distributed"):
                part = tuple(map(int, a.part.split("/")))
                todo.append(pool.submit(distributed, servers, work, part, a.seconds))
            for future in concurrent.futures.as_completed(todo):
                told(future.result())
        for what in KILLS:
            # Of one server that is gone nobody is left.
            for count in (1, LOSING)[what == "server":]:
                if wanted(f"elastic-{what}"):
                    told(elastic(servers, what, count))
        # A server that is killed is not there for the next.
        for count in (1, 2):
            for what in KILLS:
                if wanted(f"kill-{what}"):
                    told(killed(servers, what, count))
    bad = [r for r in rows if r["verdict"] not in ("same", "-")]
    print(f"{len(rows) - len(bad)} passed, {len(bad)} failed")
    sys.exit(1 if bad else 0)


main()
