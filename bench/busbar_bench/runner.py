"""Runs a table: local and remote processes in turn, round by round, over the links it names."""

import contextlib
import datetime
import math
import sys
import time

from busbar_bench import FORMAT, machine, process, results
from busbar_bench.link import Link
from busbar_bench.results import RDMA


def sides_of(args):
    """Name and prefix of each side, local first."""
    sides = [(results.LOCAL, "")]
    if args.remote_prefix:
        sides.append((results.REMOTE, args.remote_prefix))
    if RDMA in args.transports:
        sides.append((RDMA, args.remote_prefix))
    return sides + list(args.peer.items())


def environment_of(side, args):
    """What is set for a side's processes beyond what all have."""
    if side == results.LOCAL:
        return None
    if not args.transports or side in args.peer:
        return args.remote_env
    # A session that must be on RDMA and cannot be is an error, which says why.
    return {**args.remote_env, "BUSBAR_RDMA": "on" if side == RDMA else "off"}


def order_of(sides, round_index):
    """Every other round runs backwards, so that a drift of the machine favours nobody."""
    return list(sides) if round_index % 2 == 0 else list(reversed(sides))


def rows_of(table, args):
    """The rows to measure: all, those of the quick version, or those asked for."""
    rows = [row for row in table.rows if row.smoke or not args.smoke]
    if args.only:
        rows = [row for row in table.rows if any(text in str(row.spec) for text in args.only)]
    return rows


def say(text):
    """Progress goes to standard error; standard output is the table's."""
    print(f"busbar-bench: {text}", file=sys.stderr, flush=True)


class Links:
    """The emulators in use, one for each link and server, started when first asked for."""

    def __init__(self, args, stack):
        self.args, self.stack, self.running = args, stack, {}

    def address(self, preset, server):
        """Where to connect to reach `server` over `preset`."""
        if not self.args.link_binary or preset is None or server is None:
            return server
        key = (preset, server)
        if key not in self.running:
            link = Link(self.args.link_binary, preset, server, self.args.link_args)
            self.running[key] = self.stack.enter_context(link)
        return self.running[key].address

    def reports(self):
        """What each emulator counted; call after they have ended."""
        return [
            {"preset": preset, "server": server, "stats": link.report}
            for (preset, server), link in self.running.items()
        ]


def link_of(row, table, args):
    """The link a row runs over: what was asked for, or its own, or its table's."""
    if args.link:
        return args.link
    return (row.link or table.link) if args.link_binary else None


def server_of(side, args):
    """The server a side talks to."""
    return args.peer_server.get(side, args.server)


def run_round(round_index, rows_by_link, sides, links, args, settings):
    """One round: a process a side and link (the local side needs no link)."""
    for side, prefix in order_of(sides, round_index):
        groups = rows_by_link.items()
        if side == results.LOCAL:
            every = dict.fromkeys(row.spec for rows in rows_by_link.values() for row in rows)
            groups = [(None, list(every))]
        for link, rows in groups:
            specs = rows if side == results.LOCAL else [row.spec for row in rows]
            batches = [[spec] for spec in specs] if args.process_per_row else [specs]
            for batch in batches:
                names = ", ".join(map(str, batch))
                over = f" over {link}" if link and side != RDMA else ""
                say(f"round {round_index + 1}, {side}{over}: {names}")
                # An emulated link carries TCP alone: queue pairs would go past it.
                over_link = None if side == RDMA else link
                server = links.address(over_link, server_of(side, args))
                more = environment_of(side, args)
                env = process.own_environment(more, any(spec.has("det") for spec in batch))
                argv = process.worker_argv(batch, settings)
                outcome = process.run(argv, prefix, server, env, args.timeout)
                if outcome["error"]:
                    # What it was stands in the report, once for all rounds.
                    say(f"round {round_index + 1}, {side}: failed")
                yield {
                    "side": side,
                    "round": round_index,
                    "link": link,
                    "specs": [str(spec) for spec in batch],
                    **outcome,
                }


def run_table(table, args, deadline=math.inf):
    """Measures a table; returns the result that goes into the JSON file.

    No round but the first begins that would not end before `deadline` (of time.monotonic).
    """
    rows = rows_of(table, args)
    if args.deterministic:
        rows = [with_det(row) for row in rows]
    sides = sides_of(args)
    names = ("steps", "warmup", "block", "rounds", "workers", "seconds")
    settings = {name: getattr(args, name, None) for name in names}
    rows_by_link = {}
    for row in rows:
        rows_by_link.setdefault(link_of(row, table, args), []).append(row)
    started = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    processes = []
    with contextlib.ExitStack() as stack:
        links = Links(args, stack)
        for index in range(args.rounds):
            began = time.monotonic()
            processes += run_round(index, rows_by_link, sides, links, args, settings)
            # The next round takes about as long as this one.
            now = time.monotonic()
            if now + (now - began) > deadline:
                settings["rounds"] = index + 1
                break
    names = [name for name, _ in sides]
    result = {
        "format": FORMAT,
        "table": table.name,
        "title": table.title,
        "started": started,
        "command": sys.argv,
        "machine": {**machine.describe(), **versions(processes)},
        "settings": {**settings, "sides": dict(sides), "smoke": args.smoke},
        "links": links.reports(),
        "rows": [
            results.row_result(row, processes, names, link)
            for link, group in rows_by_link.items()
            for row in group
        ],
        "processes": processes,
        "start_up": results.start_ups(processes),
    }
    for link in result["links"]:
        for warning in (link["stats"] or {}).get("warnings", []):
            say(f"link {link['preset']}: the machine did not keep up: {warning}")
    return result


def with_det(row):
    """The same row with deterministic algorithms."""
    from dataclasses import replace

    return replace(row, spec=row.spec.with_options("det"))


def versions(processes):
    """What the local workers said of PyTorch and the GPU."""
    for outcome in processes:
        for line in outcome["lines"]:
            if line.get("process") and "torch" in line:
                return {k: line[k] for k in ("torch", "cuda", "cudnn", "gpu", "tf32") if k in line}
    return {}
