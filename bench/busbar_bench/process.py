"""Runs one worker process, with or without a prefix, and collects what it printed."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time

STATS_MARK = "busbar-stats: "
# Of a failed process's standard error, this much is kept.
ERROR_TAIL = 2000
# What launchers write before a rank's line, as horovodrun and mpirun do.
RANK = re.compile(r"^\[\d+(,\d+)?\]<std(out|err)>: ?", re.MULTILINE)


def stats_of(stderr):
    """The counters a Busbar client prints under BUSBAR_STATS=1; None if it does not.

    A program with several servers has a session with each: their counters are added up.
    """
    total = None
    for line in RANK.sub("", stderr).splitlines():
        if line.startswith(STATS_MARK):
            try:
                value = json.loads(line[len(STATS_MARK) :])
            except ValueError:
                return None
            if not isinstance(value, dict):
                return None
            value.pop("server", None)
            total = {k: total[k] + value[k] for k in value} if total else value
    return total


def command_of(prefix, server, argv):
    """The full command: the prefix with the server's address in the place of {server}."""
    return [part.replace("{server}", server or "") for part in shlex.split(prefix or "")] + argv


def run(argv, prefix="", server=None, env=None, timeout=600.0):
    """Runs a command; never raises for what it does. Returns a dict with its JSON lines."""
    command = command_of(prefix, server, argv)
    environment = {**os.environ, **(env or {})}
    began = time.perf_counter()
    outcome = {"command": shlex.join(command), "lines": [], "error": None}
    try:
        # A group of its own, so that a hanging one ends with its DataLoader processes.
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        outcome["error"] = f"cannot start {command[0]!r}: {error.strerror}"
        outcome["wall_s"] = time.perf_counter() - began
        return outcome
    try:
        stdout, stderr = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        stdout, stderr = process.communicate()
        outcome["error"] = f"no end after {timeout:g} s"
    outcome["wall_s"] = time.perf_counter() - began
    outcome["status"] = process.returncode
    outcome["busbar"] = stats_of(stderr)
    for line in RANK.sub("", stdout).splitlines():
        if not line.startswith("{"):
            continue
        try:
            outcome["lines"].append(json.loads(line))
        except ValueError:
            continue
    if process.returncode != 0:
        outcome["stderr"] = stderr[-ERROR_TAIL:]
        if outcome["error"] is None:
            last = stderr.strip().splitlines()[-1:] or ["nothing on standard error"]
            outcome["error"] = f"exit status {process.returncode}: {last[0][:300]}"
    return outcome


def hold(argv, prefix="", server=None, env=None, timeout=120.0, look=lambda: None):
    """Runs a program that prints a line and waits for the end of its stdin, and looks meanwhile.

    Returns the outcome as `run` does, with what `look` returned under "seen".
    """
    command = command_of(prefix, server, argv)
    outcome = {"command": shlex.join(command), "lines": [], "error": None, "seen": None}
    began = time.perf_counter()
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **(env or {})},
            start_new_session=True,
        )
    except OSError as error:
        return {**outcome, "error": f"cannot start {command[0]!r}: {error.strerror}", "wall_s": 0.0}
    # A program that hangs before its line is ended, and then the line is empty.
    timer = threading.Timer(timeout, lambda: os.killpg(process.pid, signal.SIGKILL))
    timer.start()
    try:
        line = process.stdout.readline()
        outcome["lines"] = [json.loads(line)]
        outcome["seen"] = look()
    except ValueError:
        outcome["error"] = "it printed no JSON"
    process.communicate()
    timer.cancel()
    if process.returncode != 0 and outcome["error"] is None:
        outcome["error"] = f"exit status {process.returncode}"
    return {**outcome, "status": process.returncode, "wall_s": time.perf_counter() - began}


def worker_argv(specs, settings):
    """The worker's command line."""
    return [
        settings.get("python", sys.executable),
        "-m",
        "busbar_bench.worker",
        "--json",
        "--list",
        ",".join(str(spec) for spec in specs),
        "--steps",
        str(settings["steps"]),
        "--warmup",
        str(settings["warmup"]),
        "--block",
        str(settings["block"]),
        "--workers",
        str(settings["workers"]),
        *(["--seconds", str(settings["seconds"])] if settings.get("seconds") else []),
    ]


def own_environment(more=None, deterministic=False):
    """Lets the worker find this package wherever the runner was started."""
    package_parent = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    path = os.pathsep.join(filter(None, [package_parent, os.environ.get("PYTHONPATH")]))
    fixed = {"PYTHONPATH": path, "BUSBAR_STATS": "1"}
    if deterministic:
        # cuBLAS reads it once, so it has to be there from the start.
        fixed["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    return {**fixed, **(more or {})}
