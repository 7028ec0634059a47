"""``run sharing``: several programs on one device, each with its part of the device's time.

What a program has of the device is its rate over its rate alone: work done, not time said. A share
is that over the sum of all. Rates alone are measured first, in the same sitting.
"""

import contextlib
import dataclasses
import datetime
import json
import os
import queue
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time

from busbar_bench import FORMAT, machine, process
from busbar_bench.report import judged_cell, number, table_text
from busbar_bench.runner import say
from busbar_bench.stats import median, quantile

GEMM = "gemm:4096:bf16"
GRAPHS = "resnet32:32:fp32:graphs"
TRAIN = "resnet50:64:bf16"
SMALL = "resnet32:32:fp32"
DECODE = "gpt2-decode:8:bf16"

SECONDS, SMOKE_SECONDS = 30.0, 5.0
# All run for this long before and after what is measured.
LEAD = 1.0
# Between an order and its begin: every process has read it by then.
NOTICE = 0.5
# The width of the points that a plot shows.
POINT = 0.25
SECOND = 1.0
# A neighbour that comes back is owed its share after this; then it is looked at for so long.
RETURN, LOOK = 0.02, 0.5


@dataclasses.dataclass(frozen=True)
class Part:
    """One program: what it runs, the share it asks for, and when it works."""

    spec: str
    share: float | None = None
    # Seconds between two steps; None: as many as the device takes.
    every: float | None = None
    # It begins when this part of the time is over.
    late: float = 0.0

    def __str__(self):
        text = self.spec if self.share is None else f"{self.spec} -p {self.share:g}"
        return text + (f", a step each {self.every * 1e3:g} ms" if self.every else "")


@dataclasses.dataclass(frozen=True)
class Bar:
    """What a scene is held against: a measure of MEASURES, and how much of it is wanted."""

    measure: str
    limit: float


@dataclasses.dataclass(frozen=True)
class Scene:
    """Programs that run side by side."""

    name: str
    parts: tuple
    bars: tuple
    smoke: bool = False


def evenly(spec, count, share=True):
    """As many of one program, each with the same share."""
    return tuple(Part(spec, 1 / count if share else None) for _ in range(count))


FAIR = (Bar("off-1s", 0.02), Bar("off", 0.005))
SCENES = (
    Scene("1:1", evenly(GEMM, 2), (*FAIR, Bar("sum", 0.985)), smoke=True),
    Scene("1:1, unlike", (Part(TRAIN, 0.5), Part(DECODE, 0.5)), FAIR),
    Scene("3:1", (Part(GEMM, 0.75), Part(TRAIN, 0.25)), FAIR, smoke=True),
    Scene("7:2:1", (Part(GEMM, 0.7), Part(GRAPHS, 0.2), Part(DECODE, 0.1)), FAIR),
    Scene("two saturating", evenly(TRAIN, 2), (Bar("sum", 0.985),)),
    Scene("four saturating", evenly(GEMM, 4), (Bar("sum", 0.975),)),
    Scene("four launch-bound", evenly(SMALL, 4), (Bar("sum", 2.8),)),
    Scene("idle time lent", (Part(GEMM, 0.25),), (Bar("sum", 0.99),)),
    Scene(
        "neighbour comes back",
        (Part(GEMM, 0.75), Part(GEMM, 0.25, late=0.5)),
        (Bar("back", 0.9),),
    ),
    Scene(
        "beside a trainer",
        (Part(GEMM, 0.9), Part(GEMM, 0.1, every=0.05)),
        (Bar("late", 0.002),),
        smoke=True,
    ),
    Scene("sixteen", evenly(GEMM, 16), (Bar("uneven", 0.1),)),
)


class Log:
    """What one program did in a scene: when its steps were done, and what it does alone."""

    def __init__(self, part, answer, alone):
        self.part, self.done, self.waited = part, answer["done"], answer["waited"]
        self.alone = alone

    def had(self, begin, end):
        """Its part of the device's work between two moments."""
        steps = sum(begin < t <= end for t in self.done)
        return steps / (end - begin) / self.alone["rate"]


def windows(begin, end, length):
    """The windows of a length between two moments, each whole."""
    count = int((end - begin) / length + 1e-9)
    return [(begin + i * length, begin + (i + 1) * length) for i in range(count)]


def shares(logs, begin, end):
    """Each one's share of what all had; None if nobody had anything."""
    had = [log.had(begin, end) for log in logs]
    return [h / sum(had) for h in had] if sum(had) else None


def off(logs, spans):
    """How far the worst share of the worst window is from what was asked for."""
    asked = [log.part.share for log in logs]
    wanted = [share / sum(asked) for share in asked]
    found = [shares(logs, *span) for span in spans]
    if not found or None in found:
        return 1.0
    return max(abs(a - b) for each in found for a, b in zip(each, wanted))


def off_1s(logs, begin, end):
    return off(logs, windows(begin, end, SECOND))


