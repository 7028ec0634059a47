"""``run scaling`` and ``run horovod``: training on 1 to N GPUs, here and through Busbar."""

import copy

from busbar_bench import nccl, networks
from busbar_bench.published import SCALING, SCALING_NOTES
from busbar_bench.report import number, table_text
from busbar_bench.results import LOCAL, REMOTE
from busbar_bench.runner import say
from busbar_bench.stats import median

# Remote over local speed; remote over local efficiency at the most GPUs; over sockets; spread over
# the GPUs or split among them; Horovod.
BAR, EFFICIENCY, SOCKETS, SPREAD, HOROVOD = 0.985, 0.98, 0.97, 0.97, 0.98
# Bytes that a step of DDP may have cross the client's link.
BYTES = 1_000_000


def kind_of(args):
    """What is done."""
    return networks.KINDS[args.network or "resnet50"]


def counts(args):
    """How many GPUs are tried: 1, 2, 4 and so on, and all."""
    found, n = [], 1
    if not kind_of(args).alone:
        return [args.ranks]
    while n < args.ranks:
        found.append(n)
        n *= 2
    return [args.ranks] if args.table == "horovod" else [*found, args.ranks]


def measure(args):
    """Runs everything; returns the result for the JSON file."""
    started, by_count, network = nccl.now(), {}, args.network or "resnet50"
    rest = ["--horovod", "--batch", "32", "--precision", "fp32"] if args.table == "horovod" else []
    rest += ["--trains", network]
    if args.smoke:
        rest += ["--warmup", "1", "--batches", "1", "--iterations", "2"]
    for n in counts(args):
        one = copy.copy(args)
        one.ranks = n
        one.hosts = min(args.hosts, n)
        say(f"{n} GPU(s)")
        by_count[str(n)] = nccl.alternating(one, command(one, rest))
    shorter = copy.copy(one)
    shorter.only_remote, shorter.rounds = True, 1
    short = nccl.alternating(shorter, command(one, [*rest, "--iterations", "1"]))
    runs = {side: [o for each in by_count.values() for o in each[side]] for side in by_side(args)}
    what = "Horovod's synthetic benchmark" if args.table == "horovod" else kind_of(args).how
    made = nccl.document(
        args, args.table, f"{what}, {network}, to {args.ranks} GPUs", runs, started
    )
    crossed = bytes_a_step(by_count[str(args.ranks)].get(REMOTE, []), short.get(REMOTE, []))
    more = {"counts": by_count, "unit": kind_of(args).unit, "alone": kind_of(args).alone}
    return {**made, **more, "bytes_a_step": crossed}


def bytes_a_step(long, short):
    """Bytes that a step of all ranks has cross the client's link: what a run of more steps has more
    of them, by the client's counters; None where they are not known."""

    def seen(outcomes):
        for outcome in outcomes:
            steps = [line["steps"] for line in outcome["lines"] if "steps" in line]
            if not outcome["error"] and steps and outcome.get("busbar"):
                crossed = sum(outcome["busbar"][k] for k in ("bytes_sent", "bytes_received"))
                return crossed, steps[0]
        return None

    more, fewer = seen(long), seen(short)
    if not more or not fewer or more[1] == fewer[1]:
        return None
    return (more[0] - fewer[0]) / (more[1] - fewer[1])


def command(args, rest):
    """What starts the ranks."""
    if args.table == "horovod":
        launch = ["horovodrun", "--gloo", "-np", str(args.ranks)]
        if args.launcher:
            launch = [*args.launcher.split(), "-np", str(args.ranks)]
        return [*launch, "python3", "-m", "busbar_bench.training_rank", *rest]
    return nccl.argv(args, "busbar_bench.training_rank", *rest)


def by_side(args):
    """The names of the sides."""
    return [name for name, _, _ in nccl.sides(args)]


def skipped(result):
    """Why nothing was measured, if so: something is not installed."""
    for outcomes in result["runs"].values():
        for outcome in outcomes:
            for line in outcome["lines"]:
                if "skipped" in line:
                    return line["skipped"]
            if "cannot start 'horovodrun'" in (outcome["error"] or ""):
                return "horovod is not installed here"
            if "horovodrun: not found" in (outcome.get("stderr") or ""):
                return "horovod is not installed here"
    return None


def rate_of(outcome):
    """Images a second of all ranks in one round; None if it failed."""
    lines = [line for line in outcome["lines"] if "rate" in line]
    return sum(line["rate"] for line in lines) if lines and not outcome["error"] else None


def rate(outcomes):
    """The median of the rounds."""
    found = [r for r in map(rate_of, outcomes) if r is not None]
    return median(found) if found else None


def rounds_of(each):
    """What remote over local speed of one number of GPUs was from round to round, as text."""
    rounds = zip(*(map(rate_of, each.get(side, [])) for side in (LOCAL, REMOTE)))
    ratios = [there / here for here, there in rounds if here and there]
    return f" ({min(ratios):.3f} to {max(ratios):.3f})" if len(ratios) > 1 else ""


