"""Micro-benchmarks: launches, synchronize, copies, the first result, what a step sends, and what a
call of each kind costs.

The driver's part are two small C programs (native/driver.c and calls.c), run with and without the
prefix.
"""

import contextlib
import datetime
import glob
import math
import os
import shutil
import sys
import tempfile
import time

from busbar_bench import FORMAT, machine, process
from busbar_bench.published import LINKS, MICRO_BARS, MICRO_NAMES
from busbar_bench.report import judged_cell, number, table_text
from busbar_bench.results import LOCAL, REMOTE
from busbar_bench.runner import Links, order_of, say, server_of, sides_of
from busbar_bench.spec import parse
from busbar_bench.stats import median

NATIVE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "native")
PARTS = ("launch", "sustained", "sync", "copies", "calls", "steps", "memory", "first-result")
FIRST_RESULT = (
    "import time; a=time.perf_counter(); import torch; b=time.perf_counter(); "
    "torch.zeros(1).cuda(); torch.cuda.synchronize(); c=time.perf_counter(); "
    'import json; print(json.dumps({"import_s": b-a, "first_result_s": c-b}))'
)
# Copies at least this large have to fill the link.
BULK_BYTES = 1 << 20


def build(folder, name):
    """Compiles a C program; returns its path, or None without a compiler."""
    for compiler in ("cc", "gcc", "clang", "nvcc"):
        if shutil.which(compiler):
            path = os.path.join(folder, name)
            threads = [] if compiler == "nvcc" else ["-pthread"]
            source = os.path.join(NATIVE, f"{name}.c")
            outcome = process.run(
                [compiler, "-O2", "-o", path, source, *threads, "-ldl"], timeout=120
            )
            if outcome["error"] is None:
                return path
            say(f"{compiler} cannot build {name}.c: {outcome['error']}")
    return None


def driver_modes(parts, args):
    """The command lines of the C program for the parts asked for."""
    smoke = args.smoke
    modes = []
    if "launch" in parts:
        modes += [("launch_1", ["launch", "1", "50" if smoke else "250"])]
        modes += [("launch_8", ["launch", "8", "10" if smoke else "250"])]
    if "sustained" in parts:
        seconds = "1" if smoke else "3"
        modes += [("sustained_1", ["sustained", seconds, "1"])]
        modes += [("sustained_8", ["sustained", seconds, "8"])]
    if "sync" in parts:
        modes += [("sync", ["sync", "300" if smoke else "2000"])]
    if "copies" in parts:
        most = str(args.max_bytes or ((16 if smoke else 256) << 20))
        modes += [("copies", ["copies", most, "6" if smoke else "20"])]
    if "steps" in parts:
        # Two lengths: their difference is what steps send, without the start.
        modes += [("steps_few", ["steps", "500", "20"]), ("steps_many", ["steps", "500", "120"])]
    return modes


def first_line(outcome):
    """The JSON object a process printed, or None."""
    return outcome["lines"][0] if outcome["lines"] and not outcome["error"] else None


def per_step(few, many):
    """What one step adds to each counter, from two runs that differ in their steps."""
    before, after = few.get("busbar"), many.get("busbar")
    short, long = first_line(few), first_line(many)
    if not before or not after or not short or not long or "steps" not in short:
        return None
    steps = long["steps"] - short["steps"]
    return {
        name: (after[name] - before[name]) / steps
        for name in after
        if isinstance(after[name], (int, float))
        and not isinstance(after[name], bool)
        and isinstance(before.get(name), (int, float))
    }


def measure(args, deadline=math.inf):
    """Runs everything; returns the result for the JSON file.

    No round but the first begins that would not end before `deadline` (of time.monotonic).
    """
    parts = args.parts or PARTS
    sides = sides_of(args)
    link = args.link
    runs = {name: {} for name, _ in sides}
    started = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        links = Links(args, stack)
        driver = args.driver or build(folder, "driver")
        modes = driver_modes(parts, args) if driver else []
        calls = build(folder, "calls") if "calls" in parts else None
        if driver is None:
            say("no C compiler: leaving out what needs driver.c (give a built one by --driver)")

        def run(side, prefix, name, argv):
            server = links.address(link, server_of(side, args))
            env = process.own_environment(args.remote_env if side != LOCAL else None)
            outcome = process.run(argv, prefix, server, env, args.timeout)
            keep(runs[side].setdefault(name, []), outcome, f"{side}, {name}")

        rounds, began = 0, time.monotonic()
        for index in range(args.rounds):
            now = time.monotonic()
            if index and now + (now - began) / index > deadline:
                break
            rounds = index + 1
            for side, prefix in order_of(sides, index):
                for name, mode in modes:
                    say(f"round {index + 1}, {side}: {name}")
                    run(side, prefix, name, [driver, *mode])
                if calls:
                    say(f"round {index + 1}, {side}: calls")
                    run(side, prefix, "calls", [calls, "0.02" if args.smoke else "0.2"])
                if "memory" in parts and driver:
                    say(f"round {index + 1}, {side}: memory")
                    measure_memory(
                        side,
                        prefix,
                        driver,
                        links.address(link, server_of(side, args)),
                        args,
                        runs[side],
                    )
                if "first-result" in parts:
                    say(f"round {index + 1}, {side}: first result")
                    if side != LOCAL and args.cold_command and index == 0:
                        process.run(["sh", "-c", args.cold_command], timeout=args.timeout)
                    run(side, prefix, "first_result", [sys.executable, "-c", FIRST_RESULT])
        if args.step_workload:
            measure_workload_steps(args, sides, run)
    result = {
        "format": FORMAT,
        "table": "micro",
        "started": started,
        "command": sys.argv,
        "machine": machine.describe(),
        "settings": {
            "rounds": rounds,
            "link": link,
            "sides": dict(sides),
            "parts": list(parts),
            "shared": args.remote_env.get("BUSBAR_SHM") != "0",
        },
        "links": links.reports(),
        "runs": runs,
    }
    result["summary"] = {name: summarise(by_name) for name, by_name in runs.items()}
    return result


