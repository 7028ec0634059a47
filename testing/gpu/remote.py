"""A server, and clients that cannot see the driver, on one machine: what the runners share.

The server runs as it is; a client runs in a mount namespace in which the driver's files are gone,
so that nothing can reach the GPU but Busbar. Needs root (for the namespace).
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

HIDE = """
[ -d /usr/local/nvidia ] && mount -t tmpfs none /usr/local/nvidia
for d in /dev/nvidia[0-9]* /dev/nvidiactl /dev/nvidia-uvm*; do
  [ -e "$d" ] && mount --bind /dev/null "$d"
done
exec "$@"
"""


def hiding(folder):
    """What makes a command run where the driver's files are gone; its script is put in `folder`."""
    script = pathlib.Path(folder) / "hide.sh"
    script.write_text(HIDE)
    return ["unshare", "-m", "bash", str(script)]


def sessions(busbar, servers):
    """What `busbar ps` lists of servers, given as it takes them."""
    command = [busbar, "ps", "--json", "--server", servers]
    said = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    return [s for one in json.loads(said.stdout) for s in one["status"]["sessions"]]


class Remote:
    """`busbar serve` on a loopback port while the block runs; `prefix` makes a client of a command.
    The server may be given more options. With `tls` it encrypts, as for clients elsewhere; with
    `link` clients are behind an emulated network of that name, and share no memory with the server.
    With `halves` they share no processors either: programs, remote and `native` ones, have the
    first half of them, server and network the second. Otherwise a program whose threads are busy on
    all of them takes the server's, which on a machine of its own they could not.
    """

    def __init__(self, dist, port, work, log, options=(), tls=False, link=None, halves=False):
        self.busbar = pathlib.Path(dist).resolve() / "bin/busbar"
        self.server = f"127.0.0.1:{port}"
        self.log = pathlib.Path(log)
        self.hide = hiding(work)
        self.options = options
        self.state = pathlib.Path(work).resolve() / "state" if tls else None
        self.preset, self.link = link, None
        cores = sorted(os.sched_getaffinity(0)) if halves else []
        half = len(cores) // 2
        pinned = lambda some: ["taskset", "-c", ",".join(map(str, some))] if some else []
        self.of_client, self.of_server = pinned(cores[:half]), pinned(cores[half:])

    def __enter__(self):
        self.out = open(self.log, "w")
        command = [self.busbar, "serve", "--listen", self.server, "--drain", "0s", *self.options]
        if self.state:
            command += ["--tls", "--state-dir", self.state]
        command = [*self.of_server, *command]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.out, text=True)
        if "listening" not in self.process.stdout.readline():
            self.process.kill()
            sys.exit(f"the server did not start; see {self.log}")
        if self.state:
            self.server = self.token(f"lane-{self.process.pid}")
        if self.preset:
            address = self.server.split("@")[-1].split("?")[0]
            command = ["link", "--listen", "127.0.0.1:0", "--to", address, "--preset", self.preset]
            command = [*self.of_server, self.busbar, *command]
            self.link = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=self.out, text=True
            )
            there = self.link.stdout.readline().split()[-1]
            self.server = self.server.replace(address, there)
        return self

    def __exit__(self, *_):
        if self.link:
            self.link.terminate()
            self.link.wait()
        self.process.terminate()
        self.process.wait()
        self.out.close()

    def token(self, name, *more):
        """What a client is told of a new token: the server's address, its key and the token."""
        new = [self.busbar, "token", "new", name, *more, "--state-dir", self.state]
        # It is said in quotes, for a shell.
        return subprocess.check_output(new, text=True).split()[-1].strip("'")

    def prefix(self):
        apart = ["env", "BUSBAR_SHM=0"] if self.link else []
        run = [str(self.busbar), "run", "--server", self.server, "--"]
        return [*self.of_client, *apart, *self.hide, *run]

    def native(self):
        """What stands before the command of a program that runs natively beside such ones."""
        return self.of_client


def start(cmd, **more):
    """Starts a program in a process group of its own, so that `stop` ends its children too."""
    return subprocess.Popen(cmd, start_new_session=True, stdin=subprocess.DEVNULL, **more)


def stop(process):
    """Ends what `start` started, at once."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def run(cmd, limit, env):
    """Runs a program to its end, or for `limit` seconds, and ends what it may have left running."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        began = time.monotonic()
        process = start(cmd, stdout=out, stderr=err, env=env, cwd="/tmp")
        try:
            rc = process.wait(limit)
        except subprocess.TimeoutExpired:
            rc = "timeout"
        finally:
            seconds = time.monotonic() - began
            stop(process)
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.buffer.read().decode(errors="replace"))
    return {"rc": rc, "out": texts[0], "err": texts[1], "seconds": seconds}


def lines(out):
    """What is compared of a program's output: lines that begin with `#` are for people."""
    return [line for line in out.splitlines() if not line.startswith("#")]


def compare(native, remote):
    if native["rc"] != remote["rc"]:
        last = [(r["out"].splitlines() or [""])[-1] for r in (native, remote)]
        ends = [f"{r['rc']} after {line!r}" for r, line in zip((native, remote), last)]
        return "FAIL", f"exit natively {ends[0]}, remotely {ends[1]}"[:250]
    a, b = lines(native["out"]), lines(remote["out"])
    if a == b:
        return "same", ""
    for x, y in zip(a + [""] * len(b), b + [""] * len(a)):
        if x != y:
            return "DIFF", f"native {x!r}, remote {y!r}"[:150]
    return "DIFF", ""
