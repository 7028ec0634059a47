"""Runs programs natively and through a Busbar server of this machine, and shows both side by side.

What ./demo and the lanes share. A program passes when both runs exit alike and print the same
result, and the second one did go through Busbar.
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CACHE = ROOT / ".cache"
TTY = sys.stdout.isatty()


def paint(code, text):
    return f"\033[{code}m{text}\033[0m" if TTY and "NO_COLOR" not in os.environ else text


def say(text=""):
    print(("\r\033[K" if TTY else "") + text, flush=True)


class Clock:
    """Shows, where nothing else is printed for long, that something goes on."""

    def __init__(self, what):
        self.what, self.done = what, threading.Event()

    def __enter__(self):
        self.thread = threading.Thread(target=self.tick, daemon=True)
        self.thread.start()

    def tick(self):
        begun = time.monotonic()
        while not self.done.wait(1 if TTY else 30):
            seconds = time.monotonic() - begun
            if TTY:
                print(f"\r\033[K    {self.what}: {seconds:.0f} s", end="", flush=True)
            else:
                say(f"    {self.what}: {seconds:.0f} s so far")

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()
        if TTY:
            print("\r\033[K", end="", flush=True)


def uncommented(out):
    """The lines that are compared, unless a program says otherwise: those with `#` are for people.
    """
    return [line for line in out.splitlines() if not line.startswith("#")]


class Program:
    """One program: its command, which of its lines are its result, and how a table shows that.

    With `every`, it trains, prints `step N loss X` and `# SECONDS s`, and each `every`th step is
    shown as it comes.
    """

    def __init__(self, name, command, *, limit=120, env=None, lines=None, show=None, every=0):
        self.name, self.command, self.limit = name, [str(c) for c in command], limit
        self.env, self.every = env or {}, every
        self.lines = lines or uncommented
        self.show = show or (lambda lines: lines[0] if lines else "nothing")


def losses(lines):
    """How a table shows a training run."""
    steps = [x for x in lines if x.startswith("step ")]
    return f"{len(steps)} losses, last {steps[-1].split()[-1]}" if steps else "nothing"


def run(command, limit, env, on_line=None):
    """Runs to the end or to the limit; calls back with each line of the output as it comes."""
    start = time.monotonic()
    with tempfile.TemporaryFile("w+") as err:
        try:
            child = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=err, text=True, env=env, errors="replace",
                stdin=subprocess.DEVNULL, start_new_session=True)
        except OSError as e:
            return {"rc": str(e), "out": "", "err": str(e), "seconds": 0.0}
        late = threading.Event()

        def stop():
            late.set()
            os.killpg(child.pid, signal.SIGKILL)

        timer = threading.Timer(limit, stop)
        timer.start()
        out = []
        try:
            for line in child.stdout:
                out.append(line)
                if on_line:
                    on_line(line.rstrip("\n"))
            rc = child.wait()
        except BaseException:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            raise
        finally:
            timer.cancel()
        err.seek(0)
        return {"rc": f"no end within {limit} s" if late.is_set() else rc, "out": "".join(out),
                "err": err.read(), "seconds": time.monotonic() - start}


class Steps:
    """Shows a training run's steps as they come; the second run's beside the first's."""

    def __init__(self, every, first=None):
        self.every, self.first, self.rows, self.loss = every, first, [], None

    def __call__(self, line):
        if m := re.match(r"step (\d+) loss (\S+)", line):
            self.loss = m[2]
        elif (m := re.match(r"# ([\d.]+) s$", line)) and self.loss is not None:
            self.rows.append((self.loss, float(m[1])))
            self.show(len(self.rows), self.loss, float(m[1]))
            self.loss = None

    def show(self, step, loss, seconds):
        due = step == 1 or step % self.every == 0
        if self.first is None:
            slow = "  (preparing kernels)" if seconds > 5 else ""
            if due or slow:
                say(f"    step {step:>2}   loss {loss:<20} {seconds:>8.3f} s{slow}")
            return
        native, before = self.first[step - 1] if step <= len(self.first) else ("none", 0.0)
        same = paint(32, "equal") if loss == native else paint(31, "DIFFERS")
        if due or loss != native:
            say(f"    step {step:>2}   {native:<20} {loss:<20} {before:>8.3f} s {seconds:>8.3f} s"
                f"  {same}")


