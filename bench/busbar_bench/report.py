"""Tables in plain text."""

import io

from busbar_bench.results import LOCAL, RDMA, REMOTE
from busbar_bench.stats import median


def table_text(header, rows):
    """Columns as wide as they need; the first is left-aligned. Where there is no library for
    tables, as on a machine that only measures, columns have a tab between them."""
    cells = [[str(c) for c in row] for row in [header, *rows]]
    try:
        from rich import box
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ImportError:
        return "\n".join("\t".join(row) for row in cells)
    table = Table(box=box.SIMPLE, show_edge=False, pad_edge=False, padding=(0, 1))
    for index, title in enumerate(cells[0]):
        table.add_column(Text(title), justify="right" if index else "left", no_wrap=True)
    for row in cells[1:]:
        table.add_row(*map(Text, row))
    # Never narrower than the table: what reads it may be a file.
    console = Console(file=io.StringIO(), width=10_000, color_system=None)
    console.print(table)
    return "\n".join(line.rstrip() for line in console.file.getvalue().rstrip("\n").splitlines())


def number(value):
    """A rate or a count with four digits that matter."""
    if value is None:
        return "-"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def ratio_text(ratio):
    """Median and range over the rounds."""
    if ratio is None:
        return "-"
    if len(ratio["per_round"]) == 1:
        return f"{ratio['median']:.3f}"
    return f"{ratio['median']:.3f} [{ratio['min']:.3f}, {ratio['max']:.3f}]"


def judged_cell(text):
    """A verdict in words that stands out on a page if the bar was missed."""
    return (text, "fail" if text.startswith(("missed by ", "error")) else "pass", "")


def mark_text(mark):
    """One published figure."""
    low, high = mark["low"], mark["high"]
    value = f"{low:g}" if low == high else f"{low:.2f}-{high:.2f}"
    return f"{mark['source']} {value}" + (f" ({mark['note']})" if mark["note"] else "")


def side_rate(row, side):
    """The median rate of a side over the rounds, and its unit."""
    runs = [r for r in row["sides"].get(side, []) if r and "rate" in r]
    if not runs:
        return None, ""
    return median([r["rate"] for r in runs]), runs[0]["unit"]


def error_ends(row, side):
    """Where a ratio's error bar begins and ends: its range over the rounds; of one round, what the
    standard errors of both rates within it make."""
    ratio = row["ratios"].get(side)
    if ratio is None or len(ratio["per_round"]) > 1:
        return (ratio["min"], ratio["max"]) if ratio else None
    parts = []
    for name in (LOCAL, side):
        runs = [run for run in row["sides"].get(name, []) if run and run.get("rate_spread")]
        if runs:
            spread = runs[0]["rate_spread"]
            parts.append(spread["uncertainty"] / spread["mean"])
    error = ratio["median"] * sum(part * part for part in parts) ** 0.5
    return ratio["median"] - error, ratio["median"] + error


def losses_text(row):
    """Whether losses are the same, where algorithms are deterministic; else whether they are
    numbers at all."""
    if ":" in row["spec"] and "det" in row["spec"].rpartition(":")[2].split("+"):
        return {None: "-", True: "equal", False: "differ"}[row["losses_equal"]]
    runs = [run for side in (LOCAL, REMOTE) for run in row["sides"].get(side, []) if run]
    known = [run["finite"] for run in runs if "finite" in run]
    return "-" if not known else "finite" if all(known) else "NaN"


def bar_text(row):
    """What a row is held against."""
    if row["kind"] == "round-trips":
        return f"+{row.get('trips', 1.2):g} round trips"
    if row["kind"] == "losses":
        return "equal losses"
    if row["bar"] is None:
        return "-"
    bound = row.get("link_bound")
    return f"{row['bar']:.2f}" + (f" of min(local, {number(bound)})" if bound else "")


def verdict_text(row):
    """Met, or missed by how much."""
    words = {"pass": "met", "fail": "missed"}
    text = words.get(row["verdict"], row["verdict"])
    reason = row["reason"].rpartition(": missed by ")
    if row["verdict"] != "fail":
        return text
    ratio = row["ratios"].get(REMOTE)
    if not reason[1] and row["bar"] is not None and ratio:
        return f"missed by {row['bar'] - ratio['median']:.3f}"
    return f"missed by {reason[2]}" if reason[1] else text


def title(result):
    """What a table is called where there are several."""
    return f"{result['table']}: {result['title']}"


def verdicts(result):
    """(name, verdict, its text) of each row."""
    return [(row["spec"], row["verdict"], verdict_text(row)) for row in result["rows"]]


