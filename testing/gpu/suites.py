"""Suites that others wrote, natively and through Busbar on one GPU machine, test by test.

    python3 testing/gpu/suites.py --dist dist --suites FOLDER [--only torch cupy ...] [--minutes 8]
                                  [--part cuda-core=1/1 cupy=3/10 torch:test_cuda=1/1 ...]
    python3 testing/gpu/suites.py --merge A.json B.json [--json FILE]

`FOLDER` holds what `fetch_suites.py` packed (docs/suites.md: what it is and where it comes from).
Native and remote runs go on side by side in `--jobs` processes; the remote ones see no driver
(remote.py). A test that outlives its time is killed and counted as a hang, one that takes its
process along as a crash, and the rest of its file goes on in a new process. A sample is taken of
each file; `--part` takes a part of all instead, so that several runs cover a suite whole, and
`--merge` tells of them as of one. What passes natively and not remotely runs once more, remotely
and with less company, before it counts. Prints one table; `--json` gets how each test ended and
the output of each that differs.
"""

import argparse
import concurrent.futures
import dataclasses
import difflib
import functools
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import threading
import time

from remote import Remote, start, stop
from suite_list import suites

HERE = pathlib.Path(__file__).resolve().parent
RESTARTS = 30


class Board:
    """The results of all tasks: outcome by suite, side and test."""

    def __init__(self):
        self.lock = threading.Lock()
        self.tests, self.seconds, self.notes = {}, {}, []

    def put(self, suite, side, name, **record):
        with self.lock:
            self.tests.setdefault((suite, side), {})[name] = record

    def spend(self, suite, side, seconds):
        with self.lock:
            self.seconds[suite, side] = self.seconds.get((suite, side), 0) + seconds

    def note(self, suite, side, what, tail=""):
        with self.lock:
            self.notes.append({"suite": suite, "side": side, "what": what, "tail": tail[-1500:]})

    def of(self, suite, side):
        with self.lock:
            return dict(self.tests.get((suite, side), {}))


