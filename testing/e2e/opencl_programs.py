#!/usr/bin/env python3
"""Unmodified OpenCL programs, natively and through Busbar on the same device, side by side.

    python3 testing/e2e/opencl_programs.py [--dist dist] [--quick | --full] [--only NAME ...] [--json FILE]

Installs what is missing (testing/e2e/opencl_setup.sh), starts a server on this machine, and runs every
program twice. A program passes when both runs exit alike and print the same result, and the second one
did go through Busbar. The exit status is 1 when any did not. Compiled kernels stay in .cache, so that
later runs are quick.
"""

import argparse
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CACHE = ROOT / ".cache"
PYTHON = ROOT / ".venv/bin/python"
PROGRAMS = HERE / "programs"
TTY = sys.stdout.isatty()


def paint(code, text):
    return f"\033[{code}m{text}\033[0m" if TTY and "NO_COLOR" not in os.environ else text


def say(text=""):
    print(text, flush=True)


class Program:
    """One program: its command, which of its lines are its result, and how to show that in a table."""

    def __init__(self, name, command, *, limit=120, env=None, lines=None, show=None, live=False):
        self.name, self.command, self.limit = name, [str(c) for c in command], limit
        self.env, self.live = env or {}, live
        self.lines = lines or (lambda out: [x for x in out.splitlines() if not x.startswith("#")])
        self.show = show or (lambda lines: lines[0] if lines else "nothing")


# ---------------------------------------------------------------- what is compared


# What cannot be equal: memory shared with the host and host functions are refused through Busbar, and the
# rest is memory that happens to be free.
CLINFO_MAY_DIFFER = ("_EXTENSIONS", "CL_DEVICE_SVM_CAPABILITIES", "CL_DEVICE_EXECUTION_CAPABILITIES",
                     "CL_DEVICE_COMMAND_BUFFER", "CL_DEVICE_GLOBAL_MEM_SIZE", "CL_DEVICE_MAX_MEM_ALLOC_SIZE")


def clinfo_lines(out):
    return [line for line in out.splitlines()
            if not line.startswith("   ") and not any(word in line for word in CLINFO_MAY_DIFFER)]


def matching(*patterns):
    return lambda out: [x for x in out.splitlines() if any(re.search(p, x) for p in patterns)]


def clpeak_lines(out):
    """What it measured, without the figures, which differ from run to run."""
    rows = re.findall(r"^\s*([\w ./()-]+?)\s*:\s*[\d.]+(?: us)?\s*$", out, re.M)
    return [f"{len(rows)} figures"] + rows if rows else []


def hashcat_speed_lines(out):
    """That the self-test passed and a speed was found; not the speed."""
    modes = re.findall(r"^\* (Hash-Mode .*)$", out, re.M)
    return modes + ["speed measured"] * len(re.findall(r"^Speed\.#\d+\.*:\s+[\d.]+ \w?H/s", out, re.M))


def clblast_lines(out):
    """Passed, skipped and failed tests, without colours and the name of the device."""
    plain = re.sub(r"\x1b\[[\d;]*m", "", out)
    return [x.strip() for x in plain.splitlines() if re.search(r"passed|failed|Testing", x)]


def ffmpeg_command():
    """Two OpenCL filters over a generated video, down to the MD5 of every pixel."""
    filters = "format=yuv420p,hwupload,avgblur_opencl=3,unsharp_opencl=lx=5:ly=5,hwdownload,format=yuv420p"
    return ["ffmpeg", "-hide_banner", "-loglevel", "error", "-init_hw_device", "opencl=d:0.0", "-filter_hw_device",
            "d", "-f", "lavfi", "-i", "testsrc=size=640x360:rate=10:duration=3", "-vf", filters, "-f", "md5", "-"]


def tinygrad_program(steps):
    env = {"DEV": "CL", "TRAINING": "1"}
    return Program("tinygrad ResNet", [PYTHON, PROGRAMS / "tinygrad_resnet.py", steps], limit=480, env=env,
                   show=lambda lines: f"{sum('loss' in x for x in lines)} losses, last "
                   f"{[x for x in lines if 'loss' in x][-1].split()[-1]}" if lines else "nothing", live=True)


