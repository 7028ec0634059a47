"""What bounds rows on fabrics of 100 and 400 Gb/s: computed from what sessions were counted to
send, and from what requests cost. Nothing here is measured on a fabric, and what the client and
the worker do for each call is not in it: a ratio is what the path alone would leave.
"""

from busbar_bench.report import number, table_text
from busbar_bench.results import LOCAL, REMOTE

# Gb/s of the fabric, of which this part carries payload.
FABRICS = (100, 400)
PAYLOAD = 0.96
# Seconds. What a processor takes to queue a request and ring its doorbell, and to take a
# completion; a fabric's way from end to end.
REQUEST, COMPLETION, WAY = 0.2e-6, 0.1e-6, 1.66e-6
# Bytes a second that a core copies.
COPY = 10e9
# By counting in the code's own tests (transport/src/rdma/tests.rs, harness/tests/launches.rs):
# calls gathered into one request; a piece of a long copy, and its requests at the sender (a window
# opened, the write with the reference, the window closed) and the receiver (the read, the word).
GATHERED = 32
PIECE = 1 << 20
AT_SENDER, AT_RECEIVER = 3, 2
COMPLETIONS_OF_PIECE = 4
# A write with gathered bytes is one of so many that have a completion.
WRITES_OF_COMPLETION = 32
# Calls whose bytes lie in the program's memory and are read there.
BULK = ("CopyIn", "CopyOut")


def counts(stats):
    """Requests, completions and bytes of a process, by what it says of its calls."""
    bulk = sum(c["bytes"] for c in stats["by_call"] if c["call"] in BULK)
    total = stats["bytes_sent"] + stats["bytes_received"]
    # Bytes that were packed on the way are fewer than the program's.
    bulk = min(bulk, total)
    pieces = -(-bulk // PIECE)
    writes = stats["round_trips"] * 2 + -(-stats["calls"] // GATHERED)
    return {
        "bytes": total,
        "ring_bytes": total - bulk,
        "requests": writes + (AT_SENDER + AT_RECEIVER) * pieces,
        "completions": writes // WRITES_OF_COMPLETION + COMPLETIONS_OF_PIECE * pieces,
        "round_trips": stats["round_trips"],
    }


def bounds(has, gbps, in_place=True):
    """Seconds that each resource is busy for: the largest is what bounds a program that overlaps
    them, and round trips are added to its own time."""
    copied = has["ring_bytes"] if in_place else has["bytes"]
    queue = has["requests"] * REQUEST + has["completions"] * COMPLETION
    return {
        "fabric": has["bytes"] / (gbps * 1e9 / 8 * PAYLOAD),
        "core": copied / COPY + queue,
        "waiting": has["round_trips"] * 2 * WAY,
    }


def device_time(result, process):
    """Seconds that the steps of a process take locally, or None if that was not measured."""
    left, total = set(process["specs"]), 0.0
    for row in result["rows"]:
        if row["spec"] not in left or row["link"] != process["link"]:
            continue
        local = [r for r in row["sides"].get(LOCAL, []) if r and "step_ms" in r]
        remote = row["sides"].get(REMOTE, [])[process["round"] :][:1]
        if local and remote and remote[0] and "steps" in remote[0]:
            steps = remote[0]["steps"] + remote[0]["warmup_steps"]
            total += steps * local[0]["step_ms"] / 1e3
            left.remove(row["spec"])
    return None if left else total


def computed(result):
    """Rows for each remote process of a result's first round, if it has counted its calls."""
    rows = []
    for process in result["processes"]:
        stats = process.get("busbar")
        if process["side"] != REMOTE or process["round"] or not stats:
            continue
        device = device_time(result, process)
        if device is None:
            continue
        has = counts(stats)
        for gbps in FABRICS:
            takes = {"device": device, **bounds(has, gbps)}
            waits = takes.pop("waiting")
            bound = max(takes, key=takes.get)
            ratio = device / (takes[bound] + waits)
            row = {"specs": process["specs"], "gbps": gbps, "bound": bound, "ratio": ratio}
            rows.append({**row, "waiting": waits, **takes, **has})
    return rows


def text(result):
    """A table of it."""
    head = ["workloads", "Gb/s", "bound by", "of local", "device s", "fabric s", "core s"]
    head += ["waiting s", "requests", "completions", "GB", "of them copied"]
    rows = []
    for r in computed(result):
        times = [f"{r[name]:.3f}" for name in ("device", "fabric", "core", "waiting")]
        first, *others = r["specs"]
        name = f"{first} and {len(others)} more" if others else first
        rows.append(
            [name, r["gbps"], r["bound"], f"{r['ratio']:.3f}", *times]
            + [number(r["requests"]), number(r["completions"])]
            + [f"{r['bytes'] / 1e9:.2f}", f"{r['ring_bytes'] / 1e9:.2f}"]
        )
    said = "Computed from counted calls and assumed costs of an adapter, not measured on a fabric."
    return f"{result['table']}: {said}\n\n{table_text(head, rows)}"
