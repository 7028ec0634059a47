"""OpenCL programs on this machine's own OpenCL platforms, natively and through Busbar.

    python3 testing/gpu/opencl_lane.py --dist dist [--python PY] [--carry DIR] [--only NAME ...]
                                       [--json FILE]
    python3 testing/gpu/opencl_lane.py --pack DIR [--tests DIR]

Every driver of the machine is a platform of its own here, NVIDIA's first: those that
/etc/OpenCL/vendors names, and NVIDIA's if it can be loaded, for containers often have the driver
and nothing that names it. The server and the native runs are told of one at a time. The runs
through Busbar use whatever loader the machine has, or none; the native ones need a loader that can
be told, and use DIR's when the machine's cannot.

Installs nothing. With pyopencl and numpy in PY there is more to run than programs in C, with mako,
tinygrad and pytest still more. PYTHONPATH may name a folder that has them. DIR is for a machine
without a loader, a C compiler or the programs, and --pack fills it on a machine that has them.
About a minute for a platform; with --suite, which runs pyopencl's own tests natively and remotely
at the same time, some more.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import opencl_programs as e2e  # noqa: E402
import side_by_side as sides  # noqa: E402

INSTALLED = ("clinfo", "clpeak")
C_PROGRAMS = {
    "opencl_nbody": "n-body in C",
    "opencl_features": "every call family",
    "opencl_corners": "calls at the edge",
}
WATER = pathlib.Path(__file__).resolve().parent / "users/openmm_water.py"


def compile_into(folder):
    """Compiles the C programs. Returns the names of those that could not be."""
    return [name for name in [*C_PROGRAMS, "opencl_rates"]
            if e2e.compile_c(f"{name}.c", folder / name, "-Wno-deprecated-declarations")]


def system_loader():
    listed = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True).stdout
    found = re.search(r"libOpenCL\.so\.1 \(.*x86-64.*\) => (\S+)", listed)
    return found and pathlib.Path(found[1])


def can_be_told(loader):
    """Whether a loader looks at OCL_ICD_VENDORS."""
    return bool(loader) and loader.exists() and b"OCL_ICD_VENDORS" in loader.read_bytes()


def pack(folder, tests):
    folder.mkdir(parents=True, exist_ok=True)
    if missing := compile_into(folder):
        sys.exit(f"does not compile here: {', '.join(missing)}")
    loader = system_loader()
    if not can_be_told(loader):
        sys.exit("there is no libOpenCL.so.1 here that knows OCL_ICD_VENDORS")
    shutil.copy(loader, folder / "libOpenCL.so.1")
    for name in INSTALLED:
        if path := shutil.which(name):
            shutil.copy(path, folder / name)
    if tests:
        shutil.copytree(tests, folder / "pyopencl-tests", dirs_exist_ok=True)
    print(f"{folder}: {', '.join(sorted(p.name for p in folder.iterdir()))}")


def drivers():
    """The drivers of this machine that can be loaded, NVIDIA's first: a name and a library each."""
    listed = sorted(pathlib.Path("/etc/OpenCL/vendors").glob("*.icd"))
    named = {f.stem: f.read_text().strip() for f in listed}
    if not any("nvidia" in text for text in named.values()):
        named["nvidia"] = "libnvidia-opencl.so.1"

    def loads(library):
        script = f"import ctypes; ctypes.CDLL({library!r})"
        return subprocess.run([sys.executable, "-c", script], capture_output=True).returncode == 0

    found = {name: library for name, library in named.items() if loads(library)}
    return dict(sorted(found.items(), key=lambda item: "nvidia" not in item[1]))


def has(python, module):
    return subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode == 0


