"""``run nccl``: collectives between ranks, as nccl-tests show them, here and through Busbar."""

import datetime
import sys

from busbar_bench import FORMAT, machine, process
from busbar_bench.nccl_rank import COLLECTIVES, bandwidth
from busbar_bench.report import number, table_text
from busbar_bench.results import LOCAL, REMOTE
from busbar_bench.runner import say
from busbar_bench.stats import median

# From this size on the bandwidth is what counts, below it the time that a call takes.
LARGE, SMALL = 1 << 20, 64 << 10
# Remote over local busbw of the large ones; seconds that a queued call may take more.
BAR, MORE = 0.99, 2e-6


def argv(args, module, *rest):
    """The command that starts the ranks."""
    launch = [sys.executable, "-m", "busbar_bench.ranks", "-n", str(args.ranks)]
    launch += ["--hosts", str(args.hosts)] + (["--one-gpu"] if args.one_gpu else [])
    return [*launch, module, *rest]


def sides(args):
    """Local, unless only the remote one is wanted, and remote if there is one."""
    found = [] if args.only_remote else [(LOCAL, "", {})]
    return found + ([(REMOTE, args.remote_prefix, args.remote_env)] if args.remote_prefix else [])


def between(args):
    """How ranks reach each other, as far as the arguments say; emulated servers are called so."""
    servers = len((args.server or "").split(",")) if args.remote_prefix else 1
    if args.one_gpu:
        return "sockets, as if each rank had a server of its own (all have one GPU)"
    if args.hosts > 1:
        return f"sockets, as if there were {args.hosts} servers (emulated on one machine)"
    sockets = args.remote_env.get("NCCL_IB_DISABLE") == "1"
    if servers > 1:
        return f"{servers} servers, " + ("sockets" if sockets else "InfiniBand where they have it")
    return "what NCCL finds in one server"


def document(args, table, title, runs, started):
    """The result for the JSON file."""
    return {
        "format": FORMAT,
        "table": table,
        "title": title,
        "started": started,
        "command": sys.argv,
        "machine": machine.describe(),
        "settings": {
            "rounds": args.rounds,
            "link": None,
            "ranks": args.ranks,
            "between": between(args),
            "server": args.server,
        },
        "rows": [],
        "runs": runs,
    }


def now():
    """The time, for people."""
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def alternating(args, command):
    """Runs a command on each side, in turn; what came of it, by side."""
    each = sides(args)
    runs = {name: [] for name, _, _ in each}
    for index in range(args.rounds):
        for name, prefix, env in each:
            say(f"round {index + 1}, {name}")
            prefix = prefix.replace("{ranks}", str(args.ranks))
            outcome = process.run(
                command, prefix, args.server, process.own_environment(env), args.timeout
            )
            if not outcome["error"] and not outcome["lines"]:
                outcome["error"] = "the ranks printed no result"
            if outcome["error"]:
                say(f"{name}: {outcome['error']}")
            runs[name].append(outcome)
    return runs


def measure(args):
    """Runs everything; returns the result for the JSON file."""
    most = args.most_bytes or (1 << 20 if args.smoke else 1 << 30)
    started = now()
    command = argv(
        args,
        "busbar_bench.nccl_rank",
        *("--collectives", args.collectives, "--most", str(most)),
        *("--iterations", str(args.queued)),
        *(("--factor", "8", "--warmup", "1") if args.smoke else ()),
    )
    runs = alternating(args, command)
    return document(args, "nccl", f"collectives of {args.ranks} ranks", runs, started)


def cells(result):
    """By (collective, size): for each side (place, seconds, seconds to queue, wrong values)."""
    found = {}
    for side, outcomes in result["runs"].items():
        for outcome in outcomes:
            for line in outcome["lines"] if not outcome["error"] else []:
                if "collective" in line:
                    key = (line["collective"], line["bytes"], line["count"])
                    place = found.setdefault(key, {}).setdefault(side, {})
                    place.setdefault(line["in_place"], []).append(line)
    return found


def mean(lines, key):
    """Of all ranks of a round, as nccl-tests do; of all rounds the median."""
    ranks = {}
    for line in lines:
        ranks.setdefault(line["rank"], []).append(line[key])
    each = [sum(round_) / len(round_) for round_ in zip(*ranks.values())]
    return median(each)


def title(result):
    """What it is called where there are several results."""
    return f"nccl: {result['title']}"


