"""Runs a command in a small virtual machine that has a real RDMA device, of software.

    vm.py [--cache DIR] [--limit SECONDS] [--memory MIB] [--wire PORT:N] -- COMMAND [ARG ...]

The machine runs Debian's own kernel without any acceleration of this one's, and sees this machine's
files: it may change them, and nobody sees that. Its device is `rxe0` on a pair of virtual cables of
which one end, `v0`, is 10.9.0.1. The command's exit status is the script's. Nothing of it may be
taken for a measurement of time.

With `--wire` it is machine N, 1 or 2, of two: `eth0` is 10.8.0.N on a network, and `v0` 10.9.0.N on
a second one, which `rxe0` has. Between the two they are connections to PORT and the next one.

Where a program is missing, it says what installs it.
"""

import argparse
import gzip
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile

INITRD = ["virtio_pci", "9p", "9pnet_virtio", "overlay"]
# With rdma_ucm, as on machines of a fabric, /dev/infiniband outlives its last device.
MODULES = "rdma_rxe ib_uverbs rdma_ucm veth"

INIT = """#!/bin/busybox sh
export PATH=/bin
busybox mkdir -p /proc /sys /dev /ro /rw /newroot
busybox mount -t proc proc /proc
busybox mount -t sysfs sysfs /sys
busybox mount -t devtmpfs dev /dev
for m in {modules}; do busybox insmod /m/$m; done
busybox mount -t 9p -o trans=virtio,version=9p2000.L,ro,msize=262144,cache=loose root /ro
busybox mount -t tmpfs -o size=75% tmpfs /rw
busybox mkdir -p /rw/upper /rw/work
busybox mount -t overlay -o lowerdir=/ro,upperdir=/rw/upper,workdir=/rw/work overlay /newroot
for d in proc sys dev; do busybox mount --move /$d /newroot/$d; done
exec busybox switch_root /newroot /bin/sh {start}
"""

START = """
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mkdir -p /dev/pts /dev/shm /lib/modules
mount -t devpts devpts /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /tmp
mount -t tmpfs tmpfs /run
ip link set lo up
ln -sfn {kernel} /lib/modules/{release}
modprobe -a {modules} || echo "vm: a module is missing"
{cable}
ip link set v0 mtu 4200 up
rdma link add rxe0 type rxe netdev v0
ulimit -l unlimited
cd {folder}
export HOME=/root {environment}
echo "vm: ready after $(cut -d' ' -f1 /proc/uptime) s"
{command}
echo "vm: status $?"
sync
echo o > /proc/sysrq-trigger
sleep 60
"""


# The cable of a machine that is alone, and those of one of two.
ALONE = """ip link add v0 type veth peer name v1
ip address add 10.9.0.1/24 dev v0
ip link set v1 mtu 4200 up"""
OF_TWO = """modprobe virtio_net
ip address add 10.8.0.{n}/24 dev eth0
ip link set eth0 up
ip link set eth1 name v0
ip address add 10.9.0.{n}/24 dev v0"""


def wires(port, n):
    """What the emulator is told of the two networks between two machines."""
    out = []
    for wire in range(2):
        way = "listen" if n == 1 else "connect"
        out += ["-netdev", f"socket,id=n{wire},{way}=127.0.0.1:{port + wire}"]
        mac = f"52:54:00:00:{wire:02x}:{n:02x}"
        out += ["-device", f"virtio-net-pci,netdev=n{wire},mac={mac},host_mtu=4200"]
    return out


def need(program):
    found = shutil.which(program) or shutil.which(program, path="/usr/sbin:/sbin:/bin")
    if not found:
        sys.exit(f"vm: there is no {program} here: testing/setup.sh verbs installs it")
    return found


