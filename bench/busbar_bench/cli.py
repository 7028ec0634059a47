"""The command ``busbar-bench``."""

import argparse
import json
import math
import os
import sys

from busbar_bench import (
    across,
    collection,
    compare,
    fabrics,
    figures,
    micro,
    nccl,
    networks,
    page,
    results,
    runner,
    sharing,
    switches,
    training,
    workloads,
)
from busbar_bench import spec as specs
from busbar_bench.link import LinkError
from busbar_bench.published import LINKS, TABLES, Row, Table

# Results that are no table of workloads, near and far.
WITHOUT_ROWS = ("micro", "sharing", "across", "nccl", "scaling", "horovod")
# What has ranks.
JOBS = ("nccl", "scaling", "horovod")

SMOKE = {"steps": 20, "warmup": 5, "rounds": 1}
FULL = {"steps": 100, "warmup": 10, "rounds": 3}


def pair(text):
    """NAME=VALUE as an argument."""
    name, sep, value = text.partition("=")
    if not sep or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def positive(text):
    """A whole number above zero as an argument."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above zero")
    return int(text)


def transports(text):
    """Some of `tcp` and `rdma`, with commas between them, as an argument."""
    names = text.split(",")
    if names not in (["tcp"], ["tcp", "rdma"]):
        raise argparse.ArgumentTypeError(f"{text!r} is neither 'tcp' nor 'tcp,rdma'")
    return names


def common(parser):
    """Arguments of everything that measures."""
    add = parser.add_argument
    add(
        "--remote-prefix",
        default="",
        metavar="COMMAND",
        help="put before the worker's command line to make it remote; {server} in it is replaced "
        "by the address to connect to, e.g. 'busbar run --server {server} --'",
    )
    add(
        "--remote-env",
        type=pair,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="set for remote processes only; may be repeated",
    )
    add("--server", metavar="HOST:PORT", help="the server")
    add(
        "--peer",
        type=pair,
        action="append",
        default=[],
        metavar="NAME=COMMAND",
        help="another prefix to compare with; may be repeated",
    )
    add(
        "--peer-server",
        type=pair,
        action="append",
        default=[],
        metavar="NAME=HOST:PORT",
        help="a peer's own server",
    )
    add(
        "--transports",
        type=transports,
        default=[],
        metavar="tcp,rdma",
        help="measure the remote side over TCP, and beside it over RDMA, which no link is emulated "
        "for; where a machine has no device, the column says so",
    )
    add("--link", choices=sorted(LINKS), help="run over this link, whatever the table says")
    add(
        "--link-binary",
        metavar="COMMAND",
        help="the link emulator, e.g. 'busbar link'; without it no link is emulated",
    )
    add("--link-args", default="", metavar="ARGS", help="more arguments for the emulator")
    add("--rounds", type=positive, help=f"times each side is run (default {FULL['rounds']})")
    add("--smoke", action="store_true", help="a quick version: fewer rows, steps and rounds")
    add("--timeout", type=float, default=600.0, metavar="S", help="for each process")
    add("--out", metavar="FOLDER", help="write the numbers (JSON) and a page (HTML) there")
    add("--name", help="name of the files in --out (default: the table's)")


def rows(command):
    """What chooses and shapes the rows of a table."""
    add = command.add_argument
    add("--only", action="append", metavar="TEXT", help="only rows whose name contains this")
    add("--deterministic", action="store_true", help="every row with deterministic algorithms")
    add("--process-per-row", action="store_true", help="a process for each row and side")


def jobs(command):
    """What shapes the tables of many ranks."""
    add = command.add_argument
    add("--ranks", type=positive, default=2, help="nccl, scaling, horovod: GPUs (default 2)")
    add("--hosts", type=positive, default=1, help="take the ranks for those of so many servers")
    add("--one-gpu", action="store_true", help="all ranks have the first GPU, over sockets")
    add("--only-remote", action="store_true", help="nothing is run locally")
    add("--collectives", default=",".join(nccl.COLLECTIVES), help="nccl: only these")
    add("--most-bytes", type=positive, help="nccl: the longest (default 1 GiB)")
    add("--network", choices=networks.KINDS, help="scaling, horovod: what is trained")
    add("--launcher", metavar="COMMAND", help="horovod: instead of 'horovodrun --gloo'")


def parser():
    """All arguments."""
    top = argparse.ArgumentParser(prog="busbar-bench", description=__doc__)
    commands = top.add_subparsers(dest="command", required=True)
    add = commands.add_parser("run", help="measure a table").add_argument
    run = commands.choices["run"]
    add(
        "table",
        help=f"one of {', '.join([*TABLES, 'copies', 'sharing', 'across', *JOBS])}; or a list of "
        "workloads, such as "
        "alexnet:32:fp32,resnet56:512:bf16:host",
    )
    common(run)
    add(
        "--steps",
        type=positive,
        help=f"measured steps (default {FULL['steps']}); nccl: calls that are queued before one "
        "waits (default 20)",
    )
    add("--warmup", type=positive, help=f"steps before them (default {FULL['warmup']})")
    add("--block", type=positive, default=10, help="steps between two readings of time")
    add("--workers", type=int, default=8, help="DataLoader processes")
    add("--seconds", type=float, metavar="S", help="begin no block of steps after this time")
    rows(run)
    jobs(run)
    every = commands.add_parser(
        "all",
        help="measure every table and the micro-benchmarks in a given time",
        description="Measures every table, the micro-benchmarks over the link and without it, and "
        "the off switches; each gets its part of the time, and as many rounds as fit. With --out "
        "it writes all.json and all.html after each of them. Where one sitting is too short, name "
        "some by --tables, and join the files by `busbar-bench report`.",
    )
    common(every)
    add = every.add_argument
    add("--time-budget", type=float, default=60.0, metavar="MIN", help="minutes (default 60)")
    add("--tables", nargs="+", choices=collection.NAMES, help="only these")
    add("--steps", type=positive, help=f"measured steps (default {FULL['steps']})")
    add("--warmup", type=positive, help=f"steps before them (default {FULL['warmup']})")
    add("--block", type=positive, default=10, help="steps between two readings of time")
    add("--seconds", type=float, default=8.0, help="of measured steps a row (default 8)")
    add("--workers", type=int, default=8, help="DataLoader processes")
    rows(every)
    add("--step-workload", metavar="SPEC", default="resnet32:32:fp32", help=argparse.SUPPRESS)
    tiny = commands.add_parser("micro", help="measure launches, copies, the first result")
    common(tiny)
    add = tiny.add_argument
    add("--parts", nargs="+", choices=micro.PARTS, help="only these")
    add("--driver", metavar="PATH", help="native/driver.c, built elsewhere")
    add("--max-bytes", type=positive, help="largest copy")
    add("--cold-command", metavar="COMMAND", help="empties the server's cache before round 1")
    add("--step-workload", metavar="SPEC", help="also count what a step of this workload sends")
    two = commands.add_parser("compare", help="compare two results of one table")
    two.add_argument("before")
    two.add_argument("after")
    two.add_argument("--tolerance", type=float, default=0.02, help="relative change that counts")
    again = commands.add_parser("report", help="print results again, join them, plot them")
    again.add_argument("files", nargs="+", metavar="FILE", help="what --out wrote, of any command")
    again.add_argument("--out", metavar="FOLDER", help="write JSON, HTML, Markdown and SVG there")
    again.add_argument("--name", help="name of the files (default: the table's)")
    plots = commands.add_parser(
        "plots",
        help="draw what results have a figure for",
        description="Draws a plot (SVG) of each result that has a figure, named after its file. "
        "Files that are no results of busbar-bench are left out.",
    )
    plots.add_argument("files", nargs="+", metavar="FILE", help="what --out wrote, of any command")
    plots.add_argument("--out", metavar="FOLDER", required=True, help="where plots go")
    plots.add_argument("--slim", action="store_true", help="write each result again, small")
    fabric = commands.add_parser(
        "fabrics",
        help="compute what would bound a measured table on fabrics of 100 and 400 Gb/s",
    )
    fabric.add_argument("files", nargs="+", metavar="FILE", help="what --out wrote, of `run`")
    commands.add_parser("list", help="list tables and workloads")
    return top  # fmt: skip


class Usage(Exception):
    """Arguments that do not go together."""


def settle(args):
    """Fills in defaults and checks that the arguments go together."""
    defaults = SMOKE if args.smoke else FULL
    for name, value in defaults.items():
        if getattr(args, name, value) is None:
            setattr(args, name, value)
    args.remote_env, args.peer = dict(args.remote_env), dict(args.peer)
    args.peer_server = dict(args.peer_server)
    for name in (results.LOCAL, results.REMOTE, results.RDMA):
        if name in args.peer:
            raise Usage(f"a peer cannot be called {name!r}")
    for name in args.peer_server:
        if name not in args.peer:
            raise Usage(f"--peer-server {name}: there is no such --peer")
    if args.link and not args.link_binary:
        raise Usage("--link needs --link-binary, the emulator to start")
    for name, prefix in [("--remote-prefix", args.remote_prefix), *args.peer.items()]:
        server = args.peer_server.get(name, args.server)
        if "{server}" in prefix and not server:
            raise Usage(f"{name} names {{server}}, so --server has to say which")
        if args.link_binary and prefix and "{server}" not in prefix:
            raise Usage(f"{name} must name {{server}}: otherwise it would bypass the link")
    if args.link_binary and not args.server:
        raise Usage("--link-binary needs --server, where the link leads to")


def table_of(text):
    """A table by name, or one made of the workloads listed."""
    if text in TABLES:
        return TABLES[text]
    try:
        wanted = specs.parse_list(text)
    except ValueError as error:
        raise Usage(str(error)) from error
    known = workloads.names()
    for spec in wanted:
        if spec.name not in known:
            raise Usage(
                f"no table or workload is named {spec.name!r}; tables: {', '.join(TABLES)}; "
                f"workloads: {', '.join(known)}"
            )
    if not wanted:
        raise Usage("nothing to run")
    return Table("custom", text, "vmxnet3-10g", tuple(Row(spec, None) for spec in wanted))


def write(found, folder, name):
    """Writes the numbers of some results and the page that shows them; says where they are."""
    os.makedirs(folder, exist_ok=True)
    base = os.path.join(folder, name)
    one = found[0] if len(found) == 1 else collection.join(found)
    save(base + ".json", json.dumps(collection.slim(one), separators=(",", ":")))
    try:
        save(base + ".html", page.pages(found, f"busbar-bench {name}"))
    except figures.Missing as error:
        runner.say(f"no page: {error}; `busbar-bench report {base}.json` writes it elsewhere")


def save(path, text):
    """Writes a file and says so."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    runner.say(f"wrote {path}")