def off_whole(logs, begin, end):
    return off(logs, [(begin, end)])


def together(logs, begin, end):
    return sum(log.had(begin, end) for log in logs)


def back(logs, begin, end):
    late = next(log for log in logs if log.part.late)
    came = begin + late.part.late * (end - begin) + RETURN
    return late.had(came, came + LOOK) / late.part.share


def late(logs, begin, end):
    """The 99th percentile of a step's wait beyond alone, less one kernel of the neighbour."""
    paced = next(log for log in logs if log.part.every)
    kernel = max(
        1 / (log.alone["rate"] * log.alone["items_per_step"]) for log in logs if log is not paced
    )
    return quantile(paced.waited, 0.99) - paced.alone["wait"] - kernel


def uneven(logs, begin, end):
    return max(abs(share * len(logs) - 1) for share in shares(logs, begin, end) or [2.0])


@dataclasses.dataclass(frozen=True)
class Measure:
    """A figure of a scene: how it is found, what it is called, which side of a limit is good."""

    find: object
    name: str
    most: bool
    unit: str = ""
    factor: float = 1.0

    def text(self, value):
        return "-" if value is None else f"{number(value * self.factor)} {self.unit}".strip()

    def ok(self, value, limit):
        return value <= limit if self.most else value >= limit


MEASURES = {
    "off-1s": Measure(off_1s, "worst share in a second, off by", True, "points", 100),
    "off": Measure(off_whole, "share over all, off by", True, "points", 100),
    "sum": Measure(together, "work of all, over one alone", False),
    "back": Measure(back, f"share from {RETURN * 1e3:g} ms after coming back, of asked", False),
    "late": Measure(late, "p99 of a step's wait beyond alone and a kernel", True, "ms", 1e3),
    "uneven": Measure(uneven, "share off an equal one, at most", True, "%", 100),
}


def with_share(prefix, share):
    """A remote prefix that asks for a share: `-p` before the `--` at its end."""
    words = shlex.split(prefix)
    if share is None:
        return prefix
    return shlex.join([*words[:-1], "-p", f"{share:g}", words[-1]])


class Failed(Exception):
    """A program of a scene did not do what it was told."""


class Steady:
    """A running `busbar_bench.steady`; a context manager."""

    def __init__(self, spec, prefix, args):
        argv = [sys.executable, "-m", "busbar_bench.steady", spec]
        command = process.command_of(prefix, args.server, argv)
        self.spec = spec
        self.errors = tempfile.TemporaryFile("w+")
        env = {**os.environ, **process.own_environment(args.remote_env)}
        try:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
                text=True, env=env, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise Failed(f"cannot start {command[0]!r}: {error.strerror}") from error
        self.lines = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def answer(self, timeout):
        """Its next line."""
        try:
            line = self.lines.get(timeout=timeout)
        except queue.Empty:
            raise Failed(f"{self.spec}: no answer after {timeout:g} s") from None
        if line is None:
            self.errors.seek(0)
            last = self.errors.read().strip().splitlines()[-1:] or ["nothing on standard error"]
            raise Failed(f"{self.spec}: ended: {last[0][:300]}")
        return json.loads(line)

    def order(self, begin, end, every):
        """Tells it when to work."""
        line = json.dumps({"begin": begin, "end": end, "every": every})
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.process.stdout.close()
        self.errors.close()


def run_parts(parts, seconds, args):
    """Runs programs side by side; returns the begin and the end of what counts, each one's answer,
    and what it said when it was ready."""
    with contextlib.ExitStack() as stack:
        running = []
        for part in parts:
            prefix = with_share(args.remote_prefix, part.share)
            running.append(stack.enter_context(Steady(part.spec, prefix, args)))
        said = [each.answer(args.timeout) for each in running]
        begin = time.monotonic() + NOTICE + LEAD
        end = begin + seconds
        for part, each in zip(parts, running):
            starts = begin + part.late * seconds if part.late else begin - LEAD
            each.order(starts, end + LEAD, part.every)
        answers = [each.answer(seconds + args.timeout) for each in running]
    return begin, end, answers, said


def run_alone(spec, every, seconds, args):
    """What a program does with the device to itself, and with no share asked for."""
    begin, end, [answer], [said] = run_parts([Part(spec, every=every)], seconds, args)
    steps = sum(begin < t <= end for t in answer["done"])
    if not steps:
        raise Failed(f"{spec}: no step was done in {seconds:g} s")
    return {
        "rate": steps / (end - begin),
        "wait": median(answer["waited"]),
        "items_per_step": said["items_per_step"],
    }


def run_scene(scene, alone, seconds, args):
    """One round of a scene: its figures, and its shares over time."""
    begin, end, answers, _ = run_parts(scene.parts, seconds, args)
    logs = [
        Log(part, answer, alone[part.spec, part.every])
        for part, answer in zip(scene.parts, answers)
    ]
    return {
        "values": {bar.measure: MEASURES[bar.measure].find(logs, begin, end) for bar in scene.bars},
        "points": [
            [round(log.had(*span), 4) for span in windows(begin, end, POINT)] for log in logs
        ],
    }


