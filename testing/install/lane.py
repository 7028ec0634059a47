"""Installs Busbar's packages in fresh systems, and makes a first remote call from each.

    python3 testing/install/lane.py [--tree DIR] [--packages DIR] [--only WORD ...]

A fresh system is Debian's smallest with Python, made by debootstrap once and copied for each
package; what runs there is in namespaces of its own, but for the network. A server on this machine
offers the simulated driver over TLS. As root, with debootstrap, and for the program that is to be
refused musl-gcc.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# Where systems that were made are kept.
CACHE = ROOT / ".cache/install"
MIRROR = os.environ.get("DEBIAN_MIRROR", "http://deb.debian.org/debian")
SYSTEMS = {"bullseye": "Debian 11", "bookworm": "Debian 12", "trixie": "Debian 13"}
# What is installed in a system beforehand: what users of wheels have, and programs.
HAS = "python3-venv,ca-certificates"
# No step may take longer.
MOST = 300

# For each package: its file, what there is before, how it is installed, and where the program is
# then.
PACKAGES = {
    "wheel": (
        "*.whl",
        "python3 -m venv /venv",
        "/venv/bin/pip install --no-index --quiet /packages/*.whl",
        "/venv/bin/busbar",
    ),
    "deb": ("*.deb", "true", "apt-get install --yes /packages/*.deb", "/usr/bin/busbar"),
    "tarball": (
        "*.tar.gz",
        "true",
        "mkdir /opt/busbar && tar xzf /packages/*.tar.gz -C /opt/busbar --strip-components=1",
        "/opt/busbar/bin/busbar",
    ),
    # Copied from outside, as `COPY --from` does.
    "image": ("busbar-[0-9]*-oci.tar", "true", "true", "/opt/busbar/bin/busbar"),
}


class Failed(Exception):
    """A sentence for whoever runs this."""


def base(suite):
    """A system with nothing of ours, made if it is not there."""
    folder = CACHE / suite
    if not folder.exists():
        print(f"making a system of {suite} ...", flush=True)
        made = folder.with_suffix(".new")
        shutil.rmtree(made, ignore_errors=True)
        made.parent.mkdir(parents=True, exist_ok=True)
        command = ["debootstrap", "--variant=minbase", f"--include={HAS}", suite, made, MIRROR]
        run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if run.returncode != 0:
            raise Failed(f"debootstrap {suite} failed: {run.stdout[-500:]}")
        made.rename(folder)
    return folder


class System:
    """A copy of a fresh system."""

    def __init__(self, suite, scratch):
        self.root = pathlib.Path(tempfile.mkdtemp(dir=scratch)) / "root"
        subprocess.run(["cp", "-a", "--reflink=auto", base(suite), self.root], check=True)

    def run(self, command, **env):
        """Runs a shell's command in it: the exit status, all that is said, and the seconds."""
        inside = ["mount", "-t", "proc", "proc", self.root / "proc"]
        enter = ["exec", "chroot", self.root, "/bin/sh", "-c"]
        shell = " ".join(map(str, inside)) + " && " + " ".join(map(str, enter)) + ' "$1"'
        unshare = ["unshare", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child"]
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        begun = time.monotonic()
        done = subprocess.run(
            [*unshare, "sh", "-c", shell, "sh", command],
            env={"PATH": path, "HOME": "/", "DEBIAN_FRONTEND": "noninteractive", **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=MOST,
        )
        return done.returncode, done.stdout, time.monotonic() - begun

    def must(self, command, **env):
        status, said, seconds = self.run(command, **env)
        if status != 0:
            raise Failed(f"`{command}` exits with {status}: {said.strip()[-500:]}")
        return said, seconds

    def put(self, file, to):
        to = self.root / to
        to.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, to)


class Server:
    """A server of this machine, on the simulated driver."""

    def __init__(self, tree, scratch):
        state = pathlib.Path(scratch) / "server"
        state.mkdir()
        command = [tree / "bin/busbar", "serve", "--listen", "127.0.0.1:0", "--tls"]
        command += ["--api", "cuda", "--cuda-library", tree / "lib/fakedev/libcuda.so.1"]
        command += ["--cache-dir", state / "cache", "--state-dir", state / "state"]
        self.log = state / "log"
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL, text=True
            )
        # It says all that clients need before it says what isolation is in force.
        self.line = None
        for line in self.process.stdout:
            found = re.search(r"busbar://[^\s']+", line)
            if found:
                self.line = found[0]
                break
        if self.line is None:
            raise Failed(f"the server did not start: {self.log.read_text()[-500:]}")

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def copy_image(archive, root):
    """Puts an image's `/opt/busbar` into a system."""
    with tarfile.open(archive) as image:

        def read(path):
            return image.extractfile(path)

        def blob(of):
            return read("blobs/sha256/" + of["digest"].removeprefix("sha256:"))

        manifest = json.load(blob(json.load(read("index.json"))["manifests"][0]))
        for layer in manifest["layers"]:
            with tarfile.open(fileobj=blob(layer), mode="r:gz") as files:
                wanted = [m for m in files if m.name.startswith("opt/busbar")]
                files.extractall(root, members=wanted)


