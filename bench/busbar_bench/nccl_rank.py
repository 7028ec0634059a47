"""One rank of ``run nccl``: times collectives as nccl-tests do, and checks what comes of them.

It needs ``libcuda.so.1`` and ``libnccl.so.2``, and no other package.
"""

import argparse
import ctypes
import json
import os
import sys
import time
from pathlib import Path

FLOAT, SUM = 7, 0
# How many values are looked at of each piece of a result: at its beginning and its end.
LOOK = 256


class Id(ctypes.Structure):
    """A unique id."""

    _fields_ = [("bytes", ctypes.c_char * 128)]


P, S, I64 = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint64
REDUCING = (I64, I64, S, ctypes.c_int, ctypes.c_int)
# Name: the function, its arguments ahead of communicator and stream, what of its buffers' pieces
# it sends and receives, and its factor from algbw to busbw for n ranks.
COLLECTIVES = {
    "all_reduce": ("ncclAllReduce", REDUCING, (1, 1), lambda n: 2 * (n - 1) / n),
    "broadcast": ("ncclBroadcast", REDUCING, (1, 1), lambda n: 1.0),
    "reduce": ("ncclReduce", (*REDUCING, ctypes.c_int), (1, 1), lambda n: 1.0),
    "all_gather": ("ncclAllGather", REDUCING[:4], (1, 0), lambda n: (n - 1) / n),
    "reduce_scatter": ("ncclReduceScatter", REDUCING, (0, 1), lambda n: (n - 1) / n),
    "alltoall": ("ncclAlltoAll", REDUCING[:4], (0, 0), lambda n: (n - 1) / n),
}


def shape(name, size, ranks):
    """For a table's size: values of the call's count, of what a rank sends, and receives."""
    whole = size // 4
    sends, receives = COLLECTIVES[name][2]
    piece = whole // ranks
    count = whole if (sends, receives) == (1, 1) else piece
    return count, (count if sends else piece * ranks), (count if receives else piece * ranks)


def expected(name, rank, ranks, count):
    """What is received when each rank sends its number plus one, as (first, values, each one)."""
    total = ranks * (ranks + 1) / 2
    if name in ("all_gather", "alltoall"):
        return [(piece * count, count, piece + 1.0) for piece in range(ranks)]
    if name == "broadcast":
        return [(0, count, 1.0)]
    if name == "reduce":
        return [(0, count, total)] if rank == 0 else []
    return [(0, count, total)]


def bandwidth(name, size, seconds, ranks):
    """algbw and busbw in GB/s."""
    algorithm = size / seconds / 1e9
    return algorithm, algorithm * COLLECTIVES[name][3](ranks)


class Failed(Exception):
    """A call failed."""