def stats_of(err):
    """What BUSBAR_STATS=1 made a program's run say."""
    for line in err.splitlines():
        if line.startswith("busbar-stats: "):
            return json.loads(line.split(" ", 1)[1])
    return {}


def last_line(text):
    lines = [x for x in text.splitlines() if x.strip() and not x.startswith("busbar-stats")]
    return lines[-1][:200] if lines else "no message"


def verdict(program, native, remote, stats):
    if native["rc"] != 0:
        said = last_line(native["err"] or native["out"])
        return False, f"fails natively ({native['rc']}): {said}"
    if remote["rc"] != native["rc"]:
        return False, f"exit {remote['rc']} through Busbar: " + last_line(remote["err"])
    if not stats.get("calls"):
        return False, "the second run did not go through Busbar"
    a, b = program.lines(native["out"]), program.lines(remote["out"])
    if not a:
        return False, "it printed no result"
    for x, y in zip(a + [""] * (len(b) - len(a)), b + [""] * (len(a) - len(b))):
        if x != y:
            return False, f"natively {x!r}, through Busbar {y!r}"[:300]
    return True, ""


def compare(program, base, prefix, native_prefix=()):
    """Runs a program both ways; `prefix` makes its command a client. Returns a row for `table`."""
    def env(side):
        # What a program keeps on disk must not let one run answer for the other.
        home = CACHE / side
        home.mkdir(parents=True, exist_ok=True)
        return dict(base, XDG_CACHE_HOME=str(home), PYOPENCL_NO_CACHE="1", **program.env)

    first = second = None
    if program.every:
        say(f"\n  {program.name}, natively (the first steps prepare kernels)")
        first = Steps(program.every)
    with Clock("natively"):
        native = run([*native_prefix, *program.command], program.limit, env("native"), first)
    if program.every and native["rc"] == 0:
        say(f"\n  {program.name}, through Busbar\n    {'step':<7}   {'loss natively':<20} "
            f"{'loss through Busbar':<20} {'natively':>10} {'Busbar':>10}")
        second = Steps(program.every, first.rows)
    if native["rc"] == 0:
        with Clock("through Busbar"):
            remote = run(prefix + program.command, program.limit,
                         dict(env("busbar"), BUSBAR_STATS="1"), second)
    else:
        remote = {"rc": "not run", "out": "", "err": "", "seconds": 0.0}
    stats = stats_of(remote["err"])
    ok, why = verdict(program, native, remote, stats)

    def shown(r):
        try:
            return program.show(program.lines(r["out"]))
        except IndexError:
            return "?"

    row = {"name": program.name, "ok": ok, "why": why, "native": shown(native),
           "remote": shown(remote), "native_s": round(native["seconds"], 3),
           "remote_s": round(remote["seconds"], 3), "calls": stats.get("calls"),
           "round_trips": stats.get("round_trips")}
    if second is not None:
        row["steps"] = [{"native_loss": a[0], "loss": b[0], "native_s": a[1], "s": b[1]}
                        for a, b in zip(first.rows, second.rows)]
    if not ok:
        folder = CACHE / "failed"
        folder.mkdir(exist_ok=True)
        log = folder / (re.sub(r"\W+", "-", program.name) + ".txt")
        log.write_text(f"{program.command}\n== natively\n{native['out']}{native['err']}\n"
                       f"== through Busbar\n{remote['out']}{remote['err']}\n")
        row["log"] = str(log)
    return row


