"""``run sharing``: several programs on one device, each with its part of the device's time.

What a program has of the device is told in two ways. By *time*: the device time that its server
counts for it, which is what a share is a share of. It is held against the device's own clock: the
steps that a program did, times what one of them takes on the device. By *work*: its rate over its
rate alone, measured first in the same sitting. That says what sharing costs; it is no measure of
time among unlike programs, for a device that is held back by its power does more of the one while
it also does the other.
"""

import argparse
import bisect
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

from busbar_bench import FORMAT, account, machine, process
from busbar_bench.report import judged_cell, number, table_text
from busbar_bench.runner import say, server_of
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
# A neighbour that comes back has its share after this; it is looked at until then, so often.
RETURN, LOOK, INSTANT = 0.02, 0.5, 0.005
# Steps from this on are cut by others' turns more often than not.
LONG_STEP = 0.006
# Where among programs alone it stands what four reach.
FOUR = "four"
# By how much steps differ that nothing cuts.
ALIKE = 1.05
# What is told of the times of steps, and of what is waited for: a paced program's steps, a sleeper.
STEPS = (0.1, 0.25, 0.5, 0.75, 0.9)
WAITS = (0.5, 0.9, 0.99, 1)


@dataclasses.dataclass(frozen=True)
class Part:
    """One program: what it runs, the share it asks for, and when it works."""

    spec: str
    share: float | None = None
    # Seconds between two steps; None: as many as the device takes.
    every: float | None = None
    # It begins when this part of the time is over; 1: it has a session, and only works after that.
    late: float = 0.0
    # Its kernels run beside those of others that are dense, too.
    dense: bool = False
    # Steps that it starts ahead of the last that is done; None: many.
    ahead: int | None = None

    @property
    def asks(self):
        """The flags of `busbar run` by which it asks for its part."""
        flags = [] if self.share is None else ["-p", f"{self.share:g}"]
        return [*flags, "--mode", "dense"] if self.dense else flags

    def __str__(self):
        text = " ".join([self.spec, *self.asks])
        return text + (f", a step each {self.every * 1e3:g} ms" if self.every else "")


@dataclasses.dataclass(frozen=True)
class Bar:
    """What a scene is held against: a measure of MEASURES, and how much of it is wanted; without a
    limit it is only shown."""

    measure: str
    limit: float | None = None


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


FAIR = (
    Bar("off-1s", 0.02),
    Bar("off", 0.005),
    Bar("told", 0.02),
    Bar("off-1s, work"),
    Bar("off, work"),
    Bar("filled"),
)
SCENES = (
    Scene("1:1", evenly(GEMM, 2), (*FAIR, Bar("sum", 0.985)), smoke=True),
    Scene("1:1, unlike", (Part(TRAIN, 0.5), Part(DECODE, 0.5)), FAIR),
    Scene("3:1", (Part(GEMM, 0.75), Part(TRAIN, 0.25)), FAIR, smoke=True),
    Scene("7:2:1", (Part(GEMM, 0.7), Part(GRAPHS, 0.2), Part(DECODE, 0.1)), FAIR),
    Scene("two saturating", evenly(TRAIN, 2), (Bar("sum", 0.985), Bar("off"))),
    Scene("four saturating", evenly(GEMM, 4), (Bar("sum", 0.975), Bar("filled"))),
    Scene("four launch-bound", evenly(SMALL, 4), (Bar("sum", 2.8),)),
    Scene("two dense", (Part(TRAIN, dense=True),) * 2, (Bar("sum", 1.25),)),
    Scene("four dense, launch-bound", (Part(SMALL, dense=True),) * 4, (Bar("sum", 3.7),)),
    Scene("idle time lent", (Part(GEMM, 0.25),), (Bar("sum", 0.99),)),
    Scene(
        "neighbour comes back",
        # To ask for a step is a call behind those started since: of few it is known soon when the
        # first was done.
        (Part(GEMM, 0.75), Part(GEMM, 0.25, late=0.5, ahead=2)),
        (Bar("back", 0.9), Bar("back, work")),
    ),
    Scene(
        "beside a trainer",
        (Part(GEMM, 0.9), Part(GEMM, 0.1, every=0.05)),
        (Bar("late", 0.002),),
        smoke=True,
    ),
    Scene("sixteen", evenly(GEMM, 16), (Bar("uneven", 0.1),)),
    Scene(
        "sixty-four",
        (*evenly(GEMM, 32, share=False), *[Part(GEMM, late=1.0)] * 32),
        (Bar("crowd", 0.95), Bar("cores", 4)),
    ),
)