def speeds(result):
    """By number of GPUs: the speed of each side."""
    return {
        int(n): {side: rate(outcomes) for side, outcomes in each.items()}
        for n, each in result["counts"].items()
    }


def gains(result, side):
    """By number of GPUs: so many times as fast as one; nothing where that is not known."""
    all_of = speeds(result)
    one = all_of.get(1, {}).get(side)
    return {n: each[side] / one for n, each in all_of.items() if one and each.get(side)}


def title(result):
    """What it is called where there are several results."""
    return f"{result['table']}: {result['title']}"


def verdicts(result):
    """(what, verdict, its text)."""
    why = skipped(result)
    if why:
        return [(result["table"], "skipped", f"skipped: {why}")]
    said = []
    for side, outcomes in result["runs"].items():
        errors = [o["error"] for o in outcomes if o["error"]]
        if errors:
            said.append((side, "error", f"error: {errors[0]}"))
    sockets = "sockets" in result["settings"]["between"]
    bar = HOROVOD if result["table"] == "horovod" else SOCKETS if sockets else BAR
    bar = bar if result.get("alone", True) else SPREAD
    for n, each in speeds(result).items():
        if each.get(LOCAL) and each.get(REMOTE):
            ratio = each[REMOTE] / each[LOCAL]
            rounds = rounds_of(result["counts"][str(n)])
            verdict = "pass" if ratio >= bar else "fail"
            said.append((f"{n} GPU(s)", verdict, f"{ratio:.3f} of local{rounds}, bar {bar}"))
    here, there = gains(result, LOCAL), gains(result, REMOTE)
    most = max([n for n in there if n in here and n > 1], default=None)
    if most and not sockets:
        ratio = there[most] / here[most]
        verdict = "pass" if ratio >= EFFICIENCY else "fail"
        text = f"{ratio:.3f} of local's efficiency, bar {EFFICIENCY}"
        said.append((f"efficiency at {most}", verdict, text))
    crossed = result.get("bytes_a_step")
    if crossed is not None:
        text = f"{crossed / 1e6:.3f} MB cross the client's link"
        if result.get("alone", True):
            verdict = "pass" if crossed < BYTES else "fail"
            said.append(("a step", verdict, f"{text}, bar {BYTES / 1e6:g} MB"))
        else:
            said.append(("a step", "note", text))
    said += same_values(result)
    return said


def same_values(result):
    """Whether what each rank had at the end is the same on both sides, where local runs agree."""
    found = []
    for n, each in result["counts"].items():
        values = {}
        for side, outcomes in each.items():
            for outcome in outcomes if side in (LOCAL, REMOTE) else []:
                lines = sorted((o["rank"], o["last"]) for o in outcome["lines"] if "last" in o)
                if lines and not outcome["error"]:
                    values.setdefault(side, set()).add(tuple(lines))
        here, there = values.get(LOCAL, set()), values.get(REMOTE, set())
        if len(here) == 1 and there:
            alike = "bit for bit" if here == there else f"differ: {sorted(here)}, {sorted(there)}"
            # One local run does not show that local runs agree.
            sure = len(each.get(LOCAL, [])) > 1
            verdict = "pass" if here == there else "fail" if sure else "note"
            found.append((f"values at {n}", verdict, alike))
        elif len(here) > 1:
            found.append((f"values at {n}", "note", "local runs differ from each other"))
    return found


def grid(result):
    """Head and rows: images a second, times as fast as one GPU, efficiency; published beside."""
    names, unit = list(result["runs"]), result.get("unit", "images")
    head = ["GPUs"]
    for side in names:
        head += [f"{side} {unit}/s", "times one", "efficiency"]
    published = SCALING if unit == "images" else {}
    head += ["remote/local", *published]
    rows, gained = [], {side: gains(result, side) for side in names}
    for n, each in sorted(speeds(result).items()):
        row = [str(n)]
        for side in names:
            gain = gained[side].get(n)
            row.append(number(each[side]) if each.get(side) else "-")
            row += [f"{gain:.2f}", f"{gain / n:.3f}"] if gain else ["-", "-"]
        both = each.get(LOCAL) and each.get(REMOTE)
        row.append(f"{each[REMOTE] / each[LOCAL]:.3f}" if both else "-")
        row += [f"{known[n]:.2f}" if n in known else "-" for known in published.values()]
        rows.append(row)
    return head, rows


def about(result):
    """What is to be known beside the table."""
    notes = SCALING_NOTES if result.get("unit", "images") == "images" else []
    return [f"between ranks: {result['settings']['between']}", *notes]


def result_text(result):
    """The report."""
    said = [f"{name}: {text}" for name, _, text in verdicts(result)]
    table = [] if skipped(result) else [table_text(*grid(result)), "", *about(result), ""]
    return "\n".join([result["title"], "", *table, *said])


def markdown(result):
    """The same for a document."""
    head, rows = grid(result)
    lines = [f"## {title(result)}", "", *(f"- {line}" for line in about(result)), ""]
    lines += ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows), ""])