def failures(result):
    """(side, what it failed with), and values that were wrong."""
    said = []
    for side, outcomes in result["runs"].items():
        errors = [o["error"] for o in outcomes if o["error"]]
        wrong = sum(line.get("wrong") or 0 for o in outcomes for line in o["lines"])
        if errors:
            said.append((side, "error", f"error: {errors[0]}"))
        elif wrong:
            said.append((side, "fail", f"{wrong} wrong values"))
        else:
            said.append((side, "pass", "every value that was looked at is right"))
    return said


def verdicts(result):
    """(what, verdict, its text): values, bandwidth of large ones, time of small ones."""
    said, found, ranks = failures(result), cells(result), result["settings"]["ranks"]
    rates, queued = {}, {}
    for (name, size, _), each in found.items():
        if LOCAL not in each or REMOTE not in each:
            continue
        lines = [each[side].get(False, []) for side in (LOCAL, REMOTE)]
        if not all(lines):
            continue
        if size >= LARGE:
            wide = [bandwidth(name, size, mean(one, "seconds"), ranks)[1] for one in lines]
            rates.setdefault(name, []).append(wide[1] / wide[0])
        elif size <= SMALL:
            more = [mean(one, "queue_seconds") for one in lines]
            queued.setdefault(name, []).append(more[1] - more[0])
    for name, all_of in rates.items():
        worst, verdict = min(all_of), "pass" if min(all_of) >= BAR else "fail"
        said.append((f"{name}, from 1 MiB", verdict, f"busbw {worst:.3f} of local, bar {BAR}"))
    for name, all_of in queued.items():
        most, verdict = max(all_of), "pass" if max(all_of) <= MORE else "fail"
        text = f"a call takes {most * 1e6:+.1f} us to queue, bar {MORE * 1e6:+g} us"
        said.append((f"{name}, to 64 KiB", verdict, text))
    return said


HEAD = ["size (B)", "count", "type", "redop", "root"]
TIMES = ["time (us)", "algbw (GB/s)", "busbw (GB/s)", "#wrong"]


def grid(result):
    """Head and rows, with nccl-tests' columns for each side."""
    ranks, rows, names = result["settings"]["ranks"], [], list(result["runs"])
    head = ["collective", *HEAD]
    for side in names:
        head += [f"{side} {way}{column}" for way in ("", "in-place ") for column in TIMES]
    order = list(COLLECTIVES)
    for (name, size, count), each in sorted(
        cells(result).items(), key=lambda item: (order.index(item[0][0]), item[0][1])
    ):
        arguments = COLLECTIVES[name][1]
        redop = "sum" if len(arguments) > 4 and name != "broadcast" else "none"
        root = "0" if name in ("broadcast", "reduce") else "-1"
        row = [name, str(size), str(count), "float", redop, root]
        for side in names:
            for in_place in (False, True):
                lines = each.get(side, {}).get(in_place)
                if not lines:
                    row += ["N/A"] * len(TIMES)
                    continue
                seconds = mean(lines, "seconds")
                wide = bandwidth(name, size, seconds, ranks)
                row += [number(seconds * 1e6), *(number(w) for w in wide)]
                row.append(str(sum(line["wrong"] for line in lines)))
        rows.append(row)
    return head, rows


def averages(result):
    """nccl-tests' last lines: the average busbw of each collective, out of place and in place."""
    ranks, said = result["settings"]["ranks"], []
    for side in result["runs"]:
        each = {}
        for (name, size, _), by_side in cells(result).items():
            for lines in by_side.get(side, {}).values():
                wide = bandwidth(name, size, mean(lines, "seconds"), ranks)[1]
                each.setdefault(name, []).append(wide)
        for name, all_of in each.items():
            said.append(f"# {side} {name}: Avg bus bandwidth : {sum(all_of) / len(all_of):g}")
    return said


def result_text(result):
    """The report."""
    said = [f"{name}: {text}" for name, _, text in verdicts(result)]
    about = f"between ranks: {result['settings']['between']}"
    table = table_text(*grid(result))
    return "\n".join([result["title"], about, "", table, "", *averages(result), "", *said])


def markdown(result):
    """The same for a document."""
    head, rows = grid(result)
    lines = [f"## {title(result)}", "", f"Between ranks: {result['settings']['between']}.", ""]
    lines += ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows), ""])