class Log:
    """What one program did in a scene: when its steps were done, and what it does alone."""

    def __init__(self, part, answer, alone):
        self.part, self.done, self.waited = part, answer["done"], answer["waited"]
        self.took = answer.get("took", [])
        self.alone = alone

    def steps(self, begin, end):
        """The steps that were done between two moments."""
        return bisect.bisect(self.done, end) - bisect.bisect(self.done, begin)

    def had(self, begin, end):
        """Its part of the device's work between two moments."""
        return self.steps(begin, end) / (end - begin) / self.alone["rate"]


@dataclasses.dataclass
class Seen:
    """All that is known of one round of a scene."""

    logs: list
    begin: float
    end: float
    # What the server counted, in the order of the logs.
    account: account.Account
    # Cores that server and workers took.
    cores: float | None = None
    # What four of the programs reach together.
    four: float | None = None


def paces(took):
    """What a step takes on the device without others' between: of those timed, the mean of all
    that are near the shortest. None where these are not alike, as of a program that the device
    waits for, and of steps that are nearly as long as a turn, or longer: all of those are cut."""
    times = [seconds for _, seconds in took]
    short, more = quantile(times, 0.1), quantile(times, 0.25)
    if not short or more > LONG_STEP or more > ALIKE * short:
        return None
    near = [each for each in times if each <= ALIKE * more]
    return sum(near) / len(near)


def pace(log, begin, end):
    """As paces(), of the steps between two moments."""
    first, last = bisect.bisect(log.done, begin), bisect.bisect(log.done, end)
    return paces([each for each in log.took if first <= each[0] < last])


def spread(times):
    """What is told of times that are waited for; None of nothing."""
    return {f"p{q * 100:g}": quantile(times, q) for q in WAITS} if times else None


def windows(begin, end, length):
    """The windows of a length between two moments, each whole."""
    count = int((end - begin) / length + 1e-9)
    return [(begin + i * length, begin + (i + 1) * length) for i in range(count)]


def shares(logs, begin, end):
    """Each one's share of the work that all did; None if nobody did anything."""
    had = [log.had(begin, end) for log in logs]
    return [h / sum(had) for h in had] if sum(had) else None


def off(logs, found):
    """How far the worst of these shares is from what was asked for."""
    asked = [log.part.share for log in logs]
    wanted = [share / sum(asked) for share in asked]
    if not found or None in found:
        return None
    return max(abs(a - b) for each in found for a, b in zip(each, wanted))


def off_1s(seen):
    return off(seen.logs, seen.account.shares(seen.begin, seen.end, SECOND))


def off_whole(seen):
    found = seen.account.had(seen.begin, seen.end)
    return found and off(seen.logs, [[each / sum(found[0]) for each in found[0]]])


def off_1s_work(seen):
    spans = windows(seen.begin, seen.end, SECOND)
    return off(seen.logs, [shares(seen.logs, *span) for span in spans])


def off_whole_work(seen):
    return off(seen.logs, [shares(seen.logs, seen.begin, seen.end)])


def told(seen):
    """How far what the server counts is from what the device's clock says, at most: of programs
    whose steps are short beside a turn."""
    found = seen.account.had(seen.begin, seen.end)
    if not found:
        return None
    rates, span = found
    long = span[1] - span[0]
    both = [(rate, log.steps(*span), pace(log, *span)) for rate, log in zip(rates, seen.logs)]
    apart = [abs(rate - steps * each / long) for rate, steps, each in both if each]
    return max(apart, default=None)


