"""Programs as users write them, whole, natively and through Busbar in turn on one GPU machine.

    python3 testing/gpu/users.py --dist dist [--wheels FOLDER] [--sites FOLDER] [--only NAME ...]
                                 [--rounds 2] [--part K/N] [--minutes 9] [--json FILE]
    python3 testing/gpu/users.py --dist dist --no-times --jobs 6      only what they print
    python3 testing/gpu/users.py --merge A.json B.json ...            one table of several runs

`users/` has the programs. The client sees no driver and is behind an emulated network (remote.py).
Where times are taken programs have half of the processors on either side, and the server the rest.
Each program first runs once on either side, not timed, so that caches of both are warm; then
`--rounds` times on each, in turn. What it prints must be the same; where natively no two runs are
alike, only what differs natively may differ remotely, and about as much. A program's time
is that of its whole process. The bar is native + 1 s, and 1.05 of native, for the medians; `ship s`
is what the bytes that were sent take on the network at least, and is taken off first.

`--wheels` names what `fetch_users.py` packed: packages that this machine lacks are unpacked from
there, for the time of the run. `--sites` names what `fetch_site.py` packed: programs that need an
environment of their own (`SITES`) are left out where that is not there.
"""

import argparse
import concurrent.futures
import importlib.metadata
import importlib.util
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time

from remote import Remote, compare, lines, run

HERE = pathlib.Path(__file__).resolve().parent
# Programs whose collectives run at the server.
COLLECTIVES = ("nccl_one_rank",)
# Programs that have an environment of their own, and which one of `fetch_site.py`.
SITES = {
    "cudf_frames": "cudf",
    "cuml_learning": "cuml",
    "dali_images": "dali",
    "onnx_inference": "onnx",
    "vllm_batch": "vllm",
}
NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
LIMIT = 240


def install(wheels, folder):
    """Unpacks the packages that this Python lacks; says which."""
    lacking = []
    for wheel in sorted(pathlib.Path(wheels).glob("*.whl")):
        try:
            importlib.metadata.version(wheel.name.split("-")[0])
        except importlib.metadata.PackageNotFoundError:
            lacking.append(wheel)
    if lacking:
        pip = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps"]
        subprocess.run([*pip, "--target", str(folder), *map(str, lacking)], check=True)
    return [w.name.split("-")[0] for w in lacking]


def unpack(packed, folder):
    """Unpacks an environment of its own; says what Python is to find first. CUDA's libraries of
    this machine are put beside what it has of them, where its own libraries look for them."""
    here = folder / "packages"
    with tarfile.open(packed) as archive:
        archive.extractall(here, filter="tar")
    for package in importlib.util.find_spec("nvidia").submodule_search_locations:
        for library in pathlib.Path(package).glob("*/lib/*.so*"):
            link = here / "nvidia" / library.relative_to(package)
            link.parent.mkdir(parents=True, exist_ok=True)
            if not link.exists():
                link.symlink_to(library)
    # Some packages need what stands in `.pth` files.
    custom = folder / "first"
    custom.mkdir()
    lines = f"import site\nsite.addsitedir({str(here)!r})\n"
    (custom / "sitecustomize.py").write_text(lines)
    return f"{custom}:{here}"


def surroundings(side, work, site):
    """The environment of one side, whose caches are its own."""
    home = work / f"home-{side}"
    home.mkdir(exist_ok=True)
    paths = [str(site), os.environ.get("PYTHONPATH", "")]
    return dict(
        os.environ,
        HOME=str(home),
        XDG_CACHE_HOME=str(home / ".cache"),
        TORCHINDUCTOR_CACHE_DIR=str(home / "inductor"),
        TRITON_CACHE_DIR=str(home / "triton"),
        VLLM_CACHE_ROOT=str(home / "vllm"),
        PYTHONPATH=":".join(p for p in paths if p),
        PYTHONFAULTHANDLER="1",
        PYTHONUNBUFFERED="1",
        HF_HUB_OFFLINE="1",
        TOKENIZERS_PARALLELISM="false",
        CUBLAS_WORKSPACE_CONFIG=":4096:8",
        XLA_PYTHON_CLIENT_PREALLOCATE="false",
    )


def near(natives, line):
    """Whether a line is like one that native runs print, which differ: words equal, numbers about
    as far away as theirs are from each other."""
    for one in natives:
        if NUMBER.sub("#", one) != NUMBER.sub("#", line):
            continue
        theirs = [[float(n) for n in NUMBER.findall(o)] for o in natives]
        theirs = [t for t in theirs if len(t) == len(NUMBER.findall(line))]
        ours = [float(n) for n in NUMBER.findall(line)]
        spread = [max(t) - min(t) for t in zip(*theirs)]
        if all(abs(a - b) <= 5 * s + 0.02 * abs(b)
               for a, b, s in zip(ours, map(float, NUMBER.findall(one)), spread)):
            return True
    return False