def programs(args, work):
    """The programs of this run, and what cannot run with the reason."""
    chosen, absent = [], []
    chosen.append(Program("clinfo", ["clinfo", "--raw"], env={"BUSBAR_DEVICE_NAMES": "plain"},
                          lines=clinfo_lines, show=lambda lines: f"{len(lines)} facts"))
    for name, title in (("opencl_nbody", "n-body in C"), ("opencl_features", "every call family")):
        exe = work / name
        built = subprocess.run(["gcc", "-O1", "-Wno-deprecated-declarations", "-o", exe, PROGRAMS / f"{name}.c",
                                "-lOpenCL", "-lpthread", "-lm"], capture_output=True, text=True)
        if built.returncode:
            absent.append((title, "does not compile: " + (built.stderr.strip().splitlines() or ["?"])[0]))
            continue
        def first(lines):
            return lines[0].split(", ")[-1] if lines else "nothing"
        chosen.append(Program(title, [exe], show=first if name == "opencl_nbody" else
                              lambda lines: f"{len(lines)} lines"))
    chosen.append(Program("pyopencl matmul", [PYTHON, PROGRAMS / "opencl_matmul.py", 512],
                          show=lambda lines: "sum " + lines[0].split()[-1] if lines else "nothing"))
    chosen.append(tinygrad_program(3 if args.quick else 10))
    if not args.full:
        return chosen, absent
    if shutil.which("hashcat"):
        secret = hashlib.md5(b"zebra7").hexdigest()
        for turn in ("", " again"):
            chosen.append(Program("hashcat -m0" + turn,
                                  ["hashcat", "-m0", "-a3", "-D", "1", "--potfile-disable", "--force",
                                   "--session", "busbar", secret, "?l?l?l?l?l?d"],
                                  limit=180, lines=matching(r"^[0-9a-f]{32}:", r"^Status\."),
                                  show=lambda lines: lines[0].split(":")[-1] if lines else "nothing"))
    else:
        absent.append(("hashcat", "not installed"))
    if shutil.which("hashcat"):
        chosen.append(Program("hashcat benchmark", ["hashcat", "-b", "-m", "0", "-D", "1", "--force"], limit=300,
                              lines=hashcat_speed_lines, show=lambda lines: lines[-1] if lines else "nothing"))
    if shutil.which("clpeak"):
        chosen.append(Program("clpeak", ["clpeak", "--kernel-latency", "--transfer-bandwidth"], limit=600,
                              lines=clpeak_lines))
    else:
        absent.append(("clpeak", "not installed"))
    if shutil.which("clblast_test_xaxpy"):
        # Checks its results against a reference implementation, argument errors included.
        chosen.append(Program("CLBlast xAXPY", ["clblast_test_xaxpy", "-n", "4096"], limit=240,
                              lines=clblast_lines, show=lambda lines: lines[-1] if lines else "nothing"))
    else:
        absent.append(("CLBlast xAXPY", "not installed"))
    if shutil.which("ffmpeg"):
        chosen.append(Program("ffmpeg filters", ffmpeg_command(), limit=240))
    else:
        absent.append(("ffmpeg filters", "not installed"))
    exe = work / "viennacl_cg"
    if subprocess.run(["g++", "-O1", "-w", "-o", exe, PROGRAMS / "viennacl_cg.cpp", "-lOpenCL"],
                      capture_output=True).returncode == 0:
        chosen.append(Program("ViennaCL CG", [exe], show=lambda lines: lines[0].split(", ")[1] if lines else "-"))
    else:
        absent.append(("ViennaCL CG", "its headers are not installed"))
    if subprocess.run([PYTHON, "-c", "import lightgbm"], capture_output=True).returncode == 0:
        chosen.append(Program("LightGBM", [PYTHON, PROGRAMS / "lightgbm_gpu.py"], limit=180))
    else:
        absent.append(("LightGBM", "not installed"))
    return chosen, absent


# ---------------------------------------------------------------- running


def run(command, limit, env, on_line=None):
    """Runs to the end or to the limit; calls back with each line of the output as it comes."""
    start = time.monotonic()
    with tempfile.TemporaryFile("w+") as err:
        try:
            child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=err, text=True, env=env,
                                     errors="replace", stdin=subprocess.DEVNULL, start_new_session=True)
        except OSError as e:
            return {"rc": str(e), "out": "", "err": str(e), "seconds": 0.0}
        late = threading.Event()

        def stop():
            late.set()
            os.killpg(child.pid, signal.SIGKILL)

        timer = threading.Timer(limit, stop)
        timer.start()
        out = []
        try:
            for line in child.stdout:
                out.append(line)
                if on_line:
                    on_line(line.rstrip("\n"))
            rc = child.wait()
        except BaseException:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            raise
        finally:
            timer.cancel()
        err.seek(0)
        return {"rc": f"no end within {limit} s" if late.is_set() else rc, "out": "".join(out),
                "err": err.read(), "seconds": time.monotonic() - start}