class Server:
    """`busbar serve` on a free port while the block runs, or this program ends with its message."""

    def __init__(self, dist, env, api, flags=()):
        self.busbar = pathlib.Path(dist).resolve() / "bin/busbar"
        if not self.busbar.exists():
            sys.exit(f"{self.busbar} does not exist; ./demo or `cargo xtask dist` builds it")
        CACHE.mkdir(exist_ok=True)
        self.log, self.env = CACHE / "serve.log", env
        self.flags = ["--api", api, "--cache-dir", CACHE / "server", *flags]

    def __enter__(self):
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                [self.busbar, "serve", "--drain", "0s", "--listen", "127.0.0.1:0", *self.flags],
                stdout=subprocess.PIPE, stderr=log, text=True, env=self.env)
        for line in self.process.stdout:
            if line.startswith("busbar: listening on "):
                self.address = line.split()[-1]
                drain = threading.Thread(target=self.process.stdout.read, daemon=True)
                drain.start()
                return self
        self.process.wait()
        sys.exit(f"the server did not start: {last_line(self.log.read_text())}")

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def prefix(self):
        """What makes a command a client of this server."""
        return [str(self.busbar), "run", "--server", self.address, "--"]


def sessions(busbar, address):
    """The sessions that `busbar ps` lists."""
    command = [busbar, "ps", "--json", "--server", address]
    said = subprocess.run(command, capture_output=True, text=True, timeout=30).stdout
    return json.loads(said)[0]["status"]["sessions"]


def session_of(busbar, address, pid):
    """The session of a program, as `busbar ps` has it."""
    for _ in range(100):
        for s in sessions(busbar, address):
            if s["pid"] == pid:
                return s
        time.sleep(0.05)
    sys.exit("a program is not listed by `busbar ps`")


def environment(**more):
    """This process's, without what would change how Busbar or an OpenCL loader works."""
    ours = ("BUSBAR_", "OCL_ICD_", "PYOPENCL_")
    return {k: v for k, v in os.environ.items() if not k.startswith(ours)} | {
        "PYTHONUNBUFFERED": "1", **more}


def compare_all(programs, base, prefix):
    rows = []
    for program in programs:
        if not program.every:
            say(f"  {program.name} ...")
        rows.append(compare(program, base, prefix))
    return rows


def table(rows):
    def cut(text, width):
        return text if len(text) <= width else text[:width - 1] + "…"

    say(f"\n  {'program':<18} {'result natively':<26} {'result through Busbar':<26} {'native':>8} "
        f"{'Busbar':>8} {'calls':>7} {'trips':>6}")
    for r in rows:
        mark = paint(32, "equal") if r["ok"] else paint(31, "DIFFERS")
        say(f"  {r['name']:<18} {cut(r['native'], 26):<26} {cut(r['remote'], 26):<26} "
            f"{r['native_s']:>6.1f} s {r['remote_s']:>6.1f} s {r['calls'] or 0:>7} "
            f"{r['round_trips'] or 0:>6}  {mark}")
    for r in rows:
        if not r["ok"]:
            say(f"\n  {r['name']}: {r['why']}\n    (all output: {r['log']})")


def report(rows, absent, seconds, json_file=None):
    """Prints and writes what came of it, and ends this program with the status."""
    table(rows)
    for name, why in absent:
        say(f"  {name:<18} left out: {why}")
    bad = sum(not r["ok"] for r in rows) + sum("compile" in why for _, why in absent)
    good = sum(r["ok"] for r in rows)
    text = f"{good} of {len(rows)} programs give the same result through Busbar as natively"
    say(f"\n  {paint(31 if bad else 32, text)} ({seconds:.0f} s)")
    if not bad:
        say("  trips: the calls that waited for an answer; all others were queued")
    if json_file:
        pathlib.Path(json_file).write_text(
            json.dumps({"rows": rows, "absent": absent}, indent=1) + "\n")
    sys.exit(1 if bad or not rows else 0)


def start(main):
    """Runs `main`; a signal that ends it ends what it started too."""
    def end(*_):
        raise KeyboardInterrupt
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, end)
    try:
        main()
    except KeyboardInterrupt:
        say("\ninterrupted: what was started is ended, and what is built and compiled is kept; "
            "run it again to go on")
        sys.exit(130)