def judge(natives, remotes):
    """`same`; `varies` when natively no two runs need be alike and the remote ones are as these; or
    what is wrong, and why."""
    first = natives[0]
    varied = any(compare(first, n)[0] != "same" for n in natives)
    for remote in remotes:
        verdict, why = compare(first, remote)
        if verdict == "same" or any(compare(n, remote)[0] == "same" for n in natives):
            continue
        if verdict == "FAIL" or not varied:
            return verdict, why
        texts = [lines(n["out"]) for n in natives]
        theirs = lines(remote["out"])
        if any(len(t) != len(theirs) for t in texts):
            return verdict, why
        for column in zip(theirs, *texts):
            if not near(column[1:], column[0]):
                return verdict, f"native {column[1]!r}, remote {column[0]!r}"[:200]
    return ("varies" if varied else "same"), ""


def stats_of(result):
    """The sums of what the client says of itself in each process of a program."""
    keys = ("round_trips", "program_round_trips", "bytes_sent", "bytes_received", "calls")
    total = dict.fromkeys(keys, 0)
    waits = {}
    for line in result["err"].splitlines():
        if line.startswith("busbar-stats: "):
            said = json.loads(line.split(" ", 1)[1])
            for key in total:
                total[key] += said[key]
            for w in said["by_function"]:
                name = f"{w['function']}: {w['call']}"
                trips, waited = waits.get(name, (0, 0))
                waits[name] = trips + w["round_trips"], waited + w["waited_ms"]
    most = sorted(waits.items(), key=lambda item: -item[1][1])[:8]
    return {**total, "waits": [[name, trips, round(ms)] for name, (trips, ms) in most]}


def row_of(name, natives, remotes, timed, rate):
    """What is told of one program; the first run on each side is for the caches."""
    verdict, why = judge(natives, remotes)
    if natives[0]["rc"] != 0:
        verdict = "-"
        why = f"fails natively: {(natives[0]['err'].strip().splitlines() or ['?'])[-1][:150]}"
    row = {"name": name, "verdict": verdict, "why": why}
    row.update(stats_of(remotes[-1]))
    row["ship_s"] = row["bytes_sent"] * 8 / rate / 1e9
    row["natively"] = [n["seconds"] for n in natives]
    row["remotely"] = [r["seconds"] for r in remotes]
    if timed and verdict in ("same", "varies"):
        n = row["native_s"] = statistics.median(row["natively"][1:])
        m = row["remote_s"] = statistics.median(row["remotely"][1:])
        m -= row["ship_s"]
        row["more_s"], row["ratio"] = m - n, m / n
        row["within"] = m <= n + 1 and m <= 1.05 * n
    return row


HEAD = (
    f"{'program':<20} {'result':<7} {'native s':>8} {'remote s':>8} {'ship s':>6} {'more s':>7} "
    f"{'ratio':>6} {'bar':<4} {'trips':>7} {'MB sent':>8}"
)


def told(r):
    seen = [f"{r[k]:.2f}" if k in r else "" for k in ("native_s", "remote_s", "ship_s", "more_s")]
    bar = {True: "yes", False: "no"}.get(r.get("within"), "")
    ratio = f"{r['ratio']:.3f}" if "ratio" in r else ""
    return (
        f"{r['name']:<20} {r['verdict']:<7} {seen[0]:>8} {seen[1]:>8} {seen[2]:>6} {seen[3]:>7} "
        f"{ratio:>6} {bar:<4} {r['round_trips']:>7} {r['bytes_sent'] / 1e6:>8.1f}  {r['why']}"
    )


def bad(r):
    return r["verdict"] not in ("same", "varies", "-")


