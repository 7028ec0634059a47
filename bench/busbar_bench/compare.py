"""Two results of the same table: what has become slower, and is it more than noise."""

from busbar_bench.report import ratio_text, table_text
from busbar_bench.results import REMOTE


def compare_rows(before, after, tolerance):
    """One entry for each workload in either file.

    A change counts if the medians differ by more than `tolerance` (relative) and the ranges over
    the rounds do not overlap.
    """
    old = {(row["spec"], row["link"]): row for row in before["rows"]}
    new = {(row["spec"], row["link"]): row for row in after["rows"]}
    found = []
    for key in [*old, *(key for key in new if key not in old)]:
        was = (old.get(key) or {"ratios": {}})["ratios"].get(REMOTE)
        now = (new.get(key) or {"ratios": {}})["ratios"].get(REMOTE)
        change, verdict = None, "one side only"
        if was and now:
            change = now["median"] / was["median"] - 1
            apart = now["max"] < was["min"] or now["min"] > was["max"]
            verdict = "same"
            if apart and abs(change) > tolerance:
                verdict = "better" if change > 0 else "WORSE"
        elif was and key in new:
            verdict = "WORSE: no result now"
        found.append({"key": key, "was": was, "now": now, "change": change, "verdict": verdict})
    return found


def compare_text(before, after, tolerance):
    """The comparison as text, and whether anything has become worse."""
    found = compare_rows(before, after, tolerance)
    rows = [
        [
            entry["key"][0],
            entry["key"][1] or "-",
            ratio_text(entry["was"]),
            ratio_text(entry["now"]),
            "-" if entry["change"] is None else f"{entry['change'] * 100:+.1f} %",
            entry["verdict"],
        ]
        for entry in found
    ]
    header = ["workload", "link", "ratio before", "ratio after", "change", "verdict"]
    notes = [
        f"different {name}: {before['machine'].get(name)} and {after['machine'].get(name)}"
        for name in ("gpus", "cpu", "torch", "cuda")
        if before["machine"].get(name) != after["machine"].get(name)
    ]
    worse = any(entry["verdict"].startswith("WORSE") for entry in found)
    return "\n".join([table_text(header, rows), *notes]), worse
