"""What is seen of a device from outside while programs run on it: the time that its server says
each has used, its clock, and what server and workers take of this machine's cores.
"""

import bisect
import contextlib
import json
import os
import pathlib
import queue
import shlex
import shutil
import subprocess
import threading
import time

from busbar_bench.stats import median

# Between two looks at the server, in seconds; and at the clock, in milliseconds.
EVERY = 0.2
CLOCK_MS = 50
# What a thread sleeps that finds out how late this machine wakes one.
NAP = 0.002


def watch_command(prefix, server):
    """The command that says again and again what sessions there are; None if the prefix has no
    `run` whose place `ps` could take."""
    words = shlex.split(prefix or "")
    if "run" not in words:
        return None
    asked = [*words[: words.index("run")], "ps", "--json", "--watch", f"{EVERY:g}"]
    return asked + (["--server", server] if server else [])


class Lines:
    """A command's lines with the times at which they came, for as long as this is entered."""

    def __init__(self, command):
        self.command, self.process, self.found = command, None, queue.SimpleQueue()

    def __enter__(self):
        with contextlib.suppress(OSError):
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, text=True,
            )  # fmt: skip
            self.reader = threading.Thread(target=self._read, daemon=True)
            self.reader.start()
        return self

    def _read(self):
        for line in self.process.stdout:
            self.found.put((time.monotonic(), line))

    def __exit__(self, *_):
        if self.process:
            self.process.terminate()
            self.process.wait()
            self.reader.join()
            self.process.stdout.close()

    def all(self):
        """Those that have come."""
        lines = []
        while not self.found.empty():
            lines.append(self.found.get())
        return lines


def documents(lines):
    """(time, document) of each JSON document in lines with times: each ends with a line of its
    own, a bracket."""
    text = ""
    for at, line in lines:
        text += line
        if line.rstrip() == "]":
            with contextlib.suppress(ValueError):
                yield at, json.loads(text)
            text = ""


def used(document):
    """{process: device time that it has used, in seconds} of those that are counted."""
    sessions = [
        session
        for server in document
        for session in (server.get("status") or {}).get("sessions", [])
    ]
    times = [(each["pid"], (each.get("time") or [None])[0]) for each in sessions]
    return {pid: each["used_ms"] / 1e3 for pid, each in times if each}


class Account:
    """What each of some processes had used of a device at some times, as its server counts."""

    def __init__(self, samples=(), pids=()):
        # Of times at which all of them were counted.
        kept = [(at, [of[pid] for pid in pids]) for at, of in samples if of.keys() >= {*pids}]
        self.times, self.used = [at for at, _ in kept], [of for _, of in kept]

    def shares(self, begin, end, length):
        """What each had of what all had, in every window of a length between two moments: from
        each look at the server on, to the first one after so long."""
        first, last = bisect.bisect_left(self.times, begin), bisect.bisect(self.times, end)
        found = []
        for i in range(first, last):
            # Looks are not exactly apart.
            j = bisect.bisect_left(self.times, self.times[i] + length - EVERY / 2, i + 1, last)
            if j < last:
                had = [b - a for a, b in zip(self.used[i], self.used[j])]
                found += [[each / sum(had) for each in had]] if sum(had) > 0 else []
        return found

    def had(self, begin, end):
        """What each used a second between two moments, and the part of these that was looked at;
        None without two looks."""
        first, last = bisect.bisect_left(self.times, begin), bisect.bisect(self.times, end) - 1
        if last <= first:
            return None
        long = self.times[last] - self.times[first]
        rates = [(b - a) / long for a, b in zip(self.used[first], self.used[last])]
        return rates, (self.times[first], self.times[last])


def cpu_seconds(proc=pathlib.Path("/proc")):
    """{process: CPU time} of all that serves on this machine: what is called busbar, and is no
    command of a user's."""
    found = {}
    for each in proc.glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            command = (each / "cmdline").read_bytes().split(b"\0")
            if os.path.basename(command[0]) != b"busbar" or command[1] in (b"run", b"ps"):
                continue
            # The name in brackets may have blanks in it.
            fields = (each / "stat").read_text().rpartition(")")[2].split()
            found[each.name] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return found


class Looking:
    """Takes samples, each with its time, on a thread of its own while it is entered."""

    def __init__(self):
        self.samples, self.over = [], threading.Event()
        self.thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


class Cores(Looking):
    """How many cores all that serves takes."""

    def _look(self):
        while not self.over.wait(EVERY):
            self.samples.append((time.monotonic(), cpu_seconds()))

    def taken(self, begin, end):
        """Cores that were busy on the average between two moments; None where nothing serves
        here, or nobody looked."""
        seen = [(at, of) for at, of in self.samples if begin <= at <= end]
        if len(seen) < 2 or not seen[0][1]:
            return None
        (first, before), (last, after) = seen[0], seen[-1]
        return sum(t - before.get(of, 0) for of, t in after.items()) / (last - first)


class Wakes(Looking):
    """How late a thread wakes that has slept: on a machine whose cores others use, too, it is late
    now and then by many milliseconds, and so is all else."""

    def _look(self):
        while not self.over.is_set():
            before = time.monotonic()
            time.sleep(NAP)
            after = time.monotonic()
            self.samples.append((after, after - before - NAP))

    def late(self, begin, end):
        """By how many seconds, each time between two moments."""
        return [late for at, late in self.samples if begin < at <= end]


class Watch:
    """Looks at a server's sessions, at a device's clock and at cores while it is entered."""

    def __init__(self, prefix, server):
        asks = watch_command(prefix, server)
        fields = "--query-gpu=clocks.sm,power.draw"
        clock = ["nvidia-smi", "-i", "0", fields, "--format=csv,noheader,nounits"]
        there = shutil.which("nvidia-smi")
        self.sessions = Lines(asks) if asks else None
        self.clock = Lines([*clock, "-lms", str(CLOCK_MS)]) if there else None
        self.cores, self.wakes = Cores(), Wakes()

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            for each in (self.sessions, self.clock, self.cores, self.wakes):
                if each:
                    stack.enter_context(each)
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *of):
        return self.stack.__exit__(*of)

    def account(self, pids):
        """What these processes have used."""
        lines = self.sessions.all() if self.sessions else []
        return Account([(at, used(of)) for at, of in documents(lines)], pids)

    def device(self, begin, end):
        """The device's clock and power between two moments: the medians."""
        rows = []
        for at, line in self.clock.all() if self.clock else []:
            with contextlib.suppress(ValueError):
                mhz, watts = (float(each) for each in line.split(","))
                rows += [(mhz, watts)] if begin < at <= end else []
        if not rows:
            return None
        return {"mhz": median(mhz for mhz, _ in rows), "watts": median(watts for _, watts in rows)}
