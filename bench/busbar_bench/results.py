"""From what the processes printed to the rows of a table. No I/O."""

from busbar_bench.published import LINKS
from busbar_bench.stats import median, ratio_summary

LOCAL, REMOTE = "local", "remote"
# The remote side with its sessions on RDMA: a column beside the remote side's over TCP.
RDMA = "rdma"


def runs_of(processes, side, spec, link=None):
    """A side's results for one workload, by round; None where a round has none."""
    rounds = {}
    for process in processes:
        if process["side"] != side or process.get("link") != link and side != LOCAL:
            continue
        for line in process["lines"]:
            if line.get("spec") == str(spec):
                rounds[process["round"]] = line
    last = max((p["round"] for p in processes), default=-1)
    return [rounds.get(index) for index in range(last + 1)]


def rate(run):
    """Its rate, or None if it failed."""
    return None if run is None or "error" in run else run.get("rate")


def losses_equal(left, right):
    """Whether two lists of runs lost exactly the same; None if there is nothing to compare."""
    pairs = [
        (a["losses"], b["losses"])
        for a, b in zip(left, right)
        if a and b and a.get("losses") and b.get("losses")
    ]
    # A side that is slow may have had time for fewer steps.
    return all(all(x == y for x, y in zip(a, b)) for a, b in pairs) if pairs else None


def errors_of(processes, runs_by_side, row, link):
    """Sentences about what failed in a row: each once, with the rounds in which it did."""
    rounds = {}
    for side, runs in runs_by_side.items():
        for index, run in enumerate(runs):
            reason = None
            if run is None:
                reason = reason_of_none(processes, side, index, row, link)
            elif "error" in run:
                reason = run["error"]
            elif not run.get("finite", True):
                reason = "losses are not finite"
            if reason:
                rounds.setdefault((side, reason), []).append(str(index + 1))
    return [
        f"{side}, round{'s' if len(each) > 1 else ''} {', '.join(each)}: {reason}"
        for (side, reason), each in rounds.items()
    ]


def reason_of_none(processes, side, index, row, link):
    """Why a process that should have measured a row said nothing of it; None if none should."""
    for process in processes:
        here = process["side"] == side and process["round"] == index
        over = side == LOCAL or process.get("link") == link
        if here and over and str(row.spec) in process.get("specs", []):
            return process.get("error") or "no result"
    return None


def link_bound(row, link):
    """How many items a second the link can carry, where a row is held against that."""
    capacity = LINKS.get(link, (0.0, None))[1]
    if row.kind != "link" or not row.bytes_per_item or capacity is None:
        return None
    return capacity / row.bytes_per_item


def base_rates(row, local_rates, link):
    """What the remote side is compared with: local speed, or the link's if that is less."""
    limit = link_bound(row, link)
    if limit is None:
        return local_rates
    return [None if r is None else min(r, limit) for r in local_rates]


def verdict_of(row, ratio, runs_by_side, link, equal, errors):
    """("pass" | "fail" | "no data" | "error", a sentence)."""
    if errors:
        return "error", errors[0]
    if row.kind == "losses":
        if equal is None:
            return "no data", ""
        return ("pass", "losses equal") if equal else ("fail", "losses differ")
    if row.kind == "round-trips":
        local = [r["step_ms"] for r in runs_by_side.get(LOCAL, []) if rate(r)]
        remote = [r["step_ms"] for r in runs_by_side.get(REMOTE, []) if rate(r)]
        if not local or not remote or link not in LINKS:
            return "no data", ""
        extra = median(remote) - median(local)
        allowed = row.trips * 2 * LINKS[link][0] * 1e3
        text = f"{extra:+.3f} ms a step, {allowed:.3f} allowed ({row.trips:g} round trips)"
        if extra > allowed:
            text += f": missed by {extra - allowed:.3f} ms"
        return ("pass" if extra <= allowed else "fail"), text
    if ratio is None:
        return "no data", ""
    if row.bar is None:
        return "no bar", ""
    ok = ratio["median"] >= row.bar
    text = f"{ratio['median']:.3f}, bar {row.bar:.2f}"
    if not ok:
        text += f": missed by {row.bar - ratio['median']:.3f}"
    return ("pass" if ok else "fail"), text


def row_result(row, processes, sides, link):
    """One row: raw runs of every side, ratios, verdict."""
    runs_by_side = {side: runs_of(processes, side, row.spec, link) for side in sides}
    rates = {side: [rate(r) for r in runs] for side, runs in runs_by_side.items()}
    base = base_rates(row, rates.get(LOCAL, []), link)
    ratios = {
        side: ratio_summary(side_rates, base) for side, side_rates in rates.items() if side != LOCAL
    }
    own = {side: runs for side, runs in runs_by_side.items() if side in (LOCAL, REMOTE)}
    equal = losses_equal(runs_by_side.get(LOCAL, []), runs_by_side.get(REMOTE, []))
    errors = errors_of(processes, own, row, link)
    verdict, reason = verdict_of(row, ratios.get(REMOTE), runs_by_side, link, equal, errors)
    return {
        "spec": str(row.spec),
        "link": link,
        "kind": row.kind,
        "bar": row.bar,
        "trips": row.trips,
        "link_bound": link_bound(row, link),
        "published": [
            {"source": m.source, "low": m.low, "high": m.high, "note": m.note} for m in row.marks
        ],
        "sides": runs_by_side,
        "ratios": ratios,
        "losses_equal": equal,
        "verdict": verdict,
        "reason": reason,
        "errors": errors
        + errors_of(processes, {s: r for s, r in runs_by_side.items() if s not in own}, row, link),
    }


def start_ups(processes):
    """Start-up, build and warm-up of each side: medians over its processes, and the first."""
    phases = {}
    for process in processes:
        head = next((line for line in process["lines"] if line.get("process")), {})
        side = phases.setdefault(process["side"], {})
        for name in ("start_s", "import_s", "first_result_s"):
            if head.get(name) is not None:
                side.setdefault(name, []).append(head[name])
        for line in process["lines"]:
            for name in ("build_s", "first_step_s", "warmup_s"):
                if line.get(name) is not None:
                    side.setdefault(name, []).append(line[name])
        side.setdefault("wall_s", []).append(process["wall_s"])
    return {
        side: {
            name: {"median": median(values), "first": values[0], "all": values}
            for name, values in by_name.items()
        }
        for side, by_name in phases.items()
    }


# What every result file has, and the type of each.
_SCHEMA = {
    "format": str,
    "table": str,
    "title": str,
    "started": str,
    "command": list,
    "machine": dict,
    "settings": dict,
    "links": list,
    "rows": list,
    "processes": list,
    "start_up": dict,
}
_ROW_SCHEMA = {
    "spec": str,
    "kind": str,
    "published": list,
    "sides": dict,
    "ratios": dict,
    "verdict": str,
    "errors": list,
}


def check(result):
    """Raises ValueError with a sentence if this is not a table's result."""
    if not isinstance(result, dict):
        raise ValueError("not a JSON object")
    for where, value, schema in [("the file", result, _SCHEMA)] + [
        (f"row {i + 1}", row, _ROW_SCHEMA) for i, row in enumerate(result.get("rows") or [])
    ]:
        for name, kind in schema.items():
            if not isinstance(value, dict) or not isinstance(value.get(name), kind):
                raise ValueError(f"{where} lacks {name!r} or it is not a {kind.__name__}")
    if not result["format"].startswith("busbar-bench/"):
        raise ValueError(f"unknown format {result['format']!r}")
    return result
