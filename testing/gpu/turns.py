"""What it costs that two programs have a GPU in turns, by the GPU's own clock.

    python3 testing/gpu/turns.py --dist dist [--seconds 4] [--kernel-us 50] [--turn-ms 20]

Two programs each run short kernels, two steps ahead, and each kernel writes down when it began and
when it ended. A line says for how long the GPU did nothing from one program's last kernel to the
other one's first, and for how long between kernels of one turn. The line `native` is of two
programs that pass each other a word in shared memory when their work is done: less than that a
change of turns cannot cost. The line `busbar` is of two under `busbar serve --turns always`.
"""

import argparse
import ctypes
import itertools
import mmap
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from remote import Remote, stop
from residue import Gpu

PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry spin(.param .u64 at, .param .u64 ns)
{
  .reg .pred %p<3>;
  .reg .b32 %r<4>;
  .reg .b64 %d<6>;
  ld.param.u64 %d1, [at];
  ld.param.u64 %d2, [ns];
  mov.u64 %d3, %globaltimer;
again:
  mov.u64 %d4, %globaltimer;
  sub.u64 %d5, %d4, %d3;
  setp.lt.u64 %p1, %d5, %d2;
  @%p1 bra again;
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %ctaid.x;
  or.b32 %r3, %r1, %r2;
  setp.ne.u32 %p2, %r3, 0;
  @%p2 bra done;
  st.global.u64 [%d1], %d3;
  st.global.u64 [%d1+8], %d4;
done:
  ret;
}
\0"""
# Kernels of a step, and steps that a program is ahead.
STEP, AHEAD = 100, 2
# Device time from one mark to the next of a program that has turns natively: it is never more than
# two of them ahead in its turn.
MARK_US = 500
NOT_READY = 600


class Spins:
    """Kernels that write down when they ran."""

    def __init__(self, most, us):
        self.gpu, self.count = Gpu(), 0
        module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        self.gpu.call("cuModuleLoadData", ctypes.byref(module), PTX)
        self.gpu.call("cuModuleGetFunction", ctypes.byref(self.function), module, b"spin")
        self.times = ctypes.c_uint64()
        self.gpu.call("cuMemAlloc_v2", ctypes.byref(self.times), ctypes.c_size_t(16 * most))
        self.at, ns = ctypes.c_uint64(), ctypes.c_uint64(us * 1000)
        self.values = [self.at, ns]
        self.places = (ctypes.c_void_p * 2)(*(ctypes.addressof(v) for v in self.values))

    def launch(self):
        self.at.value = self.times.value + 16 * self.count
        shape = (132, 1, 1, 256, 1, 1, 0)
        self.gpu.call("cuLaunchKernel", self.function, *shape, None, self.places, None)
        self.count += 1

    def mark(self):
        """An event behind what was launched."""
        event = ctypes.c_void_p()
        self.gpu.call("cuEventCreate", ctypes.byref(event), 2)
        self.gpu.call("cuEventRecord", event, None)
        return event

    def ran(self):
        """When each began and ended."""
        self.gpu.call("cuCtxSynchronize")
        out = (ctypes.c_uint64 * (2 * self.count))()
        self.gpu.call("cuMemcpyDtoH_v2", out, self.times, ctypes.c_size_t(16 * self.count))
        return out


class Word:
    """Whose turn it is, natively: a word that both programs see."""

    def __init__(self, path, me, length):
        with open(path, "r+b") as file:
            self.words = mmap.mmap(file.fileno(), 4096)
        self.me, self.length, self.since, self.marks = me, length, None, []

    def take(self):
        if self.since is None:
            while self.words[0] != self.me:
                pass
            self.since, self.marks = time.monotonic(), []

    def pass_on(self, spins):
        """Behind each mark: waits until little is under way, or hands over."""
        ended = lambda event: spins.gpu.cuda.cuEventQuery(event) != NOT_READY
        self.marks.append(spins.mark())
        ends = time.monotonic() - self.since >= self.length
        while len(self.marks) > (0 if ends else 2):
            while not ended(self.marks[0]):
                pass
            spins.gpu.call("cuEventDestroy_v2", self.marks.pop(0))
        if ends:
            self.since, self.words[0] = None, 1 - self.me

    def leave(self):
        self.words[0] = 1 - self.me


def program(out, seconds, us, word):
    """Runs kernels for so long, and writes down when they ran."""
    spins = Spins(int(seconds * 1.2e6 / us) + 10 * STEP, us)
    spins.launch()
    spins.ran()
    print("ready", flush=True)
    sys.stdin.readline()
    steps, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        for _ in range(STEP):
            if word:
                word.take()
            spins.launch()
            if word and spins.count % max(1, MARK_US // us) == 0:
                word.pass_on(spins)
        steps.append(spins.mark())
        if len(steps) > AHEAD:
            event = steps.pop(0)
            spins.gpu.call("cuEventSynchronize", event)
            spins.gpu.call("cuEventDestroy_v2", event)
    if word:
        word.leave()
    pathlib.Path(out).write_bytes(bytes(spins.ran()))


def pair(work, args, prefix, turn_ms=None):
    """Two programs side by side: of each, when its kernels ran."""
    work = pathlib.Path(work)
    (work / "word").write_bytes(bytes(4096))
    both = []
    for me in (0, 1):
        command = [*prefix, sys.executable, __file__, "--program", str(work / f"ran{me}")]
        command += ["--seconds", str(args.seconds), "--kernel-us", str(args.kernel_us)]
        if turn_ms:
            command += ["--word", str(work / "word"), "--me", str(me), "--turn-ms", str(turn_ms)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        both.append(subprocess.Popen(command, start_new_session=True, **pipes))
    try:
        for p in both:
            if p.stdout.readline() != "ready\n":
                sys.exit(f"a program did not begin: {' '.join(p.args)}")
        for p in both:
            p.stdin.write("\n")
            p.stdin.flush()
        for p in both:
            if p.wait(args.seconds + 60):
                sys.exit(f"a program failed: {' '.join(p.args)}")
    finally:
        for p in both:
            stop(p)
    ran = []
    for me in (0, 1):
        words = memoryview((work / f"ran{me}").read_bytes()).cast("Q")
        ran.append(list(zip(words[2::2], words[3::2])))
    return ran


def line(ran):
    """What changes and pauses cost, where both ran and neither had just begun or was to end."""
    begin = max(r[0][0] for r in ran) + int(3e8)
    end = min(r[-1][1] for r in ran) - int(3e8)
    alike = lambda me, each: [(*t, me) for t in each if begin <= t[0] and t[1] <= end]
    all = sorted(itertools.chain(*(alike(me, each) for me, each in enumerate(ran))))
    changes, pauses, last = [], [], all[0]
    until = last[1]
    for now in all[1:]:
        (changes if now[2] != last[2] else pauses).append(now[0] - until)
        last, until = now, max(until, now[1])
    whole = end - begin
    part = lambda gaps: 100 * sum(max(0, g) for g in gaps) / whole
    at = lambda tenths: statistics.quantiles(changes, n=10)[tenths - 1] / 1e3
    apart = part(changes), part(g for g in pauses if g > 1e4)
    middle = " ".join(f"{at(t):.0f}" for t in (1, 5, 9)) if len(changes) > 1 else "-"
    length = whole / 1e6 / max(1, len(changes))
    return f"{length:7.1f}  {middle:>16}  {apart[0]:10.2f}  {apart[1]:20.2f}"


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--dist", help="Busbar's files, as `cargo xtask dist` makes them")
    p.add_argument("--seconds", type=float, default=4, help="how long the programs run")
    p.add_argument("--kernel-us", type=int, default=50, help="how long a kernel takes")
    p.add_argument("--turn-ms", type=float, default=20, help="how long a turn is, natively")
    p.add_argument("--program", help=argparse.SUPPRESS)
    p.add_argument("--word", help=argparse.SUPPRESS)
    p.add_argument("--me", type=int, help=argparse.SUPPRESS)
    args = p.parse_args()
    if args.program:
        word = Word(args.word, args.me, args.turn_ms / 1e3) if args.word else None
        return program(args.program, args.seconds, args.kernel_us, word)
    if not args.dist:
        p.error("--dist is missing")
    print("        turn ms  change us 10 50 90  changes, %  pauses over 10 us, %")
    with tempfile.TemporaryDirectory() as work:
        print("native ", line(pair(work, args, [], args.turn_ms)), flush=True)
        options = ["--turns", "always"]
        with Remote(args.dist, 7861, work, os.path.join(work, "log"), options) as server:
            print("busbar ", line(pair(work, args, server.prefix())), flush=True)


if __name__ == "__main__":
    main()
