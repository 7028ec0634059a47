"""Several results together: ``all``, and joining what was measured in several sittings."""

import copy
import time

from busbar_bench import FORMAT, kinds, machine, micro, runner, switches
from busbar_bench.published import LINKS, TABLES
from busbar_bench.report import table_text

# What `all` measures, in this order, with its share of the time: what a round costs on one H200, in
# tens of seconds.
SHARES = {
    "micro-link": 8,
    "micro-tcp": 2,
    "micro-shared": 3,
    "radium-small": 2,
    "every-step": 3,
    "radium-large": 4,
    "llm": 13,
    "imagenet": 26,
    "imagenet-host": 26,
    "radium-amd": 9,
    "bitfusion-networks": 11,
    "correct": 4,
    "switches": 40,
}
NAMES = tuple(SHARES)
# Nothing takes less, however short the time is.
LEAST_S = 20.0


def shares(names, seconds):
    """How long each may take."""
    total = sum(SHARES[name] for name in names)
    return {name: max(LEAST_S, seconds * SHARES[name] / total) for name in names}


def measure(args, keep):
    """Measures all; `keep` gets the results so far after each. What one leaves, the next has."""
    names = [name for name in NAMES if not args.tables or name in args.tables]
    if not args.remote_prefix:
        names = [name for name in names if name != "switches"]
    begin, allowed = time.monotonic(), 0.0
    parts_s = shares(names, args.time_budget * 60)
    found = []
    for name in names:
        allowed += parts_s[name]
        runner.say(f"{name}: until minute {allowed / 60:.1f} of {args.time_budget:g}")
        found.append(measure_one(name, args, begin + allowed))
        keep(found)
    return found


def measure_one(name, args, deadline):
    """One of NAMES."""
    args = copy.copy(args)
    if name == "switches":
        return switches.measure(args, deadline)
    if name in TABLES:
        return runner.run_table(TABLES[name], args, deadline)
    args.parts, args.driver, args.max_bytes = micro.PARTS, None, None
    args.cold_command, step_workload = None, args.step_workload
    args.step_workload = None
    if name == "micro-link":
        args.step_workload = step_workload
        if args.link_binary and args.link not in LINKS:
            args.link = "vmxnet3-10g"
    else:
        args.parts, args.link = ["launch", "sustained", "sync", "copies", "memory"], None
        if name == "micro-tcp":
            args.parts = ["copies"]
            args.remote_env = {**args.remote_env, "BUSBAR_SHM": "0"}
    return micro.measure(args, deadline)


def join(found):
    """One document of all."""
    return {"format": FORMAT, "table": "all", "machine": machine.describe(), "parts": found}


def slim(value):
    """The same without what stands in it twice, the lines of a process that a row has, without
    losses that nobody compares (of rows that are not deterministic the last one stays), and with
    seven digits of each number."""
    if value["table"] == "all":
        return {**value, "parts": [slim(part) for part in value["parts"]]}
    if "processes" not in value:
        return rounded(value)
    processes = [
        {**process, "lines": [line for line in process["lines"] if "spec" not in line]}
        for process in value["processes"]
    ]
    rows = [slim_row(row) for row in value["rows"]]
    return rounded({**value, "processes": processes, "rows": rows})


def rounded(value):
    """The same with seven digits of each number, more than any clock here has."""
    if isinstance(value, float):
        return float(f"{value:.7g}")
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    return [rounded(each) for each in value] if isinstance(value, list) else value


def slim_row(row):
    """A row with one loss of each run, unless losses are compared bit for bit."""
    if "det" in row["spec"].rpartition(":")[2].split("+"):
        return row

    def bare(run):
        return {**run, "losses": run["losses"][-1:]} if run and "losses" in run else run

    sides = {side: [bare(run) for run in runs] for side, runs in row["sides"].items()}
    return {**row, "sides": sides}


def parts(value):
    """The results in a document: those of a joined one, or itself."""
    if isinstance(value, dict) and value.get("table") == "all":
        return value.get("parts", [])
    return [value]


def text(result):
    """A result's report."""
    return kinds.of(result).result_text(result)


def markdown(found):
    """All results for a document."""
    first = found[0]
    about = {key: first["machine"].get(key) for key in ("gpu", "cpu", "cores", "torch", "cuda")}
    if not about["gpu"]:
        about["gpu"] = ", ".join(gpu.get("name", "?") for gpu in first["machine"].get("gpus", []))
    line = ", ".join(f"{key} {value}" for key, value in about.items() if value)
    each = [kinds.of(result).markdown(result) for result in found]
    return "\n".join([f"Measured {first['started']}: {line}.", "", *each])


def failed(found):
    """Whether any bar was missed or anything failed."""
    each = (verdict for result in found for _, verdict, _ in kinds.of(result).verdicts(result))
    return any(verdict in ("fail", "error") for verdict in each)


def summary(found):
    """What was missed, and how many bars were met."""
    met, rows = 0, []
    for result in found:
        for name, verdict, text in kinds.of(result).verdicts(result):
            met += verdict == "pass"
            if verdict in ("fail", "error"):
                rows.append([f"{result['table']}: {name}", text])
    head = f"{met} bars met, {len(rows)} not"
    return head if not rows else "\n".join([head, "", table_text(["what", "verdict"], rows)])