class Runner:
    def __init__(self, folder, work, board, server):
        self.folder, self.work, self.board, self.server = folder, work, board, server
        self.begun = time.monotonic()
        self.lock, self.count = threading.Lock(), 0

    def left(self, until):
        return self.begun + until - time.monotonic()

    def file(self, kind):
        with self.lock:
            self.count += 1
            return self.work / f"{self.count:04}-{kind}"

    def pytest(self, suite, side, task, until, only=(), as_side=None):
        """One task: starts pytest as often as crashes and hangs make needed; stops at `until`."""
        done, began = {}, time.monotonic()
        factor = 1 if side == "native" else 2
        for _ in range(RESTARTS):
            budget = min(suite.seconds * factor - (time.monotonic() - began), self.left(until))
            if budget <= 1:
                break
            if not self.once(
                suite, side, task, budget, factor, only, as_side or side, done
            ):
                break
        self.board.spend(suite.name, as_side or side, time.monotonic() - began)

    def once(self, suite, side, task, budget, factor, only, as_side, done):
        """Runs pytest on what is not `done`; true when there is more for another process."""
        files, select, part = task
        results, log, told = self.file("results"), self.file("log"), self.file("task")
        results.touch()
        told.write_text(json.dumps({"results": str(results), "cap": suite.cap, "select": select,
                                    "skip": suite.skip, "only": list(only), "done": sorted(done),
                                    "part": part,
                                    "seconds": max(1, budget - 5)}))
        cmd = [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "busbar_suite",
            "-p",
            "no:cacheprovider",
            "-q",
            "--no-header",
            "--tb=short",
            "-c",
            "/dev/null",
            "--rootdir",
            str(suite.cwd),
            "--continue-on-collection-errors",
            *suite.args,
            *files,
        ]
        path = [str(HERE / "suite"), *suite.path, str(self.folder / "python")]
        path.append(os.environ.get("PYTHONPATH", ""))
        env = dict(
            os.environ,
            PYTHONPATH=":".join(p for p in path if p),
            BUSBAR_SUITE_TASK=str(told),
            PYTHONFAULTHANDLER="1",
            PYTHONDONTWRITEBYTECODE="1",
            OMP_NUM_THREADS="2",
            MKL_NUM_THREADS="2",
            **suite.env,
        )
        if side == "remote":
            cmd = self.server.prefix() + cmd
        with open(log, "w") as out:
            process = start(cmd, stdout=out, stderr=subprocess.STDOUT, env=env, cwd=suite.cwd)
        current, since, offset, first = None, time.monotonic(), 0, time.monotonic()
        poisoned = False
        try:
            while True:
                over = process.poll() is not None
                with open(results) as f:
                    f.seek(offset)
                    text = f.read()
                whole = text[:text.rfind("\n") + 1]
                offset += len(whole.encode())
                for line in whole.splitlines():
                    record = json.loads(line)
                    since = time.monotonic()
                    if "start" in record:
                        current = record["start"]
                    elif "end" in record:
                        name, current = record.pop("end"), None
                        poisoned = record.pop("poisoned")
                        done[name] = True
                        self.board.put(suite.name, as_side, name, **record)
                    elif "collect" in record:
                        self.board.put(
                            suite.name,
                            as_side,
                            "load " + record["collect"],
                            outcome="error",
                            seconds=0,
                            tail=record["tail"],
                        )
                if over:
                    break
                waited = time.monotonic() - since
                if waited > suite.limit * factor * (1 if current else 2):
                    self.lost(
                        suite,
                        as_side,
                        current,
                        "hang",
                        f"no end after {waited:.0f} s",
                        log,
                        done,
                        files,
                    )
                    return current is not None
                if time.monotonic() - first > budget:
                    return False
                time.sleep(0.1)
        finally:
            stop(process)
        if current is not None or process.returncode < 0 or process.returncode > 128:
            self.lost(
                suite, as_side, current, "crash", f"exit {process.returncode}", log, done, files
            )
            return current is not None
        if process.returncode not in (0, 1, 2, 5):
            tail = log.read_text(errors="replace")[-1500:]
            self.board.note(
                suite.name,
                as_side,
                f"{' '.join(files)}: pytest ended with {process.returncode}",
                tail,
            )
        return poisoned

    def lost(self, suite, side, current, outcome, why, log, done, files):
        tail = why + "\n" + log.read_text(errors="replace")[-2500:]
        name = current or "load " + " ".join(files)
        done[name] = True
        self.board.put(suite.name, side, name, outcome=outcome, seconds=0, tail=tail)

    def program(self, source, entry, until):
        """Builds a program of a list and runs it: natively twice, to show what varies, and remotely
        once."""
        out = self.file(entry["name"])
        out.mkdir()
        put = lambda text: text.format(src=source, out=out, arch=arch_of_device())
        limit = min(entry.get("seconds", 60), max(1, self.left(until)))
        if self.left(until) < 5:
            return
        for words in entry.get("build", []):
            r = self.command(
                [put(w) for w in words], source / entry.get("cwd", "."), 150, os.environ
            )
            if r["rc"] != 0:
                self.board.note("programs", "build", entry["name"], r["out"][-800:])
                return
        words, cwd = [put(w) for w in entry["run"]], source / entry.get("cwd", ".")
        env = dict(os.environ, **{k: put(v) for k, v in entry.get("env", {}).items()})
        native = self.command(words, cwd, limit, env)
        if native["rc"] == "hang":
            self.board.note("programs", "native", f"{entry['name']}: no end after {limit:.0f} s")
            return
        again = self.command(words, cwd, limit, env)
        remote = self.command(self.server.prefix() + words, cwd, limit * 2, env)
        why = differs(native, again, remote)
        self.board.put(
            "programs",
            "native",
            entry["name"],
            seconds=native["seconds"],
            tail=native["out"][-600:],
            outcome="passed" if native["rc"] == 0 else outcome_of(native["rc"]),
        )
        bad = remote["rc"] if isinstance(remote["rc"], str) else "failed"
        self.board.put("programs", "remote", entry["name"], seconds=remote["seconds"],
                       tail="\n".join([why, remote["out"][-2000:]]),
                       outcome=outcome_of(native["rc"]) if not why else bad)
        self.board.spend("programs", "native", native["seconds"])
        self.board.spend("programs", "remote", remote["seconds"])

    def command(self, cmd, cwd, limit, env):
        began = time.monotonic()
        log = self.file("log")
        try:
            with open(log, "w") as out:
                process = start(cmd, stdout=out, stderr=subprocess.STDOUT, env=env, cwd=cwd)
        except OSError as e:
            return {"rc": 127, "out": str(e), "seconds": 0}
        try:
            rc = process.wait(limit)
        except subprocess.TimeoutExpired:
            rc = "hang"
        finally:
            stop(process)
        return {
            "rc": rc,
            "out": log.read_text(errors="replace"),
            "seconds": time.monotonic() - began,
        }