def musl_program(scratch):
    """A program for musl, which Busbar's libraries cannot be loaded into."""
    file = pathlib.Path(scratch) / "hello-musl"
    source = "int main(void) { return 0; }"
    command = ["musl-gcc", "-x", "c", "-", "-o", file]
    subprocess.run(command, input=source, text=True, check=True)
    return file


def install(suite, kind, file, server, musl, scratch):
    """Installs a package in a fresh system, and uses it: seconds for each step."""
    _, before, how, busbar = PACKAGES[kind]
    system = System(suite, scratch)
    system.put(file, "packages")
    system.put(HERE / "first.py", "programs")
    system.put(musl, "programs")
    env = {"BUSBAR_SERVER": server.line}
    system.must(before)
    copied = time.monotonic()
    if kind == "image":
        copy_image(file, system.root)
    copied = time.monotonic() - copied
    _, installed = system.must(how)
    said, listed = system.must(f"{busbar} devices", **env)
    if "127.0.0.1" not in said:
        raise Failed(f"`busbar devices` names no device of the server: {said}")
    said, ran = system.must(f"{busbar} run -- python3 /programs/first.py", **env)
    if "and back" not in said:
        raise Failed(f"the program said {said!r}")
    status, said, _ = system.run(f"{busbar} run -- /programs/{musl.name}", **env)
    sentence = "linked against musl"
    if status != 126 or sentence not in said or len(said.splitlines()) != 1:
        raise Failed(f"a program for musl: exit status {status}, and {said!r}")
    if kind == "wheel":
        system.must("/venv/bin/python -m busbar --version")
    if kind == "deb":
        system.must("dpkg --verify busbar && apt-get purge --yes busbar")
        left, _ = system.must("find / -xdev -path /packages -prune -o -name '*busbar*' -print")
        # What dpkg has noted of it stays in its own files.
        if left.strip():
            raise Failed(f"after its removal these are left: {left}")
    shutil.rmtree(system.root.parent)
    return copied + installed, listed, ran


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--tree", type=pathlib.Path, default=ROOT / "dist")
    parser.add_argument("--packages", type=pathlib.Path, default=ROOT / "target/packages")
    parser.add_argument("--only", nargs="+", default=[], help="suites and packages")
    args = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("install: systems are made and entered by root alone")
    for program, package in [("debootstrap", "debootstrap"), ("musl-gcc", "musl-tools")]:
        if shutil.which(program) is None:
            sys.exit(f"install: {program} is missing (on Debian: apt-get install {package})")
    for word in args.only:
        if word not in [*SYSTEMS, *PACKAGES]:
            sys.exit(f"install: {word}: choose from {', '.join([*SYSTEMS, *PACKAGES])}")
    chosen = [list(all) for all in (SYSTEMS, PACKAGES)]
    suites, kinds = ([w for w in all if w in args.only] or all for all in chosen)
    files = {}
    for kind in kinds:
        found = sorted(args.packages.glob(PACKAGES[kind][0]))
        if len(found) != 1:
            sys.exit(f"install: {args.packages} has {len(found)} of {kind}: make one with "
                     "`cargo xtask release`")
        files[kind] = found[0]
    failed = 0
    with tempfile.TemporaryDirectory(prefix="busbar-install-") as scratch:
        server = Server(args.tree.resolve(), scratch)
        try:
            musl = musl_program(scratch)
            print(f"{'system':<10} {'package':<8} {'MB':>5} {'install':>9} {'devices':>9} "
                  f"{'program':>9} {'together':>9}")
            for suite in suites:
                base(suite)
                for kind in kinds:
                    size = files[kind].stat().st_size / 1e6
                    row = f"{SYSTEMS[suite]:<10} {kind:<8} {size:>5.1f} "
                    try:
                        steps = install(suite, kind, files[kind], server, musl, scratch)
                        times = "".join(f"{s:>7.1f} s " for s in [*steps, sum(steps)])
                        print(row + times, flush=True)
                    except (Failed, subprocess.SubprocessError) as e:
                        failed += 1
                        print(f"{row}  FAILED: {e}", flush=True)
        finally:
            server.end()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