class Steps:
    """Shows a training run's steps as they come; the second run's beside the first's."""

    def __init__(self, first=None):
        self.first, self.rows, self.loss = first, [], None
        self.start = time.monotonic()

    def __call__(self, line):
        if m := re.match(r"step (\d+) loss (\S+)", line):
            self.loss = m[2]
        elif m := re.match(r"# ([\d.]+) s$", line):
            if self.loss is None:
                return
            i = len(self.rows)
            self.rows.append((self.loss, float(m[1])))
            if self.first is None:
                slow = "  (preparing kernels)" if float(m[1]) > 5 else ""
                say(f"    step {i + 1:>2}   loss {self.loss:<20} {m[1]:>8} s{slow}")
            else:
                loss, seconds = self.first[i] if i < len(self.first) else ("none", 0.0)
                same = paint(32, "equal") if loss == self.loss else paint(31, "DIFFERS")
                say(f"    step {i + 1:>2}   {loss:<20} {self.loss:<20} {seconds:>8.3f} s {m[1]:>8} s  {same}")
            self.loss = None


def stats_of(err):
    for line in err.splitlines():
        if line.startswith("busbar-stats: "):
            return json.loads(line.split(" ", 1)[1])
    return {}


def verdict(program, native, remote, stats):
    if native["rc"] != 0:
        return False, f"fails natively ({native['rc']}): " + last_line(native["err"])
    if remote["rc"] != native["rc"]:
        return False, f"exit {native['rc']} natively, {remote['rc']} through Busbar: " + last_line(remote["err"])
    if not stats.get("calls"):
        return False, "the second run did not go through Busbar"
    a, b = program.lines(native["out"]), program.lines(remote["out"])
    if not a:
        return False, "it printed no result"
    for x, y in zip(a + [""] * (len(b) - len(a)), b + [""] * (len(a) - len(b))):
        if x != y:
            return False, f"natively {x!r}, through Busbar {y!r}"[:300]
    return True, ""


def last_line(text):
    lines = [x for x in text.splitlines() if x.strip() and not x.startswith("busbar")]
    return lines[-1][:200] if lines else "no message"


def compare(program, base, server_prefix, native_prefix=()):
    """Both runs of one program."""
    def env(side):
        # What a program keeps on disk must not let one run answer for the other.
        home = CACHE / side
        home.mkdir(parents=True, exist_ok=True)
        return dict(base, XDG_CACHE_HOME=str(home), PYOPENCL_NO_CACHE="1", **program.env)

    heading = None
    if program.live:
        say(f"\n  {program.name}, natively (the first run ever compiles kernels for a minute or two)")
        heading = Steps()
    native = run([*native_prefix, *program.command], program.limit, env("native"), heading)
    second = None
    if program.live:
        say(f"\n  {program.name}, through Busbar\n    {'step':<7}   {'loss natively':<20} "
            f"{'loss through Busbar':<20} {'natively':>10} {'Busbar':>10}")
        second = Steps(heading.rows)
    remote = run(server_prefix + program.command, program.limit, dict(env("busbar"), BUSBAR_STATS="1"), second)
    stats = stats_of(remote["err"])
    ok, why = verdict(program, native, remote, stats)

    def shown(r):
        lines = program.lines(r["out"])
        try:
            return program.show(lines)
        except IndexError:
            return "?"

    row = {"name": program.name, "ok": ok, "why": why, "native": shown(native), "remote": shown(remote),
           "native_s": round(native["seconds"], 3), "remote_s": round(remote["seconds"], 3),
           "calls": stats.get("calls"), "round_trips": stats.get("round_trips")}
    if second is not None:
        row["steps"] = [{"native_loss": a[0], "loss": b[0], "native_s": a[1], "s": b[1]}
                        for a, b in zip(heading.rows, second.rows)]
    if not ok:
        folder = CACHE / "failed"
        folder.mkdir(exist_ok=True)
        log = folder / (re.sub(r"\W+", "-", program.name) + ".txt")
        log.write_text(f"{program.command}\n== natively\n{native['out']}{native['err']}\n"
                       f"== through Busbar\n{remote['out']}{remote['err']}\n")
        row["log"] = str(log)
    return row