def scenes_of(args):
    """The scenes to run: all, those of the quick version, or those asked for."""
    if args.only:
        return [scene for scene in SCENES if any(text in scene.name for text in args.only)]
    return [scene for scene in SCENES if scene.smoke or not args.smoke]


def measure(args):
    """Runs every scene; returns the result that goes into the JSON file."""
    scenes = scenes_of(args)
    seconds = args.seconds or (SMOKE_SECONDS if args.smoke else SECONDS)
    started = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    rounds = {scene.name: [] for scene in scenes}
    errors = {scene.name: [] for scene in scenes}
    alones = []
    for index in range(args.rounds):
        alone = {}
        for scene in scenes:
            say(f"round {index + 1}: {scene.name}")
            try:
                for part in scene.parts:
                    key = part.spec, part.every
                    if key not in alone:
                        alone[key] = run_alone(*key, max(seconds / 3, 2.0), args)
                found = run_scene(scene, alone, seconds, args)
                rounds[scene.name].append(found)
                # As they come: a run that is cut short has told what it saw.
                for name, value in found["values"].items():
                    say(f"{scene.name}: {MEASURES[name].name}: {MEASURES[name].text(value)}")
            except Failed as error:
                say(f"round {index + 1}: {scene.name} failed")
                errors[scene.name].append(f"round {index + 1}: {error}")
        alones.append([{"spec": spec, "every": every, **of} for (spec, every), of in alone.items()])
    return {
        "format": FORMAT,
        "table": "sharing",
        "title": "programs that share a device",
        "started": started,
        "command": sys.argv,
        "machine": machine.describe(),
        "settings": {"rounds": args.rounds, "seconds": seconds, "prefix": args.remote_prefix,
                     "link": None, "point_s": POINT},
        "alone": alones,
        "scenes": [
            {"name": scene.name, "parts": [str(part) for part in scene.parts],
             "shares": [part.share for part in scene.parts],
             "bars": [[bar.measure, bar.limit] for bar in scene.bars],
             "rounds": rounds[scene.name], "errors": errors[scene.name]}
            for scene in scenes
        ],
    }  # fmt: skip


def judge(result):
    """(scene, measure, worst value, limit, verdict) for each bar: every round is held to it."""
    rows = []
    for scene in result["scenes"]:
        for name, limit in scene["bars"]:
            of = MEASURES[name]
            values = [each["values"][name] for each in scene["rounds"]]
            worst = (max if of.most else min)(values, default=None)
            if scene["errors"]:
                verdict = "error"
            else:
                verdict = "no data" if worst is None else "pass" if of.ok(worst, limit) else "fail"
            rows.append((scene["name"], name, worst, limit, verdict))
    return rows


def verdict_text(measure, value, limit, verdict):
    """Met, or missed by how much."""
    if verdict == "fail":
        return f"missed by {measure.text(abs(value - limit))}"
    return {"pass": "met"}.get(verdict, verdict)


def judged_rows(result):
    """The bars as text."""
    rows = []
    for scene, name, value, limit, verdict in judge(result):
        of = MEASURES[name]
        bound = f"at {'most' if of.most else 'least'} {of.text(limit)}"
        said = verdict_text(of, value, limit, verdict)
        rows.append((scene, of.name, of.text(value), bound, said))
    return rows


def title(result):
    """What it is called where there are several results."""
    return f"sharing: {result['title']}"


def verdicts(result):
    """(name, verdict, its text) of each bar."""
    return [
        (f"{scene}: {MEASURES[name].name}", verdict, text)
        for (scene, name, *_, verdict), (*_, text) in zip(judge(result), judged_rows(result))
    ]


def grid(result):
    """Head and rows of the bars, as pages show them."""
    return list(HEAD), [[*cells, judged_cell(verdict)] for *cells, verdict in judged_rows(result)]


HEAD = ("programs", "what (worst round)", "measured", "bar", "verdict")


def result_text(result):
    """The report."""
    parts = [result["title"], "", table_text(HEAD, judged_rows(result))]
    for scene in result["scenes"]:
        parts += ["", f"{scene['name']}: {'; '.join(scene['parts'])}"]
        for each in scene["rounds"]:
            means = [number(sum(p) / len(p)) if p else "-" for p in each["points"]]
            parts.append(f"  work done, of one alone: {', '.join(means)}")
        parts += [f"  {error}" for error in scene["errors"]]
    return "\n".join(parts)


def markdown(result):
    """The bars and the numbers behind them, for a document."""
    lines = [f"## {title(result)}", "", "| " + " | ".join(HEAD) + " |"]
    lines.append("|" + "---|" * len(HEAD))
    lines += ["| " + " | ".join(row) + " |" for row in judged_rows(result)]
    return "\n".join([*lines, "", "```", result_text(result), "```", ""])