@functools.cache
def arch_of_device():
    """What compilers call the first device's compute capability, as in 90."""
    ask = ["nvidia-smi", "-i", "0", "--query-gpu=compute_cap", "--format=csv,noheader"]
    said = subprocess.run(ask, capture_output=True, text=True, check=True)
    return said.stdout.strip().replace(".", "")


def outcome_of(rc):
    return rc if isinstance(rc, str) else "passed" if rc == 0 else "failed"


TIMED = re.compile(
    r"(?i)\b\d?(time|secs?|ms|msec|usec|us|seconds?|clocks?|cycles|fps|hz|[gmk]b/s|[gmk]ib/s"
    r"|[gt]flops?|bandwidth|throughput|speed|performance|perf|elapsed|latency|pid|process|free"
    r"|average|speedup)\b|\d(ms|us|s)\b|/s\b|/sec"
)
NUMBER = re.compile(r"0x[0-9a-fA-F]+|[-+]?\d+(\.\d+)?([eE][-+]?\d+)?")


def plain(out):
    """The lines of a program without what a clock or an allocator decides, and how wide it is."""
    lines = []
    for line in out.splitlines():
        line = re.sub(r"0x[0-9a-fA-F]+", "0x", " ".join(line.split()))
        lines.append(NUMBER.sub("#", line) if TIMED.search(line) else line)
    return lines


def differs(native, again, remote):
    """Why the remote run is not like the native ones; empty when it is."""
    if native["rc"] != again["rc"]:
        return (
            ""
            if remote["rc"] in (native["rc"], again["rc"])
            else f"exit {native['rc']} and {again['rc']} natively, {remote['rc']} remotely"
        )
    if native["rc"] != remote["rc"]:
        return f"exit {native['rc']} natively, {remote['rc']} remotely"
    a, b, c = plain(native["out"]), plain(again["out"]), plain(remote["out"])
    if a == c or b == c or sorted(a) == sorted(c):
        return ""
    if a != b:
        # Native does not repeat itself: what it says twice must be there once more; its numbers
        # are free.
        mask = lambda lines: sorted({NUMBER.sub("#", line) for line in lines})
        if mask(a) == mask(c) or set(a) & set(b) <= set(c) and len(mask(a)) == len(mask(c)):
            return ""
    changes = [
        d
        for d in difflib.unified_diff(a, c, lineterm="", n=0)
        if d[:1] in "+-" and d[:3] not in ("+++", "---")
    ]
    return "output: " + " | ".join(changes[:6])[:600]


def gist(tail):
    """The line of a failure's text that says what went wrong."""
    lines = [x.strip() for x in tail.splitlines() if x.strip()] or [""]
    if re.match(r"exit |no end after|output: ", lines[0]):
        return lines[0]
    errors = [x for x in lines if re.match(r"E +\S", x) and "Error" in x]
    return errors[-1] if errors else next((x for x in lines if re.match(r"E +\S", x)), lines[-1])


def side_by_side(lists, many):
    """Does what is in these lists, `many` things at a time: next is one of the list of which the
    fewest are being done, so that one with long things leaves room for the others."""
    lock = threading.Lock()
    left, busy = [list(x) for x in lists], [0] * len(lists)

    def work():
        mine = None
        while True:
            with lock:
                if mine is not None:
                    busy[mine] -= 1
                open_ones = [i for i, x in enumerate(left) if x]
                if not open_ones:
                    return
                mine = min(open_ones, key=lambda i: busy[i])
                busy[mine] += 1
                f, *args = left[mine].pop(0)
            f(*args)

    with concurrent.futures.ThreadPoolExecutor(many) as pool:
        for worker in [pool.submit(work) for _ in range(many)]:
            worker.result()