def as_the_standard(out):
    """The lines of a C program, but for those where NVIDIA's driver strays from the standard and
    Busbar does not follow.

    It lets a user event be set twice or to a queue's state, and takes a wait for a failed one for a
    success: Busbar keeps user events itself. It takes ranges beyond a buffer's end, maps and boxes
    of nothing, boxes whose slices overlap or do not fit their rows, a buffer that is larger than
    its memory, and one of which the program's memory is both used and copied; no local memory for
    an argument that is some; and of an argument that the program says nothing of, Busbar does not
    know that it is a buffer.
    """
    strays = (
        "clSetUserEventStatus(gate, CL_COMPLETE)",
        "failed user event: wait",
        "clSetUserEventStatus(user, 1)",
        "clSetKernelArg(add, 0, 4, &one)",
        "clSetKernelArg(groups, 1, 0, NULL)",
        "MADE(clCreateBuffer(context, (1 << 3) | (1 << 5), 16",
        "MADE(clCreateBuffer(context, (1 << 0), ~(size_t)0",
        "MADE(clCreateSubBuffer(b, 0, CL_BUFFER_CREATE_TYPE_REGION, &(cl_buffer_region){0, 4096",
        "map CL_MAP_READ 0 0",
        "clEnqueueReadBufferRect(queue, b, CL_TRUE, at, at, box, 64,",
        "clEnqueueReadBufferRect(queue, b, CL_TRUE, at, at, flat,",
        "clEnqueueCopyBufferRect(queue, b, b, at, at, box",
    )
    return [line for line in sides.uncommented(out) if not line.startswith(strays)]


def programs(python, folder):
    """The programs of this run, and what cannot run with the reason."""
    script = e2e.PROGRAMS
    chosen, absent = [], []

    def add(reason, *program, **more):
        if reason:
            absent.append((program[0], reason))
        else:
            chosen.append(sides.Program(*program, **more))

    lacks = not has(python, "pyopencl") and "Python has no pyopencl"
    add(lacks, "device facts", [python, script / "opencl_info.py"],
        show=lambda x: f"{len(x)} facts")
    for name, title in C_PROGRAMS.items():
        gone = not (folder / name).exists()
        add(gone and "not compiled: no gcc with OpenCL's headers, nothing carried",
            title, [folder / name], lines=as_the_standard, show=lambda x: f"{len(x)} lines")
    add(lacks or not has(python, "mako") and "Python has no mako", "pyopencl matmul",
        [python, script / "opencl_matmul.py", 1024],
        show=lambda x: "sum " + x[0].split()[-1] if x else "nothing")
    paths = {name: shutil.which(name) or str(folder / name) for name in INSTALLED}
    gone = {name: not os.path.exists(paths[name]) and "not installed" for name in INSTALLED}
    add(gone["clinfo"], "clinfo", [paths["clinfo"], "--raw"], env={"BUSBAR_DEVICE_NAMES": "plain"},
        lines=e2e.clinfo_lines, show=lambda x: f"{len(x)} facts")
    add(gone["clpeak"], "clpeak", [paths["clpeak"], "--kernel-latency", "--transfer-bandwidth"],
        limit=240, lines=e2e.clpeak_lines)
    add(not has(python, "openmm") and "Python has no openmm", "OpenMM: a box of water",
        [python, WATER, 300, "OpenCL"], limit=120)
    add(not has(python, "tinygrad") and "not installed", "tinygrad ResNet",
        [python, script / "tinygrad_resnet.py", 10], limit=240,
        env={"DEV": "CL", "TRAINING": "1"}, show=sides.losses)
    return chosen, absent


def rates(folder, base, prefix, native_prefix):
    """What testing/e2e/programs/opencl_rates.c measures, both ways."""
    def one(before):
        out = sides.run([*before, str(folder / "opencl_rates")], 60, base)["out"]
        return {k: float(v) for k, v in (line.split() for line in out.splitlines())}

    native, remote = one(native_prefix), one(prefix)
    for name in native:
        sides.say(f"    {name:<18} natively {native[name]:>12}   "
                f"through Busbar {remote.get(name, 'nothing'):>12}")
    return {"native": native, "busbar": remote}


