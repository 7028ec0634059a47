"""Installs Busbar's packages in fresh systems, and makes a first remote call from each.

    python3 testing/install/lane.py [--tree DIR] [--packages DIR] [--only WORD ...]

A fresh system is Debian's smallest with Python, made by debootstrap once and copied for each
package; what runs there runs in a container of runc, on the network of this machine. A server on
this machine offers the simulated driver over TLS; then the image of the server does, in a container
likewise. As root, with debootstrap and runc, and for the program that is to be refused musl-gcc.
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


class Container:
    """A root file system, and what runs in it by runc."""

    # As engines of containers give them to root there.
    MAY = [
        f"CAP_{name}"
        for name in "AUDIT_WRITE CHOWN DAC_OVERRIDE FOWNER FSETID KILL MKNOD NET_BIND_SERVICE "
        "NET_RAW SETFCAP SETGID SETPCAP SETUID SYS_CHROOT".split()
    ]

    def __init__(self, root, scratch):
        self.root, self.scratch = root, scratch

    def command(self, command, env, mounts=(), may=()):
        """What starts a command there. The folders of `mounts` are at their names in it."""
        bundle = pathlib.Path(tempfile.mkdtemp(dir=self.scratch))
        subprocess.run(["runc", "spec", "--bundle", bundle], check=True)
        settings = bundle / "config.json"
        config = json.loads(settings.read_text())
        config["root"] = {"path": str(self.root), "readonly": False}
        sets = dict.fromkeys(("bounding", "effective", "permitted"), [*self.MAY, *may])
        config["process"] |= {
            "terminal": False,
            "args": [str(word) for word in command],
            "env": [f"{name}={value}" for name, value in env.items()],
            "capabilities": sets,
            "noNewPrivileges": False,
        }
        config["mounts"] += [
            {"destination": name, "type": "bind", "source": str(folder), "options": ["rbind", "ro"]}
            for name, folder in mounts
        ]
        spaces = config["linux"]["namespaces"]
        config["linux"]["namespaces"] = [s for s in spaces if s["type"] != "network"]
        settings.write_text(json.dumps(config))
        state = pathlib.Path(self.scratch) / "runc"
        return ["runc", "--root", state, "run", "--bundle", bundle, bundle.name]


class System(Container):
    """A copy of a fresh system."""

    def __init__(self, suite, scratch):
        root = pathlib.Path(tempfile.mkdtemp(dir=scratch)) / "root"
        super().__init__(root, scratch)
        subprocess.run(["cp", "-a", "--reflink=auto", base(suite), self.root], check=True)

    def run(self, command, **env):
        """Runs a shell's command in it: the exit status, all that is said, and the seconds."""
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        env = {"PATH": path, "HOME": "/", "DEBIAN_FRONTEND": "noninteractive", **env}
        run = self.command(["/bin/sh", "-c", command], env)
        begun = time.monotonic()
        done = subprocess.run(
            run,
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
    """A server on the simulated driver."""

    FLAGS = ["serve", "--listen", "127.0.0.1:0", "--tls", "--api", "cuda", "--cuda-library"]

    @classmethod
    def here(cls, tree, scratch):
        """One of this machine."""
        state = pathlib.Path(scratch) / "server"
        command = [tree / "bin/busbar", *cls.FLAGS, tree / "lib/fakedev/libcuda.so.1"]
        command += ["--cache-dir", state / "cache", "--state-dir", state / "state"]
        return cls(command, state)

    @classmethod
    def of_image(cls, archive, tree, scratch):
        """The image's program in a container, where the page has the same capability."""
        root = pathlib.Path(scratch) / "server-image/root"
        root.mkdir(parents=True)
        config = unpack(archive, root)["config"]
        env = dict(word.split("=", 1) for word in config["Env"])
        command = [*config["Entrypoint"], *cls.FLAGS, "/simulated/libcuda.so.1"]
        mounts = [("/simulated", tree / "lib/fakedev")]
        run = Container(root, scratch).command(command, env, mounts, ["CAP_SYS_ADMIN"])
        return cls(run, root.parent)

    def __init__(self, command, state):
        state.mkdir(exist_ok=True)
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


def unpack(archive, root, folder=""):
    """Puts what an image has in a folder into a system; returns its configuration."""
    with tarfile.open(archive) as image:

        def read(path):
            return image.extractfile(path)

        def blob(of):
            return read("blobs/sha256/" + of["digest"].removeprefix("sha256:"))

        manifest = json.load(blob(json.load(read("index.json"))["manifests"][0]))
        for layer in manifest["layers"]:
            with tarfile.open(fileobj=blob(layer), mode="r:gz") as files:
                wanted = [m for m in files if m.name.startswith(folder)]
                files.extractall(root, members=wanted)
        return json.load(blob(manifest["config"]))


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
        unpack(file, system.root, "opt/busbar")
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


def from_image(archive, tree, scratch):
    """A first call to the server's image: the seconds until it listens, and those of the call."""
    begun = time.monotonic()
    server = Server.of_image(archive, tree, scratch)
    started = time.monotonic() - begun
    try:
        begun = time.monotonic()
        run = [tree / "bin/busbar", "run", "--", sys.executable, HERE / "first.py"]
        env = {**os.environ, "BUSBAR_SERVER": server.line}
        done = subprocess.run(run, env=env, capture_output=True, text=True, timeout=MOST)
        if "and back" not in done.stdout:
            raise Failed(f"the program said {done.stdout!r}, {done.stderr!r}")
        return started, time.monotonic() - begun
    finally:
        server.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--tree", type=pathlib.Path, default=ROOT / "dist")
    parser.add_argument("--packages", type=pathlib.Path, default=ROOT / "target/packages")
    parser.add_argument("--only", nargs="+", default=[], help="suites and packages")
    args = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("install: systems are made and entered by root alone")
    needs = {"debootstrap": "debootstrap", "runc": "runc", "musl-gcc": "musl-tools"}
    for program, package in needs.items():
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
        tree = args.tree.resolve()
        server = Server.here(tree, scratch)
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
        for archive in args.packages.glob("busbar-server-*-oci.tar"):
            row = f"{'runc':<10} {'server':<8} {archive.stat().st_size / 1e6:>5.1f} "
            try:
                started, ran = from_image(archive, tree, scratch)
                print(f"{row}{started:>7.1f} s {'':>9}{ran:>7.1f} s {started + ran:>7.1f} s")
            except (Failed, subprocess.SubprocessError) as e:
                failed += 1
                print(f"{row}  FAILED: {e}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
