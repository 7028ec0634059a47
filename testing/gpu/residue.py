"""What one tenant leaves in a GPU's memory, and whether another finds it.

    python3 testing/gpu/residue.py --dist dist [--rounds 200] [--share 0.9] [--aside GIB]

In each round one tenant fills most of the GPU's memory with a pattern of the round's own and ends:
by itself, killed, its worker killed, or by an illegal address. Then another tenant takes as much
memory and counts the words that have the pattern. 0 must be found in all rounds. A control does
the same within one process, without an end between: it says how many a scan finds at all.

With `--aside` the first tenant takes so many GiB and does not end: it gives way to the second while
it is idle, and must find all of its words again afterwards.
"""

import argparse
import ctypes
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

from remote import Remote, sessions, start, stop

PIECE = 1 << 30
PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry count(.param .u64 at, .param .u64 words, .param .u32 wanted, .param .u64 out)
{
  .reg .pred %p<3>;
  .reg .b32 %r<9>;
  .reg .b64 %d<9>;
  ld.param.u64 %d1, [at];
  ld.param.u64 %d2, [words];
  ld.param.u32 %r1, [wanted];
  ld.param.u64 %d3, [out];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mov.u32 %r5, %nctaid.x;
  mad.lo.u32 %r6, %r2, %r3, %r4;
  cvt.u64.u32 %d4, %r6;
  mul.wide.u32 %d5, %r3, %r5;
again:
  setp.ge.u64 %p1, %d4, %d2;
  @%p1 bra done;
  shl.b64 %d6, %d4, 2;
  add.u64 %d7, %d1, %d6;
  ld.global.u32 %r7, [%d7];
  setp.ne.u32 %p2, %r7, %r1;
  @%p2 bra next;
  atom.global.add.u64 %d8, [%d3], 1;
next:
  add.u64 %d4, %d4, %d5;
  bra again;
done:
  ret;
}
\0"""


class Gpu:
    """The driver's API, as far as this takes."""

    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name, *args):
        """Calls a function; an error is an exception."""
        if rc := getattr(self.cuda, name)(*args):
            raise RuntimeError(f"{name}: {rc}")

    def free(self):
        """Bytes that are free."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value

    def take(self, share):
        """Pieces of that share of what is free."""
        pieces = []
        for _ in range(max(1, int(self.free() * share) // PIECE)):
            at = ctypes.c_uint64()
            self.call("cuMemAlloc_v2", ctypes.byref(at), ctypes.c_size_t(PIECE))
            pieces.append(at)
        return pieces

    def fill(self, pieces, word):
        """Writes the pattern everywhere."""
        for at in pieces:
            self.call("cuMemsetD32_v2", at, ctypes.c_uint(word), ctypes.c_size_t(PIECE // 4))
        self.call("cuCtxSynchronize")

    def count(self, pieces, word):
        """How many words have the pattern."""
        module, function, out = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
        self.call("cuModuleLoadData", ctypes.byref(module), PTX)
        self.call("cuModuleGetFunction", ctypes.byref(function), module, b"count")
        self.call("cuMemAlloc_v2", ctypes.byref(out), ctypes.c_size_t(8))
        self.call("cuMemsetD32_v2", out, ctypes.c_uint(0), ctypes.c_size_t(2))
        for at in pieces:
            values = [at, ctypes.c_uint64(PIECE // 4), ctypes.c_uint32(word), out]
            places = (ctypes.c_void_p * 4)(*(ctypes.addressof(v) for v in values))
            shape = (1024, 1, 1, 256, 1, 1, 0)
            self.call("cuLaunchKernel", function, *shape, None, places, None)
        found = ctypes.c_uint64()
        self.call("cuMemcpyDtoH_v2", ctypes.byref(found), out, ctypes.c_size_t(8))
        return found.value


def program(what, word, share):
    """The program of a tenant."""
    gpu = Gpu()
    pieces = gpu.take(min(share, share * PIECE / gpu.free()) if what == "keep" else share)
    if what == "find":
        return print(len(pieces), gpu.count(pieces, word), flush=True)
    gpu.fill(pieces, word)
    if what == "control":
        return print(len(pieces), gpu.count(pieces, word), flush=True)
    print(len(pieces), "filled", flush=True)
    sys.stdin.readline()
    if what == "keep":
        return print(gpu.count(pieces, word) == len(pieces) * PIECE // 4, flush=True)
    if what == "crash":
        # An illegal address, which ends the context.
        gpu.call("cuMemsetD32_v2", ctypes.c_uint64(0x10), ctypes.c_uint(1), ctypes.c_size_t(1))


def client(server, name):
    """What makes a command one of a tenant's."""
    line = server.token(name, "--tenant", name)
    return [*server.hide, str(server.busbar), "run", "--server", line, "--"]