def filled(seen):
    """What part of all time the device was at steps, by its own clock: less is what turns cost."""
    each = [(log.steps(seen.begin, seen.end), pace(log, seen.begin, seen.end)) for log in seen.logs]
    if not all(pace for _, pace in each):
        return None
    return sum(steps * pace for steps, pace in each) / (seen.end - seen.begin)


def together(seen):
    return sum(log.had(seen.begin, seen.end) for log in seen.logs)


def crowd(seen):
    """What all reach, of what four of them do."""
    return seen.four and together(seen) / seen.four


def comes(seen):
    """Who comes back, and when."""
    late = next(log for log in seen.logs if log.part.late)
    return late, seen.begin + late.part.late * (seen.end - seen.begin)


def back(seen):
    """The least that it has had since it came back, of what it asked for, at any time from RETURN
    after that on."""
    late, came = comes(seen)
    ends = [came + RETURN + i * INSTANT for i in range(round((LOOK - RETURN) / INSTANT) + 1)]
    return min(late.had(came, end) for end in ends) / late.part.share


def back_later(seen):
    """As back(), of a time that begins then: without what it had by then."""
    late, came = comes(seen)
    return late.had(came + RETURN, came + RETURN + LOOK) / late.part.share


def late(seen):
    """The 99th percentile of a step's wait beyond alone, less one kernel of the neighbour."""
    paced = next(log for log in seen.logs if log.part.every)
    kernel = max(
        1 / (log.alone["rate"] * log.alone["items_per_step"])
        for log in seen.logs
        if log is not paced
    )
    return quantile(paced.waited, 0.99) - paced.alone["wait"] - kernel


def uneven(seen):
    found = shares(seen.logs, seen.begin, seen.end) or [2.0]
    return max(abs(share * len(seen.logs) - 1) for share in found)


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


POINTS = {"most": True, "unit": "points", "factor": 100}
MEASURES = {
    "off-1s": Measure(off_1s, "share of time in the worst second, off by", **POINTS),
    "off": Measure(off_whole, "share of time over all, off by", **POINTS),
    "told": Measure(told, "time counted, off the device's clock by", **POINTS),
    "off-1s, work": Measure(off_1s_work, "share of work in the worst second, off by", **POINTS),
    "off, work": Measure(off_whole_work, "share of work over all, off by", **POINTS),
    "filled": Measure(filled, "time in steps, of all", False),
    "sum": Measure(together, "work of all, over one alone", False),
    "back": Measure(back, f"share since coming back, from {RETURN * 1e3:g} ms on", False),
    "back, work": Measure(back_later, f"share of the {LOOK:g} s from then on", False),
    "late": Measure(late, "p99 of a step's wait beyond alone and a kernel", True, "ms", 1e3),
    "crowd": Measure(crowd, "work of all, over that of four", False),
    "cores": Measure(lambda seen: seen.cores, "cores that server and workers take", True),
    "uneven": Measure(uneven, "share off an equal one, at most", True, "%", 100),
}