def kernel(cache):
    """The folder of a kernel, which is fetched the first time, and its release."""
    folder = cache / "kernel"
    if not (folder / "done").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        listed = subprocess.run(
            ["apt-cache", "depends", "--recurse", "--no-recommends", "--no-suggests"]
            + ["--no-enhances", "--no-breaks", "--no-conflicts", "--no-replaces"]
            + ["linux-image-amd64"],
            capture_output=True,
            text=True,
        )
        names = {line.strip().split()[-1] for line in listed.stdout.splitlines() if line.strip()}
        images = [n for n in names if n.startswith("linux-image-") and n[12:13].isdigit()]
        if not images:
            sys.exit("vm: apt knows no linux-image-amd64: this wants Debian, after apt-get update")
        fetch = ["apt-get", "-o", "APT::Sandbox::User=root", "download", images[0]]
        subprocess.run(fetch, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        (package,) = folder.glob("*.deb")
        subprocess.run(["dpkg", "-x", package.name, "."], cwd=folder, check=True)
        package.unlink()
        (release,) = (folder / "lib/modules").iterdir()
        subprocess.run([need("depmod"), "-b", folder, release.name], check=True)
        (folder / "done").touch()
    (release,) = (folder / "lib/modules").iterdir()
    return folder, release.name


def initrd(folder, release, start, to):
    """What the kernel starts with: busybox, and what it takes to see this machine's files."""
    listed = []
    for module in INITRD:
        show = [need("modprobe"), "-d", folder, "-S", release, "--show-depends", module]
        out = subprocess.run(show, capture_output=True, text=True, check=True).stdout
        listed += [line.split()[1] for line in out.splitlines() if line.startswith("insmod")]
    modules = list(dict.fromkeys(listed))
    with tempfile.TemporaryDirectory() as scratch:
        root = pathlib.Path(scratch)
        (root / "bin").mkdir()
        (root / "m").mkdir()
        shutil.copy(need("busybox"), root / "bin/busybox")
        for module in modules:
            shutil.copy(module, root / "m")
        names = " ".join(os.path.basename(m) for m in modules)
        (root / "init").write_text(INIT.format(modules=names, start=start))
        (root / "init").chmod(0o755)
        names = sorted(str(p.relative_to(root)) for p in root.rglob("*"))
        packed = subprocess.run(
            [need("cpio"), "--quiet", "-o", "-H", "newc"],
            input="\n".join(names).encode(),
            cwd=root,
            capture_output=True,
            check=True,
        )
        to.write_bytes(gzip.compress(packed.stdout, 1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cache", type=pathlib.Path, default=pathlib.Path("target/vm"))
    parser.add_argument("--limit", type=int, default=600)
    parser.add_argument("--memory", type=int, default=4096)
    parser.add_argument("--wire", metavar="PORT:N", help="one of two machines on two networks")
    parser.add_argument("command", nargs="+")
    args = parser.parse_args()
    need("rdma")
    # Whoever ends this ends the machine.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("vm: it was told to end"))
    port, n = map(int, args.wire.split(":")) if args.wire else (0, 0)
    cache = args.cache.resolve()
    folder, release = kernel(cache)
    with tempfile.TemporaryDirectory(dir=cache, prefix="run-") as scratch:
        scratch = pathlib.Path(scratch)
        kept = {k: v for k, v in os.environ.items() if k.startswith("BUSBAR_") or k == "PATH"}
        start = START.format(
            kernel=folder / "lib/modules" / release,
            release=release,
            modules=MODULES,
            cable=OF_TWO.format(n=n) if n else ALONE,
            folder=shlex.quote(os.getcwd()),
            environment=" ".join(f"{k}={shlex.quote(v)}" for k, v in kept.items()),
            command=shlex.join(map(str, args.command)),
        )
        (scratch / "start").write_text(start)
        initrd(folder, release, scratch / "start", scratch / "initrd.gz")
        command = [
            need("qemu-system-x86_64"),
            *"-accel tcg,thread=multi -cpu max -smp 2 -nodefaults -no-user-config".split(),
            *"-display none -no-reboot -serial stdio".split(),
            *["-m", str(args.memory), "-kernel", folder / f"boot/vmlinuz-{release}"],
            # On a busy machine the kernel's check of its timer may fail.
            *["-initrd", scratch / "initrd.gz", "-append"],
            "console=ttyS0 quiet panic=-1 no_timer_check",
            *["-fsdev", "local,id=r,path=/,security_model=none,readonly=on,multidevs=remap"],
            *["-device", "virtio-9p-pci,fsdev=r,mount_tag=root"],
            *(wires(port, n) if n else []),
        ]
        machine = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, errors="replace"
        )
        status = None
        try:
            import threading

            timer = threading.Timer(args.limit, machine.kill)
            timer.start()
            for line in machine.stdout:
                if line.startswith("vm: status "):
                    status = int(line.split()[-1])
                    break
                print(line, end="", flush=True)
        finally:
            timer.cancel()
            machine.kill()
            machine.wait()
        if status is None:
            sys.exit(f"vm: it did not end within {args.limit} s, or has crashed")
        sys.exit(status)


if __name__ == "__main__":
    main()
