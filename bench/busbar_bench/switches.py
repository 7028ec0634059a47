"""``run switches``: everything on, and each optimisation off in turn, side by side."""

import copy

from busbar_bench import micro, report, runner
from busbar_bench.published import SWITCHES, TABLES
from busbar_bench.report import errors_text, number, table_text
from busbar_bench.results import LOCAL, REMOTE
from busbar_bench.stats import median

# What each switch is measured by, besides the rows of the table.
PARTS = ["launch", "sustained", "sync", "first-result"]
# A row without queueing takes minutes for what takes a second with it.
SECONDS = 5.0
MOST_BYTES = 16 << 20


# Its rows are held against bars as those of every table.
title, verdicts = report.title, report.verdicts


def peers_of(prefix, only=None):
    """A side for each switch: the remote prefix in an environment that switches it off."""
    wanted = [name for name in SWITCHES if not only or name in only]
    return {f"no {name}": f"env BUSBAR_{name}=0 {prefix}" for name in wanted}


def measure(args, deadline):
    """Runs the table and the micro-benchmarks with a side for each switch."""
    args = copy.copy(args)
    args.peer = {**args.peer, **peers_of(args.remote_prefix)}
    args.seconds = min(args.seconds or SECONDS, SECONDS)
    args.warmup, args.block = min(args.warmup, 3), min(args.block, 5)
    result = runner.run_table(TABLES["switches"], args, deadline)
    args.parts, args.driver, args.max_bytes, args.smoke = PARTS, None, MOST_BYTES, True
    args.cold_command, args.step_workload = None, None
    args.rounds = 1
    args.link = args.link or (TABLES["switches"].link if args.link_binary else None)
    result["micro"] = micro.measure(args)
    # Copies are bounded by any link; what they gain shows without one.
    args.parts, args.link = ["copies"], None
    result["copies"] = micro.measure(args)
    return result


def grid(result):
    """One row for each side: rates and micro figures, each with its factor to everything on."""
    sides = [s for s in result["settings"]["sides"] if s != LOCAL]
    summary = result["micro"]["summary"]

    def rate(index):
        runs = {s: result["rows"][index]["sides"].get(s, []) for s in sides}
        return {s: median([r["rate"] for r in each if r and "rate" in r])
                for s, each in runs.items()}  # fmt: skip

    def from_micro(field, factor):
        return {s: scaled(summary[s].get(field), factor) for s in sides}

    def largest_copy(side):
        entries = result["copies"]["summary"][side]["copies"]
        return entries[-1]["pinned_h2d"] if entries else None

    columns = {f"{row['spec']}, {unit_of(row)}": rate(i) for i, row in enumerate(result["rows"])}
    columns["launch, us"] = from_micro("launch_1_p50_ns", 1e-3)
    columns["launch by 8 threads, us"] = from_micro("launch_8_p50_ns", 1e-3)
    columns["launches/s"] = from_micro("sustained_1_per_s", 1)
    columns["launch + sync, us"] = from_micro("launch_sync_p50_ns", 1e-3)
    columns["idle sync, us"] = from_micro("idle_sync_p50_ns", 1e-3)
    columns["copy in without a link, GB/s"] = {s: largest_copy(s) for s in sides}
    columns["first result, s"] = from_micro("first_result_cold_s", 1)
    rows = []
    for side in sides:
        label = SWITCHES.get(side.removeprefix("no "), "everything on" if side == REMOTE else side)
        cells = [factor_text(values[side], values.get(REMOTE)) for values in columns.values()]
        rows.append([f"without {label}" if side.startswith("no ") else label, *cells])
    return ["", *columns], rows


def unit_of(row):
    """The unit of a row's rate."""
    runs = [run for each in row["sides"].values() for run in each if run and "unit" in run]
    return runs[0]["unit"] if runs else "-"


def scaled(value, factor):
    """A number in another unit; None stays None."""
    return None if value is None else value * factor


def factor_text(value, base):
    """A value and how it stands to the one with everything on."""
    if value is None:
        return "-"
    return number(value) + (f" (x{value / base:.2f})" if base else "")


def result_text(result):
    """The table of switches."""
    head, rows = grid(result)
    failed = errors_text(result["rows"])
    return "\n".join(
        [result["title"], "", table_text(head, rows), *([""] if failed else []), *failed]
    )


def markdown(result):
    """The same for a document."""
    head, rows = grid(result)
    lines = [f"## switches: {result['title']}", "", "| " + " | ".join(head) + " |"]
    lines += ["|" + "---|" * len(head)]
    lines += ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    return "\n".join([*lines, ""])