def with_flags(prefix, flags):
    """A remote prefix that asks for a part: flags before the `--` at its end."""
    words = shlex.split(prefix)
    return shlex.join([*words[:-1], *flags, words[-1]]) if flags else prefix


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

    def order(self, begin, end, part):
        """Tells it when to work."""
        line = json.dumps({"begin": begin, "end": end, "every": part.every, "ahead": part.ahead})
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
    what it said when it was ready, and what was seen from outside."""
    with contextlib.ExitStack() as stack:
        running = []
        for part in parts:
            prefix = with_flags(args.remote_prefix, part.asks)
            running.append(stack.enter_context(Steady(part.spec, prefix, args)))
        said = [each.answer(args.timeout) for each in running]
        watch = stack.enter_context(account.Watch(args.remote_prefix, args.server))
        begin = time.monotonic() + NOTICE + LEAD
        end = begin + seconds
        for part, each in zip(parts, running):
            starts = begin + part.late * seconds if part.late else begin - LEAD
            each.order(starts, end + LEAD, part)
        answers = [each.answer(seconds + args.timeout) for each in running]
    return begin, end, answers, said, watch


def rate_of(steps, seconds):
    """Steps a second, of the times at which steps were done within so many seconds: a few long
    ones are told from the first to the last, not by how many fit."""
    if len(steps) < 3:
        return len(steps) / seconds
    return (len(steps) - 1) / (steps[-1] - steps[0])


def run_alone(spec, every, seconds, args):
    """What a program does with the device to itself, and with no share asked for."""
    begin, end, [answer], [said], watch = run_parts([Part(spec, every=every)], seconds, args)
    steps = [t for t in answer["done"] if begin < t <= end]
    if not steps:
        raise Failed(f"{spec}: no step was done in {seconds:g} s")
    return {
        "rate": rate_of(steps, end - begin),
        "wait": median(answer["waited"]),
        "items_per_step": said["items_per_step"],
        "pace": paces(answer.get("took", [])),
        "device": watch.device(begin, end),
    }


def run_four(scene, alone, seconds, args):
    """What four of a scene's programs reach together."""
    parts = scene.parts[:4]
    begin, end, answers, _, _ = run_parts(parts, seconds, args)
    logs = [Log(part, answer, alone[part.spec, part.every]) for part, answer in zip(parts, answers)]
    return sum(log.had(begin, end) for log in logs)


def run_scene(scene, alone, seconds, args):
    """One round of a scene: its figures, and its shares over time."""
    begin, end, answers, said, watch = run_parts(scene.parts, seconds, args)
    logs = [
        Log(part, answer, alone[part.spec, part.every])
        for part, answer in zip(scene.parts, answers)
    ]
    seen = Seen(
        logs,
        begin,
        end,
        watch.account([each["pid"] for each in said]),
        watch.cores.taken(begin, end),
        alone.get(FOUR),
    )
    return {
        "values": {bar.measure: MEASURES[bar.measure].find(seen) for bar in scene.bars},
        "points": [
            [round(log.had(*span), 4) for span in windows(begin, end, POINT)] for log in logs
        ],
        # Of time: each one's share of every window of a second, from each look on.
        "time": [
            [round(each, 4) for each in had] for had in seen.account.shares(begin, end, SECOND)
        ],
        "pace": [pace(log, begin, end) for log in logs],
        "steps": [[quantile((t for _, t in log.took), q) for q in STEPS] for log in logs],
        "cores": seen.cores,
        "waits": [spread(log.waited) for log in logs],
        "device": watch.device(begin, end),
        "late": spread(watch.wakes.late(begin, end)),
    }


def scenes_of(args):
    """The scenes to run: all, those of the quick version, or those asked for."""
    if args.only:
        return [scene for scene in SCENES if any(text in scene.name for text in args.only)]
    return [scene for scene in SCENES if scene.smoke or not args.smoke]


def sides_of(args):
    """Name and arguments of each side: Busbar, which has no name, and its peers."""
    yield "", args
    for name, prefix in args.peer.items():
        own = {"remote_prefix": prefix, "server": server_of(name, args)}
        yield name, argparse.Namespace(**{**vars(args), **own})


@dataclasses.dataclass(frozen=True)
class Sitting:
    """A scene of one side. Its bars are held against Busbar alone."""

    scene: Scene
    side: str
    args: argparse.Namespace

    @property
    def name(self):
        return f"{self.scene.name}, {self.side}" if self.side else self.scene.name

    @property
    def bars(self):
        return [[bar.measure, None if self.side else bar.limit] for bar in self.scene.bars]


