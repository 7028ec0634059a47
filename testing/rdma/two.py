"""`busbar fabric check` from one virtual machine of another, whose network is spoiled meanwhile.

    two.py --tree TREE [--cache DIR]

Each has a device of software on a network of its own beside the one that `busbar` talks over. The
second machine does to the first what it takes for each finding, and says what was found; the exit
status says whether each was named, and nothing where nothing is wrong.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__)
ORDERS = 7001
# Where its two servers are reached, of which the second may lock little memory, and where they are,
# since nobody on their own machine is asked for a token.
SERVER, LITTLE = "10.8.0.1:7400", "10.8.0.1:7401"
INSIDE = {SERVER: "127.0.0.1:7400", LITTLE: "127.0.0.1:7401"}
# As root of a container: it may not lock all memory, and not raise the limit of its workers either.
WITHOUT = "-ipc_lock,-sys_resource"
LIMITED = f"setpriv --bounding-set={WITHOUT} --inh-caps={WITHOUT} prlimit --memlock=65536:65536 --"
# What is done to the first machine, what undoes it, which server is checked, and what must be found
# there then.
NARROW = ("ip link set v0 mtu 1500", "ip link set v0 mtu 4200")
DOWN = ("ip link set v0 down", "ip link set v0 up")
FAULTS = (
    (*NARROW, SERVER, ("its MTU is 1500", "same MTU")),
    (*DOWN, SERVER, ("port 1 of rxe0 is down", "ip link set v0 up")),
    ("true", "true", LITTLE, ("64 KiB of memory can be locked", "ulimit -l")),
)


def order(command):
    """Has the first machine run something, and waits for its end."""
    ask = ["busybox", "nc", "10.8.0.1", str(ORDERS)]
    done = subprocess.run(
        ask, input=f"{command}\necho done\nexit\n", capture_output=True, text=True, timeout=60
    )
    return "done" in done.stdout.split()


def check(tree, server):
    """What is found of a server of the first machine, and whether there is nothing."""
    asked = [f"{tree}/bin/busbar", "fabric", "check", "--json", "--least", "0", "--seconds", "0.1"]
    out = subprocess.run(
        [*asked, server], capture_output=True, text=True, timeout=240,
        env={**os.environ, "BUSBAR_PLAINTEXT": "1"},
    )  # fmt: skip
    try:
        return json.loads(out.stdout), out.returncode == 0
    except ValueError:
        sys.exit(f"two: {out.stderr}")


def until(what, look):
    """Looks until it is so; the last thing seen."""
    for _ in range(60):
        if found := look():
            return found
        time.sleep(1)
    sys.exit(f"two: {what} did not happen")


def first(tree):
    """The first machine serves, and does as it is told."""
    busbar = f"{tree}/bin/busbar"
    for server, limited in ((SERVER, []), (LITTLE, LIMITED.split())):
        serve = [*limited, busbar, "serve", "--api", "cuda", "--rdma", "auto"]
        serve += ["--cuda-library", f"{tree}/lib/fakedev/libcuda.so.1"]
        subprocess.Popen([*serve, "--listen", INSIDE[server]])
        link = [busbar, "link", "--preset", "loopback"]
        subprocess.Popen([*link, "--listen", server, "--to", INSIDE[server]])
    subprocess.run(["busybox", "nc", "-ll", "-p", str(ORDERS), "-e", "sh"], check=True)


def second(tree):
    """The second one spoils, looks and mends."""
    def well():
        said, content = check(tree, SERVER)
        print(f"two: {[f['what'] for f in said['findings']]}", flush=True)
        return said if content and len(said["pairs"]) == 2 else None

    said = until("a fabric that is well", well)
    for pair in said["pairs"]:
        print(f"two: {json.dumps(pair)}", flush=True)
    for spoil, mend, server, (what, todo) in FAULTS:
        until("the order", lambda spoil=spoil: order(spoil))

        def named(server=server, what=what, todo=todo):
            said, content = check(tree, server)
            there = [f for f in said["findings"] if f["at"] == server]
            print(f"two: {[f['what'] for f in there]}", flush=True)
            return not content and [f for f in there if what in f["what"] and todo in f["todo"]]

        for finding in until(what, named):
            print(f"two: {json.dumps(finding)}", flush=True)
        until("the order", lambda mend=mend: order(mend))
        until("a fabric that is well again", well)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tree", type=pathlib.Path, required=True)
    parser.add_argument("--cache", type=pathlib.Path, default=pathlib.Path("target/vm"))
    parser.add_argument("--port", type=int, default=17777)
    parser.add_argument("--machine", type=int, choices=(1, 2), help=argparse.SUPPRESS)
    args = parser.parse_args()
    tree = args.tree.resolve()
    if args.machine:
        (first, second)[args.machine - 1](tree)
        return
    machines = []
    for n in (1, 2):
        inside = [sys.executable, HERE.resolve(), "--tree", tree, "--machine", str(n)]
        command = [sys.executable, HERE.with_name("vm.py"), "--cache", args.cache]
        command += ["--memory", "1536", "--limit", "1200", "--wire", f"{args.port}:{n}"]
        command += ["--", *inside]
        machines.append(subprocess.Popen(command))
        # The second one connects to the first.
        time.sleep(1)
    status = machines[1].wait()
    machines[0].terminate()
    machines[0].wait()
    sys.exit(status)


if __name__ == "__main__":
    main()