def workers(server, admin):
    """The workers of all sessions."""
    return [session["worker_pid"] for session in sessions(server.busbar, admin)]


def aside(args, log, me, one, two):
    """Runs the rounds in which the first tenant gives way and comes back."""
    found_in_all = 0
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    for number in range(args.rounds):
        word = 0x5EED0000 + number
        keeps = [*one, *me, "--share", str(args.aside), "keep", str(word)]
        keeper = subprocess.Popen(keeps, start_new_session=True, **pipes)
        filled = keeper.stdout.readline().strip()
        # Longer than it takes to be idle, and for the server to have looked.
        time.sleep(3.5)
        finder = start([*two, *me, "find", str(word)], stdout=subprocess.PIPE, text=True)
        said = finder.communicate()[0].split()
        gave_way = log.read_text(errors="replace").count("session gives way") > number
        begun = time.monotonic()
        kept = keeper.communicate("\n")[0].strip()
        seconds = time.monotonic() - begun
        if len(said) != 2 or not gave_way or kept != "True":
            sys.exit(f"round {number}: found {said}, gave way {gave_way}, all kept {kept!r}")
        found_in_all += int(said[1])
        text = f"{filled}; looked at {said[0]} GiB; all there again in {seconds:.1f} s"
        print(f"# {number} aside: {text}", flush=True)
    print(f"{args.rounds} rounds, {found_in_all} words found")
    return found_in_all != 0


def main():
    """Runs the rounds."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--dist", default="dist")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--share", type=float, default=0.9)
    parser.add_argument("--aside", type=float, help="GiB of a session that gives way instead")
    parser.add_argument("--port", type=int, default=7460)
    parser.add_argument("program", nargs="*")
    args = parser.parse_args()
    if args.program:
        return program(args.program[0], int(args.program[1]), args.share)
    me = [sys.executable, str(pathlib.Path(__file__).resolve()), "--share", str(args.share)]
    found_in_all = 0
    with tempfile.TemporaryDirectory() as work:
        log = pathlib.Path(work) / "log"
        flags = ["--api", "cuda", *(["--swap-idle", "1s"] if args.aside else [])]
        with Remote(args.dist, args.port, work, log, flags, tls=True) as server:
            one, two = client(server, "one"), client(server, "two")
            admin = server.token("admin", "--admin")
            control = subprocess.check_output([*two, *me, "control", "305419896"], text=True)
            print(f"# control: pieces, words found: {control.strip()}", flush=True)
            if int(control.split()[1]) == 0:
                sys.exit("the scan finds nothing at all")
            if args.aside:
                return aside(args, log, me, one, two)
            for number in range(args.rounds):
                word = 0x5EED0000 + number
                how = ["exit", "killed", "worker", "crash"][number % 4]
                pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
                command = [*one, *me, "crash" if how == "crash" else "fill", str(word)]
                filler = subprocess.Popen(command, start_new_session=True, **pipes)
                filled = filler.stdout.readline().strip()
                if how == "worker":
                    for worker in workers(server, admin):
                        os.kill(worker, signal.SIGKILL)
                if how == "killed":
                    stop(filler)
                else:
                    filler.communicate("\n")
                begun = time.monotonic()
                while workers(server, admin) and time.monotonic() - begun < 5:
                    time.sleep(0.02)
                finder = start([*two, *me, "find", str(word)], stdout=subprocess.PIPE, text=True)
                said = finder.communicate()[0].split()
                if len(said) != 2:
                    sys.exit(f"round {number}: the second tenant could not look")
                found_in_all += int(said[1])
                print(f"# {number} {how}: {filled}; looked at {said[0]} GiB", flush=True)
    print(f"{args.rounds} rounds, {found_in_all} words found")
    return found_in_all != 0


if __name__ == "__main__":
    sys.exit(main())