def start_server(dist, env, flags=()):
    """A server on a free port. Returns it and its address, or ends this program with its message."""
    log = open(CACHE / "serve.log", "w")
    server = subprocess.Popen([dist / "bin/busbar", "serve", "--listen", "127.0.0.1:0", "--api", "opencl",
                               "--cache-dir", CACHE / "server", *flags], stdout=subprocess.PIPE, stderr=log, text=True,
                              env=env)
    for line in server.stdout:
        if line.startswith("busbar: listening on "):
            address = line.split()[-1]
            threading.Thread(target=lambda: [None for _ in server.stdout], daemon=True).start()
            return server, address
    server.wait()
    sys.exit(f"the server did not start: {last_line((CACHE / 'serve.log').read_text())}")


def table(rows):
    def cut(text, width):
        return text if len(text) <= width else text[:width - 1] + "…"

    say(f"\n  {'program':<18} {'result natively':<26} {'result through Busbar':<26} {'native':>8} {'Busbar':>8} "
        f"{'calls':>7} {'trips':>6}")
    for r in rows:
        mark = paint(32, "equal") if r["ok"] else paint(31, "DIFFERS")
        say(f"  {r['name']:<18} {cut(r['native'], 26):<26} {cut(r['remote'], 26):<26} {r['native_s']:>6.1f} s "
            f"{r['remote_s']:>6.1f} s {r['calls'] or 0:>7} {r['round_trips'] or 0:>6}  {mark}")
    for r in rows:
        if not r["ok"]:
            say(f"\n  {r['name']}: {r['why']}\n    (all output: {r['log']})")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--dist", default=str(ROOT / "dist"), help="tree that `cargo xtask dist` makes")
    p.add_argument("--quick", action="store_true", help="fewer training steps, for CI")
    p.add_argument("--full", action="store_true", help="also hashcat, clpeak, CLBlast, ffmpeg, ViennaCL and LightGBM")
    p.add_argument("--only", nargs="+", default=[], metavar="NAME", help="programs whose name has this in it")
    p.add_argument("--json", metavar="FILE", help="write the results there too")
    p.add_argument("--no-setup", action="store_true", help="install nothing")
    args = p.parse_args()
    dist = pathlib.Path(args.dist).resolve()
    if not (dist / "bin/busbar").exists():
        sys.exit(f"{dist} holds no bin/busbar; ./demo builds one")
    if not args.no_setup:
        setup = [HERE / "opencl_setup.sh"] + [f for f in ("--quick", "--full") if getattr(args, f[2:])]
        if subprocess.run(setup).returncode:
            sys.exit(1)
    CACHE.mkdir(exist_ok=True)
    base = dict(os.environ, POCL_CACHE_DIR=str(CACHE / "pocl"), PYTHONUNBUFFERED="1")
    for name in [n for n in base if n.startswith(("BUSBAR_", "OCL_ICD_", "PYOPENCL_"))]:
        del base[name]
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="busbar-opencl-") as work:
        chosen, absent = programs(args, pathlib.Path(work))
        chosen = [c for c in chosen if not args.only or any(o in c.name for o in args.only)]
        server, address = start_server(dist, base)
        try:
            say(f"\n  a Busbar server listens on {address}; each program runs natively, then through it")
            prefix = [str(dist / "bin/busbar"), "run", "--server", address, "--"]
            rows = []
            for program in chosen:
                if not program.live:
                    say(f"  {program.name} ...")
                rows.append(compare(program, base, prefix))
        finally:
            server.terminate()
            try:
                server.wait(10)
            except subprocess.TimeoutExpired:
                server.kill()
    table(rows)
    for name, why in absent:
        say(f"  {name:<18} left out: {why}")
    bad = sum(not r["ok"] for r in rows) + sum("compile" in why for _, why in absent)
    good = f"{sum(r['ok'] for r in rows)} of {len(rows)} programs give the same result through Busbar as natively"
    say(f"\n  {paint(31 if bad else 32, good)} ({time.monotonic() - start:.0f} s)")
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps({"rows": rows, "absent": absent}, indent=1) + "\n")
    sys.exit(1 if bad or not rows else 0)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