def write_for_documents(found, folder, name):
    """Writes the tables as Markdown and each figure as SVG."""
    save(os.path.join(folder, name) + ".md", collection.markdown(found))
    write_plots(found, folder, name)


def write_plots(found, folder, name):
    """Writes each figure as SVG."""
    base = os.path.join(folder, name)
    drawn = {page.anchor(result): figures.svg(result) for result in found}
    drawn = {anchor: text for anchor, text in drawn.items() if text}
    for anchor, text in drawn.items():
        save(f"{base}-{anchor}.svg" if len(drawn) > 1 else f"{base}.svg", text)


def read_json(path):
    """A file's content."""
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except OSError as error:
        raise Usage(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise Usage(f"{path} is no result of busbar-bench: {error}") from error


def load(path):
    """Reads a table's result, or all tables of a joined one as one."""
    tables = [part for part in load_any([path]) if part["table"] not in WITHOUT_ROWS]
    if not tables:
        raise Usage(f"{path} has no table to compare")
    return {**tables[0], "rows": [row for table in tables for row in table["rows"]]}


def run_command(args):
    """``run``: 0 if every bar is reached, 1 if not."""
    if args.table == "copies":
        return micro_command(args, parts=["copies"])
    if args.table == "across":
        return across_command(args)
    if args.table == "sharing":
        return sharing_command(args)
    if args.table in JOBS:
        return job_command(args)
    settle(args)
    table = table_of(args.table)
    if not runner.rows_of(table, args):
        raise Usage("no row is left to run")
    if table.name == "switches":
        if not args.remote_prefix:
            raise Usage("switches needs --remote-prefix: there is nothing to switch off locally")
        result = switches.measure(args, math.inf)
    else:
        result = runner.run_table(table, args)
    return finish(args, result)


def finish(args, result):
    """Shows a result, and writes it where it is wanted: 1 if it missed a bar."""
    print(collection.text(result))
    if args.out:
        write([result], args.out, args.name or result["table"])
    return 1 if collection.failed([result]) else 0


def sharing_command(args):
    """``run sharing``."""
    settle(args)
    for name, prefix in [("--remote-prefix", args.remote_prefix), *args.peer.items()]:
        if prefix.split()[-1:] != ["--"]:
            raise Usage(f"sharing needs a {name} that ends with --; shares are asked before it")
    if args.link_binary:
        raise Usage("sharing takes no link: all programs of a side talk to one server")
    if not sharing.scenes_of(args):
        raise Usage(f"no scene is left; there are {', '.join(s.name for s in sharing.SCENES)}")
    return finish(args, sharing.measure(args))


def across_command(args):
    """``run across``: 1 if a copy failed or was not whole."""
    settle(args)
    if not args.remote_prefix or len((args.server or "").split(",")) != 2:
        raise Usage("across needs --remote-prefix, and --server with two servers: A,B")
    return finish(args, across.measure(args))


def job_command(args):
    """``run nccl``, ``run scaling``, ``run horovod``."""
    args.queued = args.steps or (3 if args.smoke else 20)
    settle(args)
    if args.link_binary or args.peer:
        raise Usage(f"{args.table} takes no link and no peer")
    if args.only_remote and not args.remote_prefix:
        raise Usage("--only-remote needs --remote-prefix")
    unknown = set(args.collectives.split(",")) - set(nccl.COLLECTIVES)
    if unknown:
        raise Usage(f"no collective is named {', '.join(sorted(unknown))}")
    measure = nccl.measure if args.table == "nccl" else training.measure
    return finish(args, measure(args))


def all_command(args):
    """``all``: every table within the time given."""
    settle(args)

    def keep(found):
        print(collection.text(found[-1]), flush=True)
        if args.out:
            write(found, args.out, args.name or "all")

    found = collection.measure(args, keep)
    print(collection.summary(found))
    return 1 if collection.failed(found) else 0


def load_any(paths):
    """Reads results of any kind, in the order of the files."""
    found = []
    for path in paths:
        value = read_json(path)
        for part in collection.parts(value):
            try:
                bare = part.get("table") in WITHOUT_ROWS
                found.append(part if bare else results.check(part))
            except (ValueError, AttributeError) as error:
                raise Usage(f"{path} is no result of busbar-bench: {error}") from error
    return found


def report_command(args):
    """``report``: text again, and the files of all of them together."""
    found = load_any(args.files)
    for result in found:
        print(collection.text(result), end="\n\n")
    if args.out:
        name = args.name or (found[0]["table"] if len(found) == 1 else "all")
        write(found, args.out, name)
        write_for_documents(found, args.out, name)
    return 0


def plots_command(args):
    """``plots``."""
    os.makedirs(args.out, exist_ok=True)
    for path in args.files:
        value = read_json(path)
        kind = value.get("format") if isinstance(value, dict) else None
        if not str(kind).startswith("busbar-bench/"):
            runner.say(f"{path} is no result of busbar-bench")
            continue
        if args.slim:
            save(path, json.dumps(collection.slim(value), separators=(",", ":")) + "\n")
        name = os.path.splitext(os.path.basename(path))[0]
        write_plots(load_any([path]), args.out, name)
    return 0


def micro_command(args, parts=None):
    """``micro``, and ``run copies``."""
    settle(args)
    if parts:
        args.parts, args.driver, args.max_bytes = parts, None, None
        args.cold_command, args.step_workload = None, None
    return finish(args, micro.measure(args))


def main(argv=None):
    """Runs the command; returns the exit status (2: it could not be run)."""
    args = parser().parse_args(argv)
    try:
        if args.command == "run":
            return run_command(args)
        if args.command == "micro":
            return micro_command(args)
        if args.command == "compare":
            text, worse = compare.compare_text(load(args.before), load(args.after), args.tolerance)
            print(text)
            return 1 if worse else 0
        if args.command == "report":
            return report_command(args)
        if args.command == "plots":
            return plots_command(args)
        if args.command == "all":
            return all_command(args)
        if args.command == "fabrics":
            print("\n\n".join(fabrics.text(load(file)) for file in args.files))
            return 0
        print(f"sharing: programs that share a device ({len(sharing.SCENES)} scenes)")
        for table in TABLES.values():
            print(f"{table.name}: {table.title} ({len(table.rows)} rows)")
        print(f"workloads: {', '.join(workloads.names())}")
        print("options: " + "; ".join(f"{k}: {v}" for k, v in specs.OPTIONS.items()))
        return 0
    except (Usage, LinkError, figures.Missing) as error:
        print(f"busbar-bench: {error}", file=sys.stderr)
        return 2
