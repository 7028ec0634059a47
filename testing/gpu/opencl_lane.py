"""OpenCL programs on this machine's own platform (NVIDIA's, say), natively and through Busbar.

    python3 testing/gpu/opencl_lane.py --dist dist [--python PY] [--carry DIR] [--only NAME ...]
                                       [--json FILE]
    python3 testing/gpu/opencl_lane.py --pack DIR

Installs nothing. PY needs numpy and pyopencl; with tinygrad and pytest there is more to run. A
machine with a driver but without a loader (`libOpenCL.so.1`) or a C compiler gets both from DIR,
which --pack fills on a machine that has them: the loader, the C programs of testing/e2e/programs,
compiled, and the pyopencl tests if --tests names their folder (`test` in pyopencl's source
package). Takes about a minute; with the pyopencl tests, which run natively and remotely at the same
time, a few.
"""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import opencl_programs as e2e  # noqa: E402
import side_by_side as sides  # noqa: E402

C_PROGRAMS = {"opencl_nbody": "n-body in C", "opencl_features": "every call family"}


def compile_into(folder):
    """Compiles the C programs. Returns the names of those that could not be."""
    return [name for name in [*C_PROGRAMS, "opencl_rates"]
            if e2e.compile_c(f"{name}.c", folder / name, "-Wno-deprecated-declarations")]


def system_loader():
    listed = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True).stdout
    found = re.search(r"libOpenCL\.so\.1 \(.*x86-64.*\) => (\S+)", listed)
    return found and found[1]


def pack(folder, tests):
    folder.mkdir(parents=True, exist_ok=True)
    if missing := compile_into(folder):
        sys.exit(f"does not compile here: {', '.join(missing)}")
    loader = system_loader() or sys.exit("there is no libOpenCL.so.1 here")
    shutil.copy(loader, folder / "libOpenCL.so.1")
    if tests:
        shutil.copytree(tests, folder / "pyopencl-tests", dirs_exist_ok=True)
    print(f"{folder}: {', '.join(sorted(p.name for p in folder.iterdir()))}")


def has(python, module):
    return subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode == 0


def programs(python, folder):
    """The programs of this run, and what cannot run with the reason."""
    script = e2e.PROGRAMS
    chosen = [
        sides.Program("device facts", [python, script / "opencl_info.py"],
                      show=lambda x: f"{len(x)} facts"),
        sides.Program("pyopencl matmul", [python, script / "opencl_matmul.py", 1024]),
    ]
    absent = []
    for name, title in C_PROGRAMS.items():
        if (folder / name).exists():
            chosen.append(sides.Program(title, [folder / name], show=lambda x: f"{len(x)} lines"))
        else:
            absent.append((title, "not compiled: no gcc with OpenCL's headers, nothing carried"))
    if has(python, "tinygrad"):
        command = [python, script / "tinygrad_resnet.py", 10]
        chosen.append(sides.Program("tinygrad ResNet", command, limit=240, show=sides.losses,
                                    env={"DEV": "CL", "TRAINING": "1"}))
    else:
        absent.append(("tinygrad ResNet", "not installed"))
    return chosen, absent


def outcomes(report):
    """Each test's outcome, from what `pytest -rA` prints."""
    line = r"^(PASSED|FAILED|ERROR|XFAIL|XPASS) (\S+::\S+)"
    return {m[2]: m[1] for m in re.finditer(line, report, re.M)}


def test_suite(python, tests, base, prefix, limit):
    """pyopencl's own tests, both ways at once. Returns a row of the table."""
    command = [python, "-m", "pytest", "-q", "-rA", "--tb=line", "-p", "no:cacheprovider",
               str(tests)]
    runs = {}

    def go(side, prefix):
        with tempfile.TemporaryDirectory() as home:
            env = dict(base, XDG_CACHE_HOME=home, BUSBAR_STATS="1")
            runs[side] = sides.run(prefix + command, limit, env)

    threads = [threading.Thread(target=go, args=a) for a in (("native", []), ("busbar", prefix))]
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


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--dist", type=pathlib.Path, default=e2e.ROOT / "dist",
                   help="tree of `cargo xtask dist`")
    p.add_argument("--python", default=sys.executable, help="Python with numpy and pyopencl")
    p.add_argument("--carry", type=pathlib.Path, metavar="DIR", help="what --pack made")
    p.add_argument("--pack", type=pathlib.Path, metavar="DIR",
                   help="fill DIR for another machine, and end")
    p.add_argument("--tests", type=pathlib.Path, metavar="DIR",
                   help="pyopencl's tests, to pack or to run")
    p.add_argument("--only", nargs="+", default=[], metavar="NAME",
                   help="programs with this in their name")
    p.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write the results there too")
    p.add_argument("--limit", type=int, default=500, help="seconds for pyopencl's tests")
    args = p.parse_args()
    if args.pack:
        return pack(args.pack, args.tests)
    if not has(args.python, "pyopencl"):
        sys.exit(f"{args.python} has no pyopencl")
    base = sides.environment(PYOPENCL_CTX="0")
    loader = []
    carry = args.carry and args.carry.resolve()
    if not system_loader():
        if not (carry and (carry / "libOpenCL.so.1").exists()):
            sys.exit("there is no libOpenCL.so.1 here, nor in --carry")
        loader = ["--opencl-library", carry / "libOpenCL.so.1"]
        base["LD_LIBRARY_PATH"] = f"{carry}:{base.get('LD_LIBRARY_PATH', '')}".rstrip(":")

    def chosen(name):
        return not args.only or any(o in name for o in args.only)

    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="busbar-opencl-") as work:
        folder = pathlib.Path(work)
        for name in compile_into(folder):
            if carry and (carry / name).exists():
                folder.joinpath(name).unlink(missing_ok=True)
                folder.joinpath(name).symlink_to(carry / name)
        run, absent = programs(args.python, folder)
        with sides.Server(args.dist, base, "opencl", loader) as server:
            rows = sides.compare_all([c for c in run if chosen(c.name)], base, server.prefix())
            tests = args.tests or (carry and carry / "pyopencl-tests")
            wanted = chosen("pyopencl's tests")
            if tests and tests.exists() and wanted and has(args.python, "pytest"):
                rows.append(test_suite(
                    args.python, tests.resolve(), base, server.prefix(), args.limit))
    sides.report(rows, absent, time.monotonic() - begun, args.json)


if __name__ == "__main__":
    sides.start(main)