def grid(result):
    """Head and rows of a table, as pages show it: a verdict has a class, and its reason."""
    head, rows = cells(result)
    styles = [(row["verdict"].replace(" ", "-"), row["reason"]) for row in result["rows"]]
    return head, [[*row, (verdict, *style)] for (*row, verdict), style in zip(rows, styles)]


def cells(result):
    """Head and rows of a table."""
    peers = [s for s in result["settings"]["sides"] if s not in (LOCAL, REMOTE)]
    head = ["workload", "link", "local", "remote", "ratio [range]"]
    head += [*peers, "published", "losses", "bar", "verdict"]
    return head, [row_cells(row, peers) for row in result["rows"]]


def row_cells(row, peers):
    """One of its rows."""
    cells = [row["spec"], row["link"] or "-"]
    for side in (LOCAL, REMOTE):
        rate, unit = side_rate(row, side)
        cells.append(f"{number(rate)} {unit}".strip())
    cells.append(ratio_text(row["ratios"].get(REMOTE)))
    cells += [ratio_text(row["ratios"].get(peer)) + trouble(row, peer) for peer in peers]
    cells.append(", ".join(mark_text(m) for m in row["published"]) or "-")
    return [*cells, losses_text(row), bar_text(row), verdict_text(row)]


def markdown(result):
    """A table's rows for a document, with what was measured on."""
    head, rows = cells(result)
    lines = [f"## {title(result)}", "", "| " + " | ".join(head) + " |"]
    lines.append("|" + "---|" * len(head))
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    errors = [f"- {error}" for error in errors_text(result["rows"])]
    return "\n".join([*lines, "", *errors, *([""] if errors else [])])


def trouble(row, side):
    """What was wrong with a side's results: failures, and losses that are no numbers."""
    runs = [run for run in row["sides"].get(side, []) if run]
    found = []
    if not any("rate" in run for run in runs):
        none = any("no RDMA device" in error for error in row["errors"])
        found.append("no device" if side == RDMA and none else "failed")
    if any(not run.get("finite", True) for run in runs):
        found.append("NaN")
    local = [run for run in row["sides"].get(LOCAL, []) if run]
    if ":det" in row["spec"] and any(
        a.get("losses") != b.get("losses")
        for a, b in zip(local, runs)
        if "rate" in a and "rate" in b
    ):
        found.append("other losses")
    return f" ({', '.join(found)})" if found else ""


def result_text(result):
    """The whole report of a table."""
    sides = list(result["settings"]["sides"])
    peers = [side for side in sides if side not in (LOCAL, REMOTE)]
    header = ["workload", "link", "unit", "local", "remote", "ratio [range]"]
    header += [f"{peer} ratio" for peer in peers] + ["published", "losses", "bar", "verdict"]
    rows = []
    for row in result["rows"]:
        local, unit = side_rate(row, LOCAL)
        remote, remote_unit = side_rate(row, REMOTE)
        rows.append(
            [
                row["spec"],
                row["link"] or "-",
                unit or remote_unit,
                number(local),
                number(remote),
                ratio_text(row["ratios"].get(REMOTE)),
                *[ratio_text(row["ratios"].get(peer)) + trouble(row, peer) for peer in peers],
                ", ".join(mark_text(m) for m in row["published"]) or "-",
                losses_text(row),
                bar_text(row),
                verdict_text(row),
            ]
        )
    parts = [result["title"], "", table_text(header, rows)]
    notes = [f"{r['spec']}: {r['reason']}" for r in result["rows"] if r["kind"] == "round-trips"]
    notes += errors_text(result["rows"])
    if notes:
        parts += ["", *notes]
    parts += ["", start_up_text(result["start_up"])]
    return "\n".join(parts)


def errors_text(rows):
    """What failed, each once: a process that ends takes all of its rows along."""
    specs = {}
    for row in rows:
        for error in row["errors"]:
            specs.setdefault(error, []).append(row["spec"])
    return [f"{', '.join(each)}: {error}" for error, each in specs.items()]


def start_up_text(start_up):
    """Start-up and warm-up, apart from steady state. The first of each is the cold one."""
    names = {
        "import_s": "import torch",
        "first_result_s": "first result",
        "build_s": "build model",
        "first_step_s": "first step",
        "warmup_s": "warm-up",
        "wall_s": "whole process",
    }
    rows = []
    for name, label in names.items():
        row = [label]
        for phases in start_up.values():
            value = phases.get(name)
            row.append("-" if value is None else f"{value['median']:.2f} ({value['first']:.2f})")
        rows.append(row)
    return table_text(["seconds, median (first)", *start_up], rows)