def in_turns(dist, folder, base, flags):
    """What two programs reach in turns, of what one of them does alone in turns with nobody."""
    def run_all(count, prefix):
        command = [*prefix, str(folder / "opencl_rates"), "steady"]
        start = lambda _: sides.run(command, 60, base)["out"].split()
        with concurrent.futures.ThreadPoolExecutor(count) as pool:
            return [float(out[1]) for out in pool.map(start, range(count)) if len(out) == 2]

    with sides.Server(dist, base, "opencl", [*flags, "--turns", "always"]) as server:
        one, two = (run_all(count, server.prefix()) for count in (1, 2))
    if len(one) + len(two) < 3:
        sides.say("    in turns           a program failed")
        return {}
    both = f"{two[0]:.0f} and {two[1]:.0f}: {sum(two) / one[0]:.3f} of one"
    sides.say(f"    kernels/s          alone {one[0]:.0f}, two in turns {both}")
    return {"alone": one[0], "two": two}


def outcomes(report):
    """Each test's outcome, from what `pytest -rA` prints."""
    line = r"^(PASSED|FAILED|ERROR|XFAIL|XPASS) (\S+::\S+)"
    return {m[2]: m[1] for m in re.finditer(line, report, re.M)}


def test_suite(python, tests, base, prefix, native_prefix, limit):
    """pyopencl's own tests, both ways at once. Returns a row of the table."""
    command = [python, "-m", "pytest", "-q", "-rA", "--tb=line", "-p", "no:cacheprovider",
               str(tests)]
    runs = {}

    def go(side, prefix):
        with tempfile.TemporaryDirectory() as home:
            env = dict(base, XDG_CACHE_HOME=home, BUSBAR_STATS="1")
            runs[side] = sides.run(prefix + command, limit, env)

    threads = [threading.Thread(target=go, args=a)
               for a in (("native", list(native_prefix)), ("busbar", prefix))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    native, remote = runs["native"], runs["busbar"]
    a, b = outcomes(native["out"]), outcomes(remote["out"])
    # What cannot span two machines is refused, and the test skips itself.
    differ = [f"{k}: {v} natively, {b.get(k, 'skipped')} through Busbar" for k, v in a.items()
              if b.get(k, "skipped") != v and "fine_grain" not in k]
    stats = sides.stats_of(remote["err"])
    passed = [sum(v == "PASSED" for v in x.values()) for x in (a, b)]
    sides.say("\n".join("    " + d for d in differ))
    ok = not differ and passed[0] > 100 and bool(stats.get("calls"))
    return {"name": "pyopencl's tests", "ok": ok,
            "why": f"{len(differ)} differ" if differ else "too few ran", "log": "above",
            "native": f"{passed[0]} passed", "remote": f"{passed[1]} passed", "differ": differ,
            "native_s": native["seconds"], "remote_s": remote["seconds"],
            "calls": stats.get("calls"), "round_trips": stats.get("round_trips")}


def found_unaided(dist, base, wanted):
    """What a server finds that nobody tells anything. Returns a row of the table."""
    with sides.Server(dist, base, "opencl") as server:
        command = [str(server.busbar), "devices", "--server", server.address]
        shown = sides.run(command, 30, base)
    sides.say("\n".join("    " + line for line in shown["out"].splitlines()))
    missing = [w for w in wanted if w not in shown["out"]]
    return {"name": "unaided server", "ok": not missing, "log": "above",
            "why": f"it did not find {', '.join(missing)}", "native": "-",
            "remote": f"{len(shown['out'].splitlines())} lines", "native_s": 0.0,
            "remote_s": shown["seconds"], "calls": 0, "round_trips": 0}


def one_platform(args, name, library, folder, base, told, carry):
    """Every program on one platform. Returns the rows, what was left out, and the rates."""
    vendors = folder / f"vendors-{name}"
    vendors.mkdir()
    (vendors / f"{name}.icd").write_text(library + "\n")
    # Some loaders put this and a file's name together as they are.
    base = dict(base, OCL_ICD_VENDORS=f"{vendors}/")
    # The program's loader is the machine's through Busbar, and one that can be told natively.
    path = f"{carry}:{base.get('LD_LIBRARY_PATH', '')}".rstrip(":")
    native_prefix = () if told else ("env", f"LD_LIBRARY_PATH={path}")
    flags = () if told else ("--opencl-library", carry / "libOpenCL.so.1")

    def wanted(title):
        return not args.only or any(o in title for o in args.only)

    rows, measured = [], {}
    with sides.Server(args.dist, base, "opencl", flags) as server:
        prefix = server.prefix()
        chosen, absent = programs(args.python, folder)
        for program in filter(lambda c: wanted(c.name), chosen):
            row = sides.compare(program, base, prefix, native_prefix)
            sides.say(f"    {row['name']:<18} {row['native']:<26} {row['remote']:<26} "
                      f"{'equal' if row['ok'] else 'DIFFERS: ' + row['why']}")
            rows.append(row)
        if wanted("rates") and (folder / "opencl_rates").exists():
            measured = rates(folder, base, prefix, native_prefix)
            measured["turns"] = in_turns(args.dist, folder, base, flags)
        tests = args.tests or (carry and carry / "pyopencl-tests")
        if args.suite and tests and tests.exists() and has(args.python, "pytest"):
            rows.append(test_suite(
                args.python, tests.resolve(), base, prefix, native_prefix, args.limit))
    return rows, absent, measured


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--dist", default=e2e.ROOT / "dist", type=pathlib.Path,
                   help="tree of `cargo xtask dist`")
    p.add_argument("--python", default=sys.executable, help="Python with numpy and pyopencl")
    p.add_argument("--carry", type=pathlib.Path, metavar="DIR", help="what --pack made")
    p.add_argument("--pack", type=pathlib.Path, metavar="DIR",
                   help="fill DIR for another machine, and end")
    p.add_argument("--platform", nargs="+", default=[], metavar="NAME",
                   help="drivers with this in their name")
    p.add_argument("--suite", action="store_true", help="run pyopencl's tests, too")
    p.add_argument("--tests", type=pathlib.Path, metavar="DIR",
                   help="pyopencl's tests, to pack or to run")
    p.add_argument("--only", nargs="+", default=[], metavar="NAME",
                   help="programs with this in their name")
    p.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write the results there too")
    p.add_argument("--limit", type=int, default=500, help="seconds for pyopencl's tests")
    args = p.parse_args()
    if args.pack:
        return pack(args.pack, args.tests)
    base = sides.environment(PYOPENCL_CTX="0")
    carry = args.carry and args.carry.resolve()
    told = can_be_told(system_loader())
    if not told and not (carry and can_be_told(carry / "libOpenCL.so.1")):
        sys.exit("there is no libOpenCL.so.1 that knows OCL_ICD_VENDORS, here or in --carry")
    found = drivers()
    knows = "can" if told else "cannot"
    sides.say(f"  loader: {system_loader() or 'none'}, {knows} be told of drivers; "
              f"drivers: {', '.join(found.values()) or 'none'}")
    results = {}
    with tempfile.TemporaryDirectory(prefix="busbar-opencl-") as work:
        folder = pathlib.Path(work)
        for name in [*compile_into(folder), *INSTALLED]:
            if carry and (carry / name).exists():
                folder.joinpath(name).unlink(missing_ok=True)
                folder.joinpath(name).symlink_to(carry / name)
        row = found_unaided(args.dist, base, ["NVIDIA"] if "nvidia" in found else [])
        for name, library in found.items():
            if args.platform and not any(wanted in name for wanted in args.platform):
                continue
            sides.say(f"\n  {library}")
            rows, absent, measured = one_platform(args, name, library, folder, base, told, carry)
            results[name] = {"rows": [row, *rows], "absent": absent, "rates": measured}
            sides.table(results[name]["rows"])
            for title, why in absent:
                sides.say(f"  {title:<18} left out: {why}")
            for failed in (r for r in rows if not r["ok"] and os.path.exists(r["log"])):
                sides.say(f"\n  {failed['name']}: the end of what it printed\n")
                lines = pathlib.Path(failed["log"]).read_text().splitlines()
                sides.say("\n".join([x[:200] for x in lines if not x.startswith("busbar")][-40:]))
            if args.json:
                args.json.write_text(json.dumps(results, indent=1) + "\n")
    everything = [r for result in results.values() for r in result["rows"]]
    sys.exit(not everything or not all(r["ok"] for r in everything))


if __name__ == "__main__":
    sides.start(main)
