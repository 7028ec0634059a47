"""``run across``: copies between devices of two servers, straight and through the client.

Each round compares them with what a plain TCP connection carried over the same link just before.
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
from busbar_bench.micro import build
from busbar_bench.published import LINKS
from busbar_bench.report import number, table_text
from busbar_bench.runner import say
from busbar_bench.stats import median

WAYS = {"straight": {}, "through the client": {"BUSBAR_LINKS": "0"}}
# Bytes of the longest copy, and how often each size is copied.
MOST, SMOKE_MOST = 256 << 20, 16 << 20
REPEATS, SMOKE_REPEATS = 10, 4
# What straight copies have to reach over an emulated link: this part of what a plain connection
# carries, with less than that part of the bytes passing the client.
BAR, CLIENT_BAR = 0.95, 0.01


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
    repeats = SMOKE_REPEATS if args.smoke else REPEATS
    preset = args.link or ("ethernet-10g" if args.link_binary else None)
    servers = args.server.split(",")
    runs, raw = {way: [] for way in WAYS}, []
    started = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        driver = build(folder, "driver")
        if driver is None:
            raise LinkError("there is no C compiler for native/driver.c")
        if preset:
            each = [Link(args.link_binary, preset, s, args.link_args) for s in servers]
            servers = [stack.enter_context(link).address for link in each]
        for index in range(args.rounds):
            raw.append(raw_rate(args, preset, repeats * most))
            for way, env in WAYS.items():
                say(f"round {index + 1}, {way}")
                env = process.own_environment({**args.remote_env, **env})
                argv = [driver, "across", str(most), str(repeats)]
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
    """By size of a copy and way: the rates of the rounds, in bytes a second; None for a loss."""
    found = {}
    for way, outcomes in result["runs"].items():
        for index, outcome in enumerate(outcomes):
            for line in outcome["lines"] if not outcome["error"] else []:
                for size in line["sizes"]:
                    each = found.setdefault(size["bytes"], {})
                    all_ = each.setdefault(way, [None] * len(outcomes))
                    all_[index] = size["bytes"] / size["ns"] * 1e9
    return found


def of_raw(result, all_):
    """Rates as parts of the plain connection's of the same round: median, least, greatest."""
    parts = [rate / raw for rate, raw in zip(all_, result["raw"]) if rate is not None]
    return (median(parts), min(parts), max(parts)) if parts else None


def past_the_client(outcome):
    """The client's bytes as a part of what was copied; None where it does not count them.

    Apart from the content that the program itself uploads once, and once reads back.
    """
    counted = outcome["busbar"]
    if counted is None or outcome["error"]:
        return None
    copied = most = 0
    for line in outcome["lines"]:
        most = max(size["bytes"] for size in line["sizes"])
        # One of each size is not timed, and one more is read back.
        copied += most + sum(size["bytes"] * (line["repeats"] + 1) for size in line["sizes"])
    return max(0, counted["bytes_sent"] + counted["bytes_received"] - 2 * most) / copied


def title(result):
    """What it is called where there are several results."""
    return f"across: {result['title']}"


def verdicts(result):
    """(way, verdict, its text): a copy has to succeed and to be whole.

    Straight ones are held to the bars where a link is emulated, which alone makes raw and copy
    comparable.
    """
    said = []
    for way, outcomes in result["runs"].items():
        errors = [o["error"] for o in outcomes if o["error"]]
        whole = all(line["intact"] for o in outcomes for line in o["lines"])
        if errors:
            said.append((way, "error", f"error: {errors[0]}"))
        else:
            said.append((way, "pass", "whole") if whole else (way, "fail", "other bytes came"))
    if said[0][1] == "pass" and result["nominal"]:
        said += straight_verdicts(result)
    return said


def straight_verdicts(result):
    """The bars of the longest straight copies."""
    each = rates(result)
    at, least, greatest = of_raw(result, each[max(each)]["straight"])
    text = f"{at:.3f} ({least:.3f} to {greatest:.3f}) of the raw link, bar {BAR}"
    said = [("straight, longest copy", "pass" if at >= BAR else "fail", text)]
    parts = [past_the_client(outcome) for outcome in result["runs"]["straight"]]
    counted = [part for part in parts if part is not None]
    if counted:
        verdict = "pass" if max(counted) < CLIENT_BAR else "fail"
        text = f"{max(counted):.3%} of the bytes, bar under {CLIENT_BAR:.0%}"
        said.append(("straight, past the client", verdict, text))
    return said


def grid(result):
    """Head and rows: a line for each size."""
    rows = []
    for size, each in sorted(rates(result).items()):
        got = {way: [rate for rate in each.get(way, []) if rate is not None] for way in WAYS}
        cells = [number(median(got[way]) / 1e9) if got[way] else "-" for way in WAYS]
        part = of_raw(result, each.get("straight", []))
        rows.append([f"{size >> 10} KiB", *cells, f"{part[0]:.3f}" if part else "-"])
    return ["copy", *(f"{way}, GB/s" for way in WAYS), "straight, of the raw link"], rows


def result_text(result):
    """The report."""
    raw = f"a plain connection carries {number(median(result['raw']) / 1e9)} GB/s"
    ways = [f"{way}: {text}" for way, _, text in verdicts(result)]
    return "\n".join([result["title"], raw, "", table_text(*grid(result)), "", *ways])


def markdown(result):
    """The same for a document."""
    head, rows = grid(result)
    lines = [f"## {title(result)}", "", "| " + " | ".join(head) + " |"]
    lines += ["|" + "---|" * len(head), *("| " + " | ".join(row) + " |" for row in rows)]
    return "\n".join([*lines, ""])
