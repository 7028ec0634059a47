"""PyTorch programs on this machine's GPU, natively and through Busbar, side by side.

    python3 testing/gpu/demo.py [--dist dist] [--python PYTHON]

Where a mount namespace can be made (root), the programs that run through Busbar cannot see the
driver at all; elsewhere their own counters show that they went through Busbar. The exit status is 1
when an output differs or did not come through Busbar.
"""

import argparse
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

from remote import Remote

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = [
    ("the first things anybody tries", ["smoke.py"]),
    ("50 training steps of a small ResNet", ["train.py", "50", "fp32"]),
]
LIMIT = 300


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def run(command, **env):
    """Its exit status, its lines that are compared, its stderr, and its seconds."""
    start = time.monotonic()
    try:
        r = subprocess.run(
            command, capture_output=True, text=True, timeout=LIMIT, env=dict(os.environ, **env)
        )
    except subprocess.TimeoutExpired:
        return f"no end within {LIMIT} s", [], "", float(LIMIT)
    lines = [line for line in r.stdout.splitlines() if not line.startswith("#")]
    return r.returncode, lines, r.stderr, time.monotonic() - start


def counters(err):
    for line in err.splitlines():
        if line.startswith("busbar-stats: "):
            return json.loads(line.split(" ", 1)[1])
    return {}


def shown(line):
    """A line with exact floats, as a person reads them."""
    words = []
    for word in line.split():
        is_exact = word.lstrip("-").startswith("0x")
        words.append(f"{float.fromhex(word):.6f}" if is_exact else word)
    return " ".join(words)


def compare(name, command, prefix):
    """Runs a program both ways, says what came of it, and whether it was the same."""
    print(f"\n  {name}\n    natively ...", flush=True)
    rc, native, err, native_s = run(command)
    if rc != 0:
        print(f"    fails natively ({rc}): {(err.strip().splitlines() or ['no message'])[-1]}")
        return False
    print(f"    natively {native_s:.1f} s; through Busbar ...", flush=True)
    remote_rc, remote, err, remote_s = run(prefix + command, BUSBAR_STATS="1")
    stats = counters(err)
    print(f"    {'line':<5} {'natively':<40} {'through Busbar':<40}")
    rows = list(zip(native, remote))
    for i, (a, b) in enumerate(rows):
        same = a == b
        if not same or i < 3 or i >= len(rows) - 3:
            print(f"    {i + 1:<5} {shown(a)[:39]:<40} {shown(b)[:39]:<40} "
                  f"{'equal' if same else 'DIFFERS'}")
        elif i == 3:
            print("    ...")
    why = ""
    if remote_rc != 0:
        last = [x for x in err.splitlines() if x and not x.startswith("busbar-stats")]
        why = f"exit {remote_rc} through Busbar: {(last or ['no message'])[-1]}"
    elif not stats.get("calls"):
        why = "the second run did not go through Busbar"
    elif native != remote:
        why = f"{len(native)} lines natively, {len(remote)} through Busbar, and not the same"
    if why:
        print(f"    FAILED: {why}")
        return False
    print(f"    all {len(native)} lines equal, bit for bit; {native_s:.1f} s natively, "
          f"{remote_s:.1f} s through Busbar:\n    {stats['calls']} calls, of which "
          f"{stats['round_trips']} waited for an answer")
    return True


def main():
    p = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    p.add_argument("--dist", default="dist", help="tree that `cargo xtask dist` makes")
    p.add_argument("--python", default="python3", help="an interpreter that has PyTorch")
    a = p.parse_args()
    unshared = subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode == 0
    with tempfile.TemporaryDirectory(prefix="busbar-demo-") as work:
        log = pathlib.Path(work) / "server.log"
        with Remote(a.dist, free_port(), work, log) as remote:
            prefix = remote.prefix()
            if unshared:
                print(f"  a Busbar server listens on {remote.server}; its clients see no driver")
            else:
                prefix = prefix[prefix.index(str(remote.busbar)):]
                print(f"  a Busbar server listens on {remote.server}; the driver stays in sight "
                      "of its clients (to hide it takes root),\n  and their counters show that "
                      "they went through Busbar")
            good = 0
            for name, (file, *args) in PROGRAMS:
                command = [a.python, str(HERE / "programs" / file), *args]
                good += compare(name, command, prefix)
    print(f"\n  {good} of {len(PROGRAMS)} programs give the same output through Busbar as natively")
    sys.exit(good != len(PROGRAMS))


if __name__ == "__main__":
    main()