def judge(board, suite):
    """Native against remote, for the tests that both reached."""
    native, remote, again = (board.of(suite, s) for s in ("native", "remote", "again"))
    row = {
        "suite": suite,
        "tests": 0,
        "passed": 0,
        "same": 0,
        "fails": 0,
        "hangs": 0,
        "flaky": 0,
        "better": 0,
        "differ": [],
    }
    for name in sorted(set(native) | set(remote)):
        n, r = native.get(name), remote.get(name)
        if n is None or r is None:
            if name.startswith("load ") or (r and r["outcome"] in ("hang", "crash")):
                row["differ"].append(
                    {
                        "test": name,
                        "native": n and n["outcome"],
                        "remote": r and r["outcome"],
                        "tail": (r or n)["tail"],
                    }
                )
            continue
        row["tests"] += 1
        row["passed"] += n["outcome"] == "passed"
        if n["outcome"] == r["outcome"]:
            row["same"] += 1
            continue
        retry = again.get(name)
        entry = {
            "test": name,
            "native": n["outcome"],
            "remote": r["outcome"],
            "again": retry and retry["outcome"],
            "tail": r["tail"] if not retry or retry["outcome"] == "passed" else retry["tail"],
        }
        if n["outcome"] in ("failed", "error", "hang", "crash") or r["outcome"] == "passed":
            row["better"] += 1
            entry["tail"] = n["tail"]
        elif retry and retry["outcome"] == n["outcome"]:
            row["flaky"] += 1
        else:
            row["fails"] += 1
            row["hangs"] += r["outcome"] == "hang"
        row["differ"].append(entry)
    row["native_failures"] = sorted(
        n for n, r in native.items() if r["outcome"] in ("failed", "error", "hang", "crash")
    )
    row["unmatched"] = len(set(native) ^ set(remote))
    for side in ("native", "remote"):
        row[f"{side}_s"] = board.seconds.get((suite, side), 0)
    return row


def outcomes(board, suite):
    """By test: how it ended natively, remotely, and remotely once more."""
    sides = [board.of(suite, s) for s in ("native", "remote", "again")]
    names = sorted(set().union(*sides))
    return {n: [s[n]["outcome"] if n in s else None for s in sides] for n in names}


def merged(files):
    """The board of several runs; of a test that ran in two, the later file has the word."""
    board, tails = Board(), {}
    for file in files:
        run = json.loads(pathlib.Path(file).read_text())
        board.notes += run["notes"]
        for row in run["rows"]:
            tails.update({(row["suite"], d["test"]): d["tail"] for d in row["differ"]})
            for side in ("native", "remote"):
                board.spend(row["suite"], side, row[f"{side}_s"])
        for suite, tests in run["tests"].items():
            for name, ends in tests.items():
                tail = tails.get((suite, name), "")
                for side, end in zip(("native", "remote", "again"), ends):
                    if end:
                        board.put(suite, side, name, outcome=end, seconds=0, tail=tail)
    return board


def parted(chosen, specs, split):
    """The suites, with those files first of which a part is to be taken: `SUITE[:FILES]=K/N`."""
    first, rest = [], list(chosen)
    for spec in specs:
        found = re.fullmatch(r"([\w-]+)(?::(.+))?=(\d+)/(\d+)", spec)
        if not found or not 1 <= int(found[3]) <= int(found[4]):
            sys.exit(f"--part {spec}: SUITE=K/N or SUITE:FILES=K/N, K from 1 to N")
        for s in rest:
            if s.name == found[1]:
                files = [f for f in s.files if re.search(found[2] or "", f)]
                part = (int(found[3]), int(found[4]))
                taken = dataclasses.replace(s, files=files, part=part, split=split, seconds=3600)
                first.append(taken)
                s.files = [f for f in s.files if f not in files]
    return [s for s in first + rest if s.files]


