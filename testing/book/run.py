"""Runs what the README and the book tell their readers to run.

    python3 testing/book/run.py [--tree DIR] [--verbose] [PAGE ...]

Each page has machines of its own: a laptop, and machines with simulated GPUs, which are folders
and addresses in a network that only this test sees. The commands run as they stand there, but for
the line to paste, which is the one that the server printed. blocks.py says what the words of a
block mean. `busbar` in a block that cannot be run here is parsed by the real program, and so it is
in the other pages for users. Machines take root; without, all blocks are parsed alone.
"""

import argparse
import fcntl
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

from blocks import MACHINES, Wrong, blocks, commands, fits

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BOOK = ROOT / "docs/book"
ADDRESSES = {"laptop": "10.0.0.2", "gpu-host": "10.0.0.7", "host-a": "10.0.0.8",
             "host-b": "10.0.0.9"}  # fmt: skip
# No command may take longer.
MOST = 60
# The line that somebody pastes, and how pages write it.
LINE = re.compile(r"busbar://[^\s'\"@]+@(?P<address>[^\s'\"?]+)\?key=[^\s'\"]+")
# A line of a server's log, which pages leave out.
LOGGED = re.compile(r"^\d{4}-\d\d-\d\dT\S+ +(INFO|WARN|ERROR) .*\n", re.M)
PLACEHOLDER = re.compile(r"busbar://TOKEN@(?P<address>[^\s'\"?]+)\?key=KEY")


def enter(arguments):
    """Starts this program again where it has a network and mounts of its own. Processes stay those
    of all: servers name control groups by their numbers, which would not be theirs alone."""
    if os.environ.get("BOOK_INSIDE") == "inside":
        return
    options = ["--net", "--mount", "--fork", "--kill-child"]
    env = {**os.environ, "BOOK_INSIDE": "inside"}
    command = ["unshare", *options, "--", sys.executable, __file__, *arguments]
    sys.exit(subprocess.run(command, env=env).returncode)