def measure(args):
    """Runs every scene of each side, in turn; returns the result that goes into the JSON file."""
    sides = list(sides_of(args))
    scenes = [Sitting(scene, *side) for scene in scenes_of(args) for side in sides]
    seconds = args.seconds or (SMOKE_SECONDS if args.smoke else SECONDS)
    started = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    rounds = {scene.name: [] for scene in scenes}
    errors = {scene.name: [] for scene in scenes}
    alones = []
    for index in range(args.rounds):
        alones.append([])
        by_side = {name: {} for name, _ in sides}
        for sitting in scenes:
            scene, alone = sitting.scene, by_side[sitting.side]
            say(f"round {index + 1}: {sitting.name}")
            try:
                for part in scene.parts:
                    key = part.spec, part.every
                    if key not in alone:
                        alone[key] = run_alone(*key, max(seconds / 3, 2.0), sitting.args)
                        of = {"spec": part.spec, "every": part.every, "side": sitting.side}
                        alones[-1].append({**of, **alone[key]})
                alone.pop(FOUR, None)
                if any(bar.measure == "crowd" for bar in scene.bars):
                    alone[FOUR] = run_four(scene, alone, max(seconds / 3, 2.0), sitting.args)
                found = run_scene(scene, alone, seconds, sitting.args)
                rounds[sitting.name].append(found)
                # As they come: a run that is cut short has told what it saw.
                for name, value in found["values"].items():
                    say(f"{sitting.name}: {MEASURES[name].name}: {MEASURES[name].text(value)}")
            except Failed as error:
                say(f"round {index + 1}: {sitting.name} failed")
                errors[sitting.name].append(f"round {index + 1}: {error}")
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
            {"name": sitting.name, "parts": [str(part) for part in sitting.scene.parts],
             "shares": [part.share for part in sitting.scene.parts], "bars": sitting.bars,
             "rounds": rounds[sitting.name], "errors": errors[sitting.name]}
            for sitting in scenes
        ],
    }  # fmt: skip


def judge(result):
    """(scene, measure, worst value, limit, verdict) for each bar: every round is held to it."""
    rows = []
    for scene in result["scenes"]:
        for name, limit in scene["bars"]:
            of = MEASURES[name]
            values = [each["values"][name] for each in scene["rounds"]]
            known = [value for value in values if value is not None]
            worst = (max if of.most else min)(known, default=None)
            if scene["errors"]:
                verdict = "error"
            elif not known or len(known) < len(values):
                verdict = "no data"
            elif limit is None:
                verdict = "shown"
            else:
                verdict = "pass" if of.ok(worst, limit) else "fail"
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
        bound = "-" if limit is None else f"at {'most' if of.most else 'least'} {of.text(limit)}"
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
        if verdict != "shown"
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
            parts += [f"  {name}: {', '.join(found)}" for name, found in means(each)]
        parts += [f"  {error}" for error in scene["errors"]]
    for index, alone in enumerate(result["alone"]):
        parts += ["", f"alone, round {index + 1}:"]
        for of in alone:
            pace = of.get("pace") and f", {number(of['pace'] * 1e3)} ms a step"
            about = f"{number(of['rate'])} steps/s{pace or ''}{device_text(of.get('device'))}"
            side = f", {of['side']}" if of.get("side") else ""
            parts.append(f"  {of['spec']}{side}: {about}")
    return "\n".join(parts)


def device_text(device):
    return f", {device['mhz']:g} MHz, {device['watts']:g} W" if device else ""


def means(each):
    """What is said of one round: names, and a text for each program."""
    had = [number(sum(p) / len(p)) if p else "-" for p in each["points"]]
    yield f"work done, of one alone{device_text(each.get('device'))}", had
    of = list(zip(*each.get("time", [])))
    if of:
        yield "share of time, mean of seconds", [number(sum(t) / len(t)) for t in of]
    if any(each.get("pace", [])):
        yield "ms a step", [number(p * 1e3) if p else "-" for p in each["pace"]]
    if each.get("cores") is not None:
        yield "cores that server and workers took", [number(each["cores"])]
    late = ("ms that a sleeper woke late", each.get("late"))
    for name, times in [late, *(("ms to wait", waits) for waits in each.get("waits", []))]:
        if times:
            yield name, [f"{of} {number(t * 1e3)}" for of, t in times.items()]


def markdown(result):
    """The bars and the numbers behind them, for a document."""
    lines = [f"## {title(result)}", "", "| " + " | ".join(HEAD) + " |"]
    lines.append("|" + "---|" * len(HEAD))
    lines += ["| " + " | ".join(row) + " |" for row in judged_rows(result)]
    return "\n".join([*lines, "", "```", result_text(result), "```", ""])