def workers_kib():
    """Resident memory of each process that serves a session on this machine, largest first."""
    found = []
    for folder in glob.glob("/proc/[0-9]*"):
        try:
            with open(f"{folder}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
            with open(f"{folder}/status", encoding="ascii", errors="replace") as file:
                rss = [line.split()[1] for line in file if line.startswith("VmRSS:")]
        except OSError:
            continue
        serves = words[0].endswith(b"busbar") and words[1:2] == [b"worker"]
        if serves and any(word.startswith(b"--control-fd") for word in words) and rss:
            found.append(int(rss[0]))
    return sorted(found, reverse=True)


def measure_memory(side, prefix, driver, server, args, runs):
    """What a side's process has grown by; of a remote one, its worker too if that is here."""
    env = process.own_environment(args.remote_env if side != LOCAL else None)
    modes = {"memory": ["memory", "64", "2000"]}
    if side == LOCAL:
        modes["context"] = ["context", "1"]
    for name, mode in modes.items():
        look = workers_kib if side != LOCAL else (lambda: None)
        outcome = process.hold([driver, *mode], prefix, server, env, args.timeout, look)
        keep(runs.setdefault(name, []), outcome, f"{side}, {name}")


def keep(outcomes, outcome, what):
    """Keeps what came of a program, and says an error the first time that it comes."""
    error = outcome["error"]
    if error and error not in [earlier["error"] for earlier in outcomes]:
        say(f"{what}: {error}")
    outcomes.append(outcome)


def measure_workload_steps(args, sides, run):
    """Bytes and round trips of a training step: two runs that differ in their steps."""
    spec = parse(args.step_workload)
    for name, steps in (("workload_few", 20), ("workload_many", 70)):
        settings = {"steps": steps, "warmup": 5, "block": steps, "workers": 4}
        for side, prefix in sides:
            if side != LOCAL:
                say(f"{side}: {spec}, {steps} steps")
                run(side, prefix, name, process.worker_argv([spec], settings))


def values(by_name, name, field):
    """A number from every round of one mode."""
    lines = [first_line(outcome) for outcome in by_name.get(name, [])]
    return [line[field] for line in lines if line and field in line]


def summarise(by_name):
    """Medians over the rounds for one side."""
    out = {}
    for threads in (1, 8):
        for field in ("p50_ns", "p90_ns", "p99_ns"):
            out[f"launch_{threads}_{field}"] = median(values(by_name, f"launch_{threads}", field))
        out[f"sustained_{threads}_per_s"] = median(values(by_name, f"sustained_{threads}", "per_s"))
    for field in ("launch_sync_p50_ns", "idle_sync_p50_ns"):
        out[field] = median(values(by_name, "sync", field))
    for field in ("started_kib", "after_kib", "peak_kib"):
        kib = median(values(by_name, "memory", field))
        out[f"memory_{field[:-4]}_mib"] = None if kib is None else kib / 1024
    seen = [outcome.get("seen") for outcome in by_name.get("memory", [])]
    out["worker_mib"] = median([rss[0] / 1024 for rss in seen if rss])
    kib = median(values(by_name, "context", "rss_kib"))
    out["context_mib"] = None if kib is None else kib / 1024
    first = by_name.get("first_result", [])
    times = [line["first_result_s"] for line in map(first_line, first) if line]
    out["first_result_cold_s"] = times[0] if times else None
    out["first_result_warm_s"] = median(times[1:]) if len(times) > 1 else None
    out["first_result_process_s"] = median([o["wall_s"] for o in first if not o["error"]])
    out["calls"] = calls(by_name.get("calls", []))
    out["copies"] = copies(by_name.get("copies", []))
    out["copies_shared_part"] = median(shared_parts(by_name.get("copies", [])))
    out["step"] = counters(by_name, "steps_few", "steps_many", per_step)
    out["workload_step"] = counters(by_name, "workload_few", "workload_many", per_workload_step)
    out["spread"] = spread(by_name)
    return out


def spread(by_name):
    """Least and greatest over the rounds, of what has a median of its own."""
    fields = {"p50_ns", "p90_ns", "p99_ns", "per_s", "launch_sync_p50_ns", "idle_sync_p50_ns"}
    found = {}
    for mode in by_name:
        for field in fields:
            each = values(by_name, mode, field)
            name = field if mode == "sync" else f"{mode}_{field}"
            if each:
                found[name] = [min(each), max(each)]
    return found


def counters(by_name, few, many, difference):
    """The counters of a step, from the last round that has them."""
    for short, long in zip(reversed(by_name.get(few, [])), reversed(by_name.get(many, []))):
        found = difference(short, long)
        if found is not None:
            return found
    return None


def per_workload_step(few, many):
    """The same for worker processes, whose steps stand in their second line."""

    def strip(outcome):
        lines = [line for line in outcome["lines"] if "steps" in line]
        return {**outcome, "lines": lines}

    return per_step(strip(few), strip(many))


def copies(outcomes):
    """GB/s by size, kind of memory and direction: the median over the rounds."""
    by_size = {}
    for line in filter(None, map(first_line, outcomes)):
        for entry in line["sizes"]:
            for name, ns in entry.items():
                if name.endswith("_ns"):
                    by_size.setdefault(entry["bytes"], {}).setdefault(name[:-3], []).append(ns)
    return [
        {"bytes": size, **{name: size / median(ns) for name, ns in found.items()}}
        for size, found in sorted(by_size.items())
    ]


def calls(outcomes):
    """Nanoseconds of a call of each kind, in the program and until the device is done with it: the
    least of the rounds, and None where the driver refused."""
    by_kind = {}
    for line in filter(None, map(first_line, outcomes)):
        for entry in line["calls"]:
            by_kind.setdefault(entry["name"], []).append(entry)

    def least(entries, field):
        known = [entry[field] for entry in entries if entry[field] is not None]
        return min(known) if known else None

    fields = ("call_ns", "done_ns")
    return {kind: {f: least(all_, f) for f in fields} for kind, all_ in by_kind.items()}


def shared_parts(outcomes):
    """Of the bytes that each process copied or sent, the part that went through shared memory."""
    found = []
    for counted in filter(None, (outcome["busbar"] for outcome in outcomes)):
        shared = counted.get("bytes_shared", 0)
        total = shared + counted.get("bytes_sent", 0) + counted.get("bytes_received", 0)
        found += [shared / total] if total else []
    return found


def judge(result):
    """(what, value, bar, verdict) for each bar that the numbers can be held against."""
    ours = result["summary"].get(REMOTE)
    local = result["summary"].get(LOCAL, {})
    if ours is None:
        return []
    link = result["settings"]["link"]
    measured = result["settings"].get("parts", PARTS)
    found = {}
    if "launch" in measured:
        found["launch_ns_1"] = ours["launch_1_p50_ns"]
        found["launch_ns_8"] = ours["launch_8_p50_ns"]
    if "sustained" in measured:
        found["launches_per_s"] = ours["sustained_1_per_s"]
    capacity = LINKS.get(link, (0, None))[1]
    bulk = [entry for entry in ours["copies"] if entry["bytes"] > BULK_BYTES]
    kinds = ("pageable_h2d", "pageable_d2h", "pinned_h2d", "pinned_d2h")
    if bulk and capacity:
        found["link_part"] = min(entry[k] for entry in bulk for k in kinds) / (capacity / 1e9)
    elif bulk and link in (None, "loopback"):
        # The client's counters say; without them, one host shares memory unless told otherwise.
        shared = ours["copies_shared_part"]
        if shared is None:
            shared = link is None and result["settings"].get("shared", True)
        name = "pinned_shared_gb_s" if shared else "pinned_loopback_gb_s"
        found[name] = min(bulk[-1]["pinned_h2d"], bulk[-1]["pinned_d2h"])
    if ours.get("memory_peak_mib") is not None:
        found["client_memory_mib"] = ours["memory_peak_mib"]
    if ours.get("worker_mib") is not None and local.get("context_mib") is not None:
        found["worker_memory_mib"] = ours["worker_mib"] - local["context_mib"]
    if ours["first_result_warm_s"] and local.get("first_result_warm_s"):
        found["first_result_extra_s"] = ours["first_result_warm_s"] - local["first_result_warm_s"]
    rows = []
    for name, value in found.items():
        bound, sense = MICRO_BARS[name]
        if value is None:
            rows.append((name, None, f"{sense} {bound:g}", "no data"))
            continue
        ok = value <= bound if sense == "at most" else value >= bound
        rows.append((name, value, f"{sense} {bound:g}", "pass" if ok else "fail"))
    return rows


def result_text(result):
    """The report of the micro-benchmarks."""
    sides = list(result["summary"])
    skipped = ("calls", "copies", "step", "workload_step", "spread")
    first = result["summary"][sides[0]]
    names = [n for n in first if n not in skipped]

    def cell(name, side):
        summary = result["summary"][side]
        low, high = summary.get("spread", {}).get(name, (None, None))
        ends = f" [{number(low)}, {number(high)}]" if low != high else ""
        return number(summary.get(name)) + ends

    shown = [n for n in names if any(result["summary"][s].get(n) is not None for s in sides)]
    rows = [[n, *[cell(n, s) for s in sides]] for n in shown]
    parts = [table_text(["median [range] over the rounds", *sides], rows)]
    capacity = LINKS.get(result["settings"]["link"], (0, None))[1]
    for side in sides:
        entries = result["summary"][side]["copies"]
        if entries:
            parts += ["", copies_text(side, entries, None if side == LOCAL else capacity)]
    parts += calls_text(result["summary"], sides)
    for side in sides:
        for name, label in (("step", "500 launches"), ("workload_step", "training")):
            found = result["summary"][side][name]
            if found:
                text = ", ".join(f"{k} {number(v)}" for k, v in found.items())
                parts += ["", f"{side}, a step of {label}: {text}"]
    judged = judge(result)
    if judged:
        parts += ["", table_text(["bar", "measured", "wanted", "verdict"], judged_rows(result))]
    return "\n".join(parts)


def calls_text(summary, sides):
    """What a call of each kind costs on each side, and how many times as much as on the first."""
    kinds = dict.fromkeys(kind for side in sides for kind in summary[side].get("calls") or {})
    if not kinds:
        return []

    def cells(kind):
        found = [summary[side].get("calls", {}).get(kind, {}).get("done_ns") for side in sides]
        texts = [f"{ns:,.0f}" if ns else "refused" for ns in found]
        for i, ns in enumerate(found):
            if i and ns and found[0]:
                texts[i] += f" ({ns / found[0]:.2f})"
        return [kind, *texts]

    head = ["a call and its part of the wait, ns", *sides]
    return ["", table_text(head, [cells(kind) for kind in kinds])]


def title(result):
    """What the bytes of a result went through."""
    settings = result["settings"]
    if settings["link"]:
        return f"micro: over {settings['link']}"
    return "micro: one host, " + ("shared memory" if settings.get("shared", True) else "TCP")


def judged_rows(result):
    """The bars as text: met, or missed by how much."""
    rows = []
    for name, value, bar, verdict in judge(result):
        text = {"pass": "met", "no data": "no data"}.get(verdict)
        if text is None:
            text = f"missed by {number(abs(value - MICRO_BARS[name][0]))}"
        rows.append((MICRO_NAMES[name], number(value), bar, text))
    return rows


def verdicts(result):
    """(name, verdict, its text) of each bar, and of each program that failed."""
    found = [
        (name, verdict, text)
        for (_, _, _, verdict), (name, _, _, text) in zip(judge(result), judged_rows(result))
    ]
    for side, outcomes in result.get("runs", {}).items():
        for name, runs in outcomes.items():
            for error in dict.fromkeys(run["error"] for run in runs if run["error"]):
                found.append((f"{side}, {name}", "error", error))
    return found


def grid(result):
    """Head and rows of the bars, as pages show them."""
    rows = [[*cells, judged_cell(verdict)] for *cells, verdict in judged_rows(result)]
    return ["what", "measured", "bar", "verdict"], rows


def markdown(result):
    """The bars and the numbers behind them, for a document."""
    lines = [f"## {title(result)}", "", "| what | measured | bar | verdict |", "|---|---|---|---|"]
    lines += ["| " + " | ".join(map(str, row)) + " |" for row in judged_rows(result)]
    return "\n".join([*lines, "", "```", result_text(result), "```", ""])


def copies_text(side, entries, capacity):
    """A side's copies; beside each rate its part of the link, where there is one."""
    kinds = ("pageable_h2d", "pageable_d2h", "pinned_h2d", "pinned_d2h")

    def cell(rate):
        part = "" if capacity is None else f" ({rate * 1e9 / capacity * 100:.0f} %)"
        return f"{rate:.3f}{part}"

    rows = [[entry["bytes"], *[cell(entry[kind]) for kind in kinds]] for entry in entries]
    return table_text([f"{side}: bytes, GB/s", *kinds], rows)