class Rank:
    """A rank on its device, with a communicator."""

    def __init__(self):
        self.rank, self.ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.cuda, self.nccl = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libnccl.so.2")
        self.nccl.ncclGetLastError.restype = ctypes.c_char_p
        for name in ("cuCtxSetCurrent", "cuStreamSynchronize"):
            getattr(self.cuda, name).argtypes = [P]
        self.cuda.cuMemsetD32Async.argtypes = [I64, ctypes.c_uint, S, P]
        self.cuda.cuMemcpyDtoH_v2.argtypes = [P, I64, S]
        self.cuda.cuMemFree_v2.argtypes = [I64]
        self.cuda.cuMemAlloc_v2.argtypes = [P, S]
        self.nccl.ncclCommInitRank.argtypes = [P, ctypes.c_int, Id, ctypes.c_int]
        self.nccl.ncclCommDestroy.argtypes = [P]
        for function, arguments, _, _ in COLLECTIVES.values():
            getattr(self.nccl, function).argtypes = [*arguments, P, P]
        self.must("cuInit", self.cuda.cuInit(0))
        context = P()
        device = int(os.environ["BENCH_DEVICE"])
        made = self.cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
        self.must("cuDevicePrimaryCtxRetain", made)
        self.must("cuCtxSetCurrent", self.cuda.cuCtxSetCurrent(context))
        self.stream, self.comm = P(), P()
        self.must("cuStreamCreate", self.cuda.cuStreamCreate(ctypes.byref(self.stream), 1))
        made = self.nccl.ncclCommInitRank(
            ctypes.byref(self.comm), self.ranks, self.unique_id(), self.rank
        )
        self.must("ncclCommInitRank", made)

    def must(self, what, code):
        """Raises what a call has failed with."""
        if code:
            said = (self.nccl.ncclGetLastError(None) or b"").decode() if "nccl" in what else ""
            raise Failed(f"rank {self.rank}: {what} failed with {code} {said}".strip())

    def unique_id(self):
        """Made by rank 0, and handed on by a file."""
        at, made = Path(os.environ["BENCH_STORE"]) / "id", Id()
        if self.rank == 0:
            self.must("ncclGetUniqueId", self.nccl.ncclGetUniqueId(ctypes.byref(made)))
            at.with_suffix(".new").write_bytes(bytes(made))
            at.with_suffix(".new").rename(at)
            return made
        while not at.exists():
            time.sleep(0.005)
        ctypes.memmove(ctypes.byref(made), at.read_bytes(), ctypes.sizeof(made))
        return made

    def version(self):
        """NCCL's."""
        found = ctypes.c_int()
        self.must("ncclGetVersion", self.nccl.ncclGetVersion(ctypes.byref(found)))
        return found.value

    def buffer(self, size):
        """Device memory."""
        at = I64()
        self.must("cuMemAlloc", self.cuda.cuMemAlloc_v2(ctypes.byref(at), max(size, 4)))
        return at.value

    def fill(self, at, value, n):
        """So many values."""
        bits = ctypes.c_uint.from_buffer(ctypes.c_float(value))
        self.must("cuMemsetD32", self.cuda.cuMemsetD32Async(at, bits, n, self.stream))

    def synchronize(self):
        """Waits for the stream."""
        self.must("cuStreamSynchronize", self.cuda.cuStreamSynchronize(self.stream))

    def call(self, name, send, recv, count):
        """Queues one collective."""
        function, arguments, _, _ = COLLECTIVES[name]
        more = {4: (), 5: (SUM,), 6: (SUM, 0)}[len(arguments)]
        if name == "broadcast":
            more = (0,)
        made = getattr(self.nccl, function)(send, recv, count, FLOAT, *more, self.comm, self.stream)
        self.must(function, made)

    def wrong(self, name, recv, count):
        """How many of the values that are looked at are not what they should be."""
        found = 0
        for first, n, value in expected(name, self.rank, self.ranks, count):
            for at in {first, first + max(0, n - LOOK)}:
                many = min(LOOK, first + n - at)
                host = (ctypes.c_float * many)()
                size = ctypes.sizeof(host)
                self.must("cuMemcpyDtoH", self.cuda.cuMemcpyDtoH_v2(host, recv + 4 * at, size))
                found += sum(v != value for v in host)
        return found

    def time(self, name, size, rounds, warm, in_place):
        """One line: seconds a call, and values that are wrong."""
        count, sends, receives = shape(name, size, self.ranks)
        if in_place:
            # As nccl-tests have it: where a rank has a piece of the other buffer, at that.
            both = self.buffer(4 * max(sends, receives))
            offset = 4 * count * self.rank
            send = both + (offset if sends < receives else 0)
            recv = both + (offset if receives < sends else 0)
        else:
            both = None
            send, recv = self.buffer(4 * sends), self.buffer(4 * receives)
        for _ in range(warm):
            self.call(name, send, recv, count)
        self.synchronize()
        began = time.perf_counter()
        for _ in range(rounds):
            self.call(name, send, recv, count)
        queued = time.perf_counter() - began
        self.synchronize()
        took = time.perf_counter() - began
        self.fill(send, self.rank + 1.0, sends)
        self.call(name, send, recv, count)
        self.synchronize()
        wrong = self.wrong(name, recv, count)
        for at in [both] if both else [send, recv]:
            self.must("cuMemFree", self.cuda.cuMemFree_v2(at))
        return {
            "collective": name,
            "bytes": size,
            "count": count,
            "in_place": in_place,
            "rank": self.rank,
            "seconds": took / rounds,
            "queue_seconds": queued / rounds,
            "wrong": wrong,
        }


def sizes(least, most, factor):
    """Each size, from the least to the most."""
    size = least
    while size <= most:
        yield size
        size *= factor


def main(argv=None):
    """Measures; prints a JSON line for each."""
    parser = argparse.ArgumentParser(prog="python -m busbar_bench.nccl_rank", description=__doc__)
    parser.add_argument("--collectives", default=",".join(COLLECTIVES))
    parser.add_argument("--least", type=int, default=8)
    parser.add_argument("--most", type=int, default=1 << 30)
    parser.add_argument("--factor", type=int, default=2)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=5)
    args = parser.parse_args(argv)
    try:
        rank = Rank()
        if rank.rank == 0:
            print(json.dumps({"version": rank.version(), "ranks": rank.ranks}), flush=True)
        for name in args.collectives.split(","):
            for size in sizes(max(args.least, 4 * rank.ranks), args.most, args.factor):
                # There is no such thing as an exchange of all with all in place.
                for in_place in (False, True)[: 1 if name == "alltoall" else 2]:
                    line = rank.time(name, size, args.iterations, args.warmup, in_place)
                    print(json.dumps(line), flush=True)
        rank.must("ncclCommDestroy", rank.nccl.ncclCommDestroy(rank.comm))
    except (Failed, OSError) as error:
        print(f"busbar-bench: {error}", file=sys.stderr, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