def summary(rows):
    timed = [r for r in rows if "ratio" in r]
    count = lambda *kinds: sum(r["verdict"] in kinds for r in rows)
    text = (
        f"{len(rows)} programs: {count('same')} print the same, {count('varies')} vary natively, "
        f"{count('FAIL', 'DIFF')} do not, {count('-')} fail natively"
    )
    if timed:
        middle = statistics.geometric_mean([r["ratio"] for r in timed])
        text += f"; {sum(r['within'] for r in timed)} of {len(timed)} within the bar, "
        text += f"ratios' mean {middle:.3f}"
    return text


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--dist", default="dist")
    p.add_argument("--wheels", help="folder of wheels for what this machine lacks")
    p.add_argument("--sites", help="folder of environments that programs have of their own")
    p.add_argument("--only", nargs="*", default=[], help="names to run (regular expressions)")
    p.add_argument("--part", default="1/1", help="K/N: every Nth program, beginning with the Kth")
    p.add_argument("--rounds", type=int, default=2, help="timed runs on each side")
    p.add_argument("--jobs", type=int, default=1, help="programs at once; times are then rough")
    p.add_argument("--no-times", action="store_true", help="two native runs, one remote, no times")
    p.add_argument("--minutes", type=float, help="no program begins after this time")
    p.add_argument("--link", default="vmxnet3-10g", help="emulated network; '' for none")
    p.add_argument("--rate", type=float, default=4.75, help="of that network, in Gb/s")
    p.add_argument("--port", type=int, default=7413)
    p.add_argument("--json")
    p.add_argument("--logs", help="folder for the output of what does not print the same")
    p.add_argument("--merge", nargs="+", metavar="JSON", help="show the rows of these runs as one")
    a = p.parse_args()
    if a.jobs > 1 and not a.no_times:
        print(f"# {a.jobs} at once: these times only show which programs to look at", flush=True)
    if a.merge:
        rows = [r for f in a.merge for r in json.loads(pathlib.Path(f).read_text())["rows"]]
        rows = sorted({r["name"]: r for r in rows}.values(), key=lambda r: r["name"])
        print("\n".join([HEAD, *map(told, rows), summary(rows)]))
        if a.json:
            pathlib.Path(a.json).write_text(json.dumps({"rows": rows}, indent=1))
        return
    names = sorted(f.stem for f in (HERE / "users").glob("*.py"))
    names = [n for n in names if not a.only or any(re.fullmatch(o, n) for o in a.only)]
    packed = {n: pathlib.Path(a.sites or "/none") / f"{site}.txz" for n, site in SITES.items()}
    lacking = [n for n in names if n in packed and not packed[n].exists()]
    names = [n for n in names if n not in lacking]
    if lacking:
        print("# without an environment, see fetch_site.py:", " ".join(lacking), flush=True)
    part, parts = map(int, a.part.split("/"))
    names = names[part - 1::parts]
    began = time.monotonic()
    work = pathlib.Path(tempfile.mkdtemp(prefix="busbar-users-"))
    site, logs = work / "site", pathlib.Path(a.logs or work / "logs")
    logs.mkdir(parents=True, exist_ok=True)
    if a.wheels:
        print("# from the wheels:", " ".join(install(a.wheels, site)) or "nothing", flush=True)
    rows = []

    def one(name):
        if a.minutes and time.monotonic() - began > a.minutes * 60:
            return None
        words = [sys.executable, str(HERE / "users" / f"{name}.py")]
        own = site
        if name in packed:
            (work / name).mkdir()
            own = unpack(packed[name], work / name)
        env = {side: surroundings(side, work, own) for side in ("native", "remote")}
        env["remote"].update(BUSBAR_STATS="1", BUSBAR_LOG=f"warn:{logs}/{name}.client.log")
        if name in COLLECTIVES:
            env["remote"]["BUSBAR_NCCL"] = "1"
        command = {"native": server.native() + words, "remote": server.prefix() + words}
        results = {"native": [], "remote": []}
        orders = [("native", "remote")]
        if a.no_times:
            orders.append(("native",))
        else:
            # Whoever runs second in one round runs first in the next.
            orders += [("native", "remote")[:: 1 if i % 2 else -1] for i in range(a.rounds)]
        for order in orders:
            for side in order:
                # A program that hangs remotely shall not take the others' time.
                before = [r["seconds"] for r in results["native"]]
                limit = min(LIMIT, 60 + 5 * before[0]) if before else LIMIT
                results[side].append(run(command[side], limit, env[side]))
            if results["native"][0]["rc"] != 0:
                break
        row = row_of(name, *results.values(), not a.no_times, a.rate)
        if row["verdict"] != "same":
            text = []
            for side, more in results.items():
                for i, r in enumerate(more):
                    text += [f"== {side} {i}: {r['rc']}", r["out"][-20000:], r["err"][-9000:]]
            (logs / f"{name}.txt").write_text("\n".join(text))
        return row

    halves = not a.no_times
    with Remote(a.dist, a.port, work, logs / "serve.log", link=a.link, halves=halves) as server:
        print(HEAD, flush=True)
        with concurrent.futures.ThreadPoolExecutor(a.jobs) as pool:
            for future in concurrent.futures.as_completed([pool.submit(one, n) for n in names]):
                row = future.result()
                if row is None:
                    continue
                rows.append(row)
                print(told(row), flush=True)
                if a.json:
                    # As they come: a run that is cut short has told what it saw.
                    pathlib.Path(a.json).write_text(json.dumps({"link": a.link, "rows": rows}))
    left = len(names) - len(rows)
    print(summary(rows) + (f"; {left} not begun in time" if left else ""))
    sys.exit(1 if any(map(bad, rows)) else 0)


main()