def tell(board, names, file):
    """Prints the table of these suites and what differs; the exit status."""
    rows = [judge(board, n) for n in names]
    columns = ("tests", "passed", "same", "fails", "hangs", "flaky", "better", "unmatched")
    head = [("suite", 13), *((c, 9) for c in columns)]
    for r in rows:
        for d in r["differ"]:
            if (
                d["native"] not in ("failed", "error", "hang", "crash")
                and d["remote"] != "passed"
                and d.get("again") != d["native"]
            ):
                print(
                    f"  {r['suite']} {d['test'][-110:]}: {d['native']}, {d['remote']}: "
                    f"{gist(d['tail'])[:150]}"
                )
    for note in board.notes:
        print(f"  note: {note['suite']} ({note['side']}) {note['what'][:200]}")
    print(" ".join(f"{h:>{w}}" for h, w in head) + f" {'native s':>9} {'remote s':>9}")
    for r in rows:
        print(
            " ".join(f"{r[h]:>{w}}" for h, w in head)
            + f" {r['native_s']:>9.0f} {r['remote_s']:>9.0f}"
        )
    for r in rows:
        failed = len(r["native_failures"])
        if failed > r["tests"] // 4 or not r["passed"]:
            print(f"  note: {r['suite']} fails natively {failed} times: does it find all it needs?")
    if file:
        tests = {n: outcomes(board, n) for n in names}
        told = {"rows": rows, "notes": board.notes, "tests": tests}
        pathlib.Path(file).write_text(json.dumps(told))
    return 1 if any(r["fails"] for r in rows) else 0


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--dist", default="dist")
    p.add_argument("--suites", help="folder with the suites")
    p.add_argument("--part", nargs="*", default=[], metavar="SUITE[:FILES]=K/N",
                   help="the Kth of N parts of all tests instead of a sample of each file")
    p.add_argument("--split", type=int, default=1,
                   help="have so many processes share a file's part (for files that take long)")
    p.add_argument("--merge", nargs="+", metavar="JSON", help="tell of these runs as of one")
    p.add_argument("--only", nargs="*", default=[], help="suites to run")
    p.add_argument("--files", help="only test files that this regular expression finds")
    p.add_argument("--minutes", type=float, default=8.0)
    p.add_argument("--jobs", type=int, default=16)
    p.add_argument(
        "--scale", type=float, default=1.0, help="of the number of tests taken from a file"
    )
    p.add_argument("--json")
    p.add_argument("--work", help="folder for logs; a temporary one if not given")
    p.add_argument("--port", type=int, default=7412)
    p.add_argument("--link", help="an emulated network between client and server (`busbar link`)")
    p.add_argument("--native-only", action="store_true", help="no server: what passes here at all?")
    a = p.parse_args()
    if a.merge:
        board = merged(a.merge)
        sys.exit(tell(board, list(dict.fromkeys(suite for suite, _ in board.tests)), a.json))
    if a.split < 1:
        p.error("--split: one process or more")
    if not a.suites:
        p.error("--suites or --merge must be given")
    folder = pathlib.Path(a.suites).resolve()
    work = pathlib.Path(a.work or tempfile.mkdtemp(prefix="busbar-suites-")).resolve()
    work.mkdir(parents=True, exist_ok=True)
    board = Board()
    if a.native_only:
        class Nothing:
            __enter__ = lambda self: self
            __exit__ = lambda self, *_: None
            prefix = lambda self: []
        server = Nothing()
    else:
        server = Remote(a.dist, a.port, work, work / "serve.log", link=a.link)
    chosen = [s for s in suites(folder, a.scale) if not a.only or s.name in a.only]
    if a.files:
        for s in chosen:
            s.files = [f for f in s.files if re.search(a.files, f)]
    chosen = parted(chosen, a.part, a.split)
    programs = []
    for listing in sorted(folder.glob("*/programs.json")):
        if not a.only or "programs" in a.only:
            programs += [(listing.parent, e) for e in json.loads(listing.read_text())
                         if not a.files or re.search(a.files, e["name"])]
    total = a.minutes * 60
    main_until = total - min(75, total * 0.2)
    with server:
        runner = Runner(folder, work, board, server)
        sides = ["native"] if a.native_only else ["remote", "native"]
        jobs = [
            [(runner.pytest, s, side, task, main_until) for task in s.tasks() for side in sides]
            for s in chosen
        ]
        jobs.append([(runner.program, src, e, main_until) for src, e in programs])
        side_by_side(jobs, a.jobs)
        retry = []
        for s in chosen:
            native, remote = board.of(s.name, "native"), board.of(s.name, "remote")
            bad = [
                n
                for n, r in remote.items()
                if n in native
                and native[n]["outcome"] != r["outcome"]
                and native[n]["outcome"] not in ("failed", "error", "hang", "crash")
                and not n.startswith("load ")
            ][:60]
            by_file = {}
            for n in bad:
                by_file.setdefault(n.split("::")[0], []).append(n)
            for path, names in by_file.items():
                where = next(
                    (f for f in s.files if f == path or path.endswith(f.replace(".", "/") + ".py")),
                    None,
                )
                if where:
                    retry.append((s, "remote", ([where], "", ()), total, names, "again"))
        if retry and not a.native_only:
            with concurrent.futures.ThreadPoolExecutor(max(1, a.jobs // 2)) as pool:
                for f in [pool.submit(runner.pytest, *args) for args in retry]:
                    f.result()
    names = list(dict.fromkeys(s.name for s in chosen)) + (["programs"] if programs else [])
    sys.exit(tell(board, names, a.json))


main()
