"""``run across``: copies between devices of two servers, straight and through the client.

They are compared with what a plain TCP connection carries over the same link.
"""

import contextlib
import datetime
import socket
import sys
import tempfile
import threading
import time

from busbar_bench import FORMAT, machine, process
from busbar_bench.link import Link, LinkError
from busbar_bench.micro import build_driver
from busbar_bench.published import LINKS
from busbar_bench.report import number, table_text
from busbar_bench.runner import say
from busbar_bench.stats import median

WAYS = {"straight": {}, "through the client": {"BUSBAR_LINKS": "0"}}
# Bytes of the longest copy; of the plain connection that it is compared with.
MOST, SMOKE_MOST = 256 << 20, 16 << 20


def raw_rate(args, preset, total):
    """Bytes a second of a plain connection, over the emulated link if there is one."""
    with socket.create_server(("127.0.0.1", 0)) as sink:
        address = f"127.0.0.1:{sink.getsockname()[1]}"

        def swallow():
            conn, _ = sink.accept()
            with conn:
                room, left = bytearray(1 << 20), total
                while left > 0:
                    n = conn.recv_into(room)
                    if n == 0:
                        return
                    left -= n
                conn.sendall(b"!")

        reader = threading.Thread(target=swallow, daemon=True)
        reader.start()
        with contextlib.ExitStack() as stack:
            if preset:
                link = Link(args.link_binary, preset, address, args.link_args)
                address = stack.enter_context(link).address
            host, port = address.rsplit(":", 1)
            with socket.create_connection((host, int(port)), timeout=args.timeout) as conn:
                piece, left = bytes(1 << 20), total
                began = time.perf_counter()
                while left > 0:
                    conn.sendall(piece[: min(left, len(piece))])
                    left -= len(piece)
                if conn.recv(1) != b"!":
                    raise LinkError("the plain connection ended early")
                return total / (time.perf_counter() - began)


def measure(args):
    """Runs everything; returns the result for the JSON file."""
    most = SMOKE_MOST if args.smoke else MOST
    preset = args.link or ("ethernet-10g" if args.link_binary else None)
    servers = args.server.split(",")
    runs = {way: [] for way in WAYS}
    started = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        driver = build_driver(folder)
        if driver is None:
            raise LinkError("there is no C compiler for native/driver.c")
        raw = raw_rate(args, preset, most)
        if preset:
            each = [Link(args.link_binary, preset, s, args.link_args) for s in servers]
            servers = [stack.enter_context(link).address for link in each]
        for index in range(args.rounds):
            for way, env in WAYS.items():
                say(f"round {index + 1}, {way}")
                env = process.own_environment({**args.remote_env, **env})
                argv = [driver, "across", str(most), "4" if args.smoke else "10"]
                outcome = process.run(
                    argv, args.remote_prefix, ",".join(servers), env, args.timeout
                )
                if outcome["error"]:
                    say(f"round {index + 1}, {way}: failed")
                runs[way].append(outcome)
    return {
        "format": FORMAT,
        "table": "across",
        "title": "copies between devices of two servers",
        "started": started,
        "command": sys.argv,
        "machine": machine.describe(),
        "settings": {"rounds": args.rounds, "link": preset, "servers": args.server},
        "raw": raw,
        "nominal": LINKS[preset][1] if preset else None,
        "rows": [],
        "runs": runs,
    }


def rates(result):
    """By size of a copy: the median rate of each way, in bytes a second."""
    found = {}
    for way, outcomes in result["runs"].items():
        for outcome in outcomes:
            for line in outcome["lines"] if not outcome["error"] else []:
                for size in line["sizes"]:
                    each = found.setdefault(size["bytes"], {})
                    each.setdefault(way, []).append(size["bytes"] / size["ns"] * 1e9)
    return {n: {way: median(all_) for way, all_ in each.items()} for n, each in found.items()}


def title(result):
    """What it is called where there are several results."""
    return f"across: {result['title']}"


def verdicts(result):
    """(way, verdict, its text): a copy has to succeed and to be whole; no bar is set for speed."""
    said = []
    for way, outcomes in result["runs"].items():
        errors = [o["error"] for o in outcomes if o["error"]]
        whole = all(line["intact"] for o in outcomes for line in o["lines"])
        if errors:
            said.append((way, "error", f"error: {errors[0]}"))
        else:
            said.append((way, "pass", "whole") if whole else (way, "fail", "other bytes came"))
    return said


def grid(result):
    """Head and rows: a line for each size."""
    raw, rows = result["raw"], []
    for size, each in sorted(rates(result).items()):
        cells = [number(each[way] / 1e9) if way in each else "-" for way in WAYS]
        straight = each.get("straight")
        part = f"{straight / raw:.3f}" if straight else "-"
        rows.append([f"{size >> 10} KiB", *cells, part])
    return ["copy", *(f"{way}, GB/s" for way in WAYS), "of the raw link"], rows


def result_text(result):
    """The report."""
    raw = f"a plain connection carries {number(result['raw'] / 1e9)} GB/s"
    ways = [f"{way}: {text}" for way, _, text in verdicts(result)]
    return "\n".join([result["title"], raw, "", table_text(*grid(result)), "", *ways])


def markdown(result):
    """The same for a document."""
    head, rows = grid(result)
    lines = [f"## {title(result)}", "", "| " + " | ".join(head) + " |"]
    lines += ["|" + "---|" * len(head), *("| " + " | ".join(row) + " |" for row in rows)]
    return "\n".join([*lines, ""])