def set_up_network(scratch):
    """Addresses for all machines, on the loopback device, and their names."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        for index, address in enumerate(["127.0.0.1", *ADDRESSES.values()]):
            name = (f"lo:{index}" if index else "lo").encode()
            where = struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton(address))
            fcntl.ioctl(s, 0x8916, struct.pack("16s16s", name, where))  # SIOCSIFADDR
            fcntl.ioctl(s, 0x8914, struct.pack("16sH14x", name, 0x41))  # SIOCSIFFLAGS: up, running
    hosts = scratch / "hosts"
    lines = [f"{address} {name}\n" for name, address in ADDRESSES.items()]
    hosts.write_text("127.0.0.1 localhost\n" + "".join(lines))
    subprocess.run(["mount", "--bind", hosts, "/etc/hosts"], check=True)


# What a shell was told in one block it knows in the next: variables that are for programs, and
# that of a lease; and where it was.
PRELUDE = """
cd
[ ! -e "$MACHINE/settings" ] || . "$MACHINE/settings"
kept() { export -p; [ -z "${lease-}" ] || declare -p lease; printf 'cd %q\\n' "$PWD"; }
trap 'kept >"$MACHINE/settings"' EXIT
"""


class Machine:
    """A folder that stands for a machine: a home, settings of a shell, and a server's state."""

    def __init__(self, name, tree, scratch):
        self.folder = scratch / name
        self.work = self.folder / "home"
        for folder in ("home", "bin", "state", "vendors"):
            (self.folder / folder).mkdir(parents=True)
        (self.folder / "bin/python").symlink_to(sys.executable)
        for file in (HERE / "programs").iterdir():
            shutil.copy(file, self.work)
        self.env = {
            "HOME": str(self.work),
            "MACHINE": str(self.folder),
            "NAME": name,
            "PATH": f"{self.folder}/bin:{tree}/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "LANG": "C.UTF-8",
            "USER": "ann",
        }
        if name != MACHINES[0]:
            self.env |= {
                "LD_LIBRARY_PATH": str(tree / "lib/fakedev"),
                "OCL_ICD_VENDORS": str(self.folder / "vendors"),
                "FAKEDEV_DEVICES": "4",
                "FAKEDEV_NAME": "NVIDIA H200",
                "FAKEDEV_MEMORY_MIB": "143771",
            }

    def start(self, script, output):
        """Starts a block; what it exports, and its folder, are there for the next one."""
        # The state of a server that is root lies in a folder of the system.
        inside = (
            'mount --bind "$MACHINE/state" /var/lib && hostname "$NAME"'
            ' && unset NAME && exec bash -euo pipefail -c "$1"'
        )
        return subprocess.Popen(
            ["unshare", "--mount", "--uts", "sh", "-c", inside, "sh", PRELUDE + script],
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


class Page:
    """A page that is being run."""

    def __init__(self, tree, scratch, verbose):
        self.machines = {name: Machine(name, tree, scratch) for name in MACHINES}
        self.scratch, self.verbose = scratch, verbose
        self.stay, self.lines, self.count = [], {}, 0

    def paste(self, text):
        """The line that a server has printed, in the place of the one that stands for it."""

        def line(found):
            if not self.lines:
                raise Wrong("no server has printed a line to paste")
            address = found["address"]
            # A server by another address has the token and the key that it printed last.
            known = self.lines.get(address) or list(self.lines.values())[-1]
            return re.sub(r"@[^?]+", "@" + address, known)

        if "SESSION" in text:
            text = text.replace("SESSION", self.session())
        return PLACEHOLDER.sub(line, text)

    def session(self):
        """The name that `busbar ps` prints of the first session."""
        listed = self.machines["laptop"].start("busbar ps --json", subprocess.PIPE)
        servers = json.loads(listed.communicate(timeout=MOST)[0])
        found = [s["session"] for server in servers for s in server["status"]["sessions"]]
        if not found:
            raise Wrong("there is no session that SESSION could stand for")
        return found[0]

    def run(self, block):
        """Runs one block, and looks at what came of it."""
        machine = self.machines[block.machine]
        if block.file:
            (machine.work / block.file).write_text(self.paste(block.text))
            return
        self.count += 1
        output = self.scratch / f"output-{self.count}"
        with output.open("w") as file:
            process = machine.start(self.paste(block.text), file)
        until = time.monotonic() + MOST
        while process.poll() is None and not (block.stays and self.settled(block, output)):
            if time.monotonic() > until:
                os.killpg(process.pid, signal.SIGKILL)
                raise Wrong(f"it takes longer than {MOST} s:\n{output.read_text()}")
            time.sleep(0.02)
        said = self.said(output)
        if self.verbose:
            print(f"--- {block.where()}\n{block.text}{said}", flush=True)
        if block.stays and process.poll() is None:
            self.stay.append(process)
        elif block.stays or process.returncode != block.status:
            raise Wrong(f"it ends with {process.returncode}:\n{said}")
        if block.prints is not None and not fits(block.prints, said):
            raise Wrong(f"it prints something else than the page says:\n{said}")

    def settled(self, block, output):
        """Whether what stays has said what the page says."""
        return fits(block.prints, self.said(output))

    def said(self, output):
        """What a block has printed so far."""
        text = output.read_text(errors="replace")
        for line in LINE.finditer(text):
            self.lines[line["address"]] = line[0]
        return LOGGED.sub("", text)

    def end(self):
        for process in self.stay:
            for number in (signal.SIGTERM, signal.SIGKILL):
                if process.poll() is None:
                    os.killpg(process.pid, number)
                    try:
                        process.wait(5)
                    except subprocess.TimeoutExpired:
                        continue


def parsed(block, tree):
    """Whether the real program takes the lines of a block that is not run."""
    for line in commands(block.text):
        words = shlex.split(line, comments=True)
        for index, word in enumerate(words[:-1]):
            if word.rpartition("/")[2] != "busbar" or not words[index + 1].isalpha():
                continue
            if index and words[index - 1] in ("-u", "enable", "--now", "--name"):
                continue
            own = words[index + 1 :]
            for stop in ("--", "|", ">", "&&", ";", "&"):
                own = own[: own.index(stop)] if stop in own else own
            # --help after all else: what stands before is parsed first.
            done = subprocess.run(
                [tree / "bin/busbar", *own, "--help"], capture_output=True, text=True
            )
            if done.returncode:
                raise Wrong(f"`busbar {' '.join(own)}`: {done.stderr.strip()}")


def run_page(page, tree, verbose):
    """Runs a page: how many of its blocks were run, were parsed alone, and what was wrong. A page
    that is neither the README nor of the book is parsed alone."""
    runs = os.geteuid() == 0 and (page == ROOT / "README.md" or page.is_relative_to(BOOK))
    ran, only, wrong = 0, 0, []
    with tempfile.TemporaryDirectory(prefix="busbar-book-") as scratch:
        state = Page(tree, pathlib.Path(scratch), verbose)
        try:
            for block in blocks(page.relative_to(ROOT), page.read_text()):
                if block.language != "sh" and not (runs and block.file):
                    continue
                try:
                    if block.reason or not runs:
                        parsed(block, tree)
                        only += 1
                    else:
                        state.run(block)
                        ran += not block.file
                except Wrong as e:
                    wrong.append(f"{block.where()}: {e}")
                    # What comes after it on a page builds on it.
                    break
        finally:
            state.end()
    return ran, only, wrong


def left_out():
    """Pages of the book that its summary does not name."""
    named = set(re.findall(r"\]\(([^)]+\.md)\)", (BOOK / "SUMMARY.md").read_text()))
    there = {str(page.relative_to(BOOK)) for page in BOOK.glob("**/*.md")} - {"SUMMARY.md"}
    return [f"docs/book/SUMMARY.md: {page} is not named" for page in sorted(there - named)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--tree", type=pathlib.Path, default=ROOT / "target/test-tree")
    parser.add_argument("--verbose", action="store_true", help="show all that is printed")
    parser.add_argument("pages", nargs="*", type=pathlib.Path)
    args = parser.parse_args()
    if not (args.tree / "bin/busbar").exists():
        sys.exit(f"book: there is no tree in {args.tree}; ./test tree makes it")
    if os.geteuid() == 0:
        enter(sys.argv[1:])
    else:
        print("book: commands are parsed alone; to run them takes root", flush=True)
    tree = args.tree.resolve()
    others = [ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
    pages = args.pages or [ROOT / "README.md", *sorted(BOOK.glob("**/*.md")), *others]
    failed = left_out()
    with tempfile.TemporaryDirectory(prefix="busbar-book-") as scratch:
        if os.geteuid() == 0:
            set_up_network(pathlib.Path(scratch))
        for page in pages:
            begun = time.monotonic()
            try:
                ran, only, wrong = run_page(page.resolve(), tree, args.verbose)
            except Wrong as e:
                ran, only, wrong = 0, 0, [str(e)]
            failed += wrong
            name = page.resolve().relative_to(ROOT)
            took = time.monotonic() - begun
            print(
                f"{str(name):<40} {ran:>3} run {only:>3} parsed  {took:>5.1f} s"
                f"{'  WRONG' if wrong else ''}",
                flush=True,
            )
    for sentence in failed:
        print(f"\n{sentence}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
