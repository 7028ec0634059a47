"""Ranks of a job, and a launcher of them: `job.py launch [FLAGS] MODE`.

The launcher does what torchrun, mpirun, horovodrun and others do: it starts a process for each
rank, and says by the variables of that launcher which one it is. Ranks meet by files in a folder,
as others do by a store. What ranks print comes out in their order.
"""

import argparse
import atexit
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

STYLES = {
    "torchrun": ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    "mpirun": (
        "OMPI_COMM_WORLD_RANK",
        "OMPI_COMM_WORLD_SIZE",
        "OMPI_COMM_WORLD_LOCAL_RANK",
        "OMPI_COMM_WORLD_LOCAL_SIZE",
    ),
    "hydra": ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    "deepspeed": ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_SIZE"),
    "script": ("RANK", "WORLD_SIZE", "LOCAL_RANK", "JOB_LOCALS"),
    "mvapich": (
        "MV2_COMM_WORLD_RANK",
        "MV2_COMM_WORLD_SIZE",
        "MV2_COMM_WORLD_LOCAL_RANK",
        "MV2_COMM_WORLD_LOCAL_SIZE",
    ),
    "srun": (
        "SLURM_PROCID",
        "SLURM_STEP_NUM_TASKS",
        "SLURM_LOCALID",
        "SLURM_STEP_TASKS_PER_NODE",
    ),
    "horovodrun": ("HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE"),
}
MODES = ["sum", "look", "names", "on", "blocked", "late", "computes", "elastic"]
SUM, FLOAT = 0, 7


class Id(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 128)]


def must(what, rc):
    if rc:
        said = nccl.ncclGetLastError(None) if what.startswith("nccl") else b""
        print(f"{what}: {rc} {(said or b'').decode()}".strip(), flush=True)
        sys.exit(3)


def say(*words):
    print(*words, flush=True)


def load():
    global cuda, nccl
    cuda, nccl = ctypes.CDLL("libcuda.so.1"), ctypes.CDLL("libnccl.so.2")
    nccl.ncclGetLastError.restype = ctypes.c_char_p
    nccl.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, Id, ctypes.c_int]
    reduce = [ctypes.c_uint64, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_int, ctypes.c_int]
    nccl.ncclAllReduce.argtypes = [*reduce, ctypes.c_void_p, ctypes.c_void_p]
    nccl.ncclCommGetAsyncError.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
    nccl.ncclCommDestroy.argtypes = nccl.ncclCommAbort.argtypes = [ctypes.c_void_p]
    cuda.cuCtxSetCurrent.argtypes = cuda.cuStreamSynchronize.argtypes = [ctypes.c_void_p]
    cuda.cuStreamQuery.argtypes = [ctypes.c_void_p]
    cuda.cuLaunchHostFunc.argtypes = [ctypes.c_void_p] * 3
    cuda.cuMemcpyHtoD_v2.argtypes = [ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t]
    cuda.cuMemcpyDtoH_v2.argtypes = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_size_t]


class Rank:
    """A rank on its device."""

    def __init__(self, mode):
        self.mode = mode
        names = STYLES[os.environ["JOB_STYLE"]]
        self.rank, self.ranks, self.local, self.locals = (int(os.environ[n]) for n in names)
        load()
        must("cuInit", cuda.cuInit(0))
        count = ctypes.c_int()
        must("count", cuda.cuDeviceGetCount(ctypes.byref(count)))
        self.device = self.local if count.value > 1 else 0
        self.count = count.value
        context = ctypes.c_void_p()
        must("retain", cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), self.device))
        must("current", cuda.cuCtxSetCurrent(context))
        self.stream = ctypes.c_void_p()
        must("stream", cuda.cuStreamCreate(ctypes.byref(self.stream), 1))
        self.comm = ctypes.c_void_p()

    def meet(self, number=0):
        uid, name = Id(), f"id-{number}"
        if self.rank == 0:
            must("ncclGetUniqueId", nccl.ncclGetUniqueId(ctypes.byref(uid)))
            put(name, bytes(uid))
        else:
            ctypes.memmove(ctypes.byref(uid), got(name), ctypes.sizeof(uid))
        made = nccl.ncclCommInitRank(ctypes.byref(self.comm), self.ranks, uid, self.rank)
        must("ncclCommInitRank", made)

    def buffer(self, values):
        at = ctypes.c_uint64()
        must("alloc", cuda.cuMemAlloc_v2(ctypes.byref(at), 4 * len(values)))
        host = (ctypes.c_float * len(values))(*values)
        must("put", cuda.cuMemcpyHtoD_v2(at, host, ctypes.sizeof(host)))
        return at

    def read(self, at, n):
        host = (ctypes.c_float * n)()
        must("get", cuda.cuMemcpyDtoH_v2(host, at, ctypes.sizeof(host)))
        return list(host)

    def reduce(self, a, b, n):
        return nccl.ncclAllReduce(a, b, n, FLOAT, SUM, self.comm, self.stream)

    def trouble(self):
        """What has become of the communicator: a code, and a sentence."""
        code = ctypes.c_int()
        asked = nccl.ncclCommGetAsyncError(self.comm, ctypes.byref(code))
        return asked or code.value, (nccl.ncclGetLastError(None) or b"").decode()

    def run(self):
        say(f"rank {self.rank} of {self.ranks}: {self.count} devices, mine is {self.device}")
        if self.mode == "names":
            self.names()
            return
        if self.mode == "look":
            sys.stdin.read()
            return
        if self.mode == "elastic":
            self.elastic()
            return
        self.meet()
        a, b = self.buffer([self.rank + 1.0, 0.5]), self.buffer([0.0, 0.0])
        must("ncclAllReduce", self.reduce(a, b, 2))
        must("sync", cuda.cuStreamSynchronize(self.stream))
        say(f"rank {self.rank}: sums {self.read(b, 2)}")
        if self.mode in ("late", "computes"):
            self.keep_others(a, b)
        if self.mode != "on" and self.mode != "blocked":
            must("ncclCommDestroy", nccl.ncclCommDestroy(self.comm))
            return
        self.wait(a, b)

    def elastic(self):
        """Sums on and on with those that a file `round-N` names. When one is lost it leaves what
        they had made, and meets those of the next round, until there is a file `go`."""
        me, number = self.rank, int(os.environ["JOB_ROUND"])
        a, b = self.buffer([0.0, 0.0]), self.buffer([0.0, 0.0])
        go = Path(os.environ["JOB_STORE"]) / "go"
        while True:
            members = list(map(int, got(f"round-{number}").split()))
            self.rank, self.ranks = members.index(me), len(members)
            self.meet(number)
            sums = 0
            while True:
                # The first of them says for all when they end.
                mine = (ctypes.c_float * 2)(me + 1, self.rank == 0 and go.exists())
                must("put", cuda.cuMemcpyHtoD_v2(a, mine, ctypes.sizeof(mine)))
                code = self.reduce(a, b, 2)
                while not code and cuda.cuStreamQuery(self.stream) == 600:
                    code = self.trouble()[0]
                    time.sleep(0.005)
                found, why = self.trouble()
                code = code or found
                if code:
                    break
                total, end = self.read(b, 2)
                if total != sum(members) + len(members):
                    say(f"rank {me}: round {number}: {total} is no sum of {members}")
                    sys.exit(4)
                if end:
                    must("ncclCommDestroy", nccl.ncclCommDestroy(self.comm))
                    say(f"rank {me}: round {number}: ends as one of {members}")
                    return
                sums += 1
                if sums == 3:
                    say(f"rank {me}: round {number}: goes on")
            must("ncclCommAbort", nccl.ncclCommAbort(self.comm))
            say(f"rank {me}: round {number}: error {code}: {why}")
            number += 1

    def names(self):
        """What devices are told apart by, as CUDA and as NVML have it."""
        for i in range(self.count):
            uuid, found = (ctypes.c_ubyte * 16)(), ctypes.c_int(-1)
            place = ctypes.create_string_buffer(16)
            must("uuid", cuda.cuDeviceGetUuid_v2(uuid, i))
            must("place", cuda.cuDeviceGetPCIBusId(place, 16, i))
            must("by place", cuda.cuDeviceGetByPCIBusId(ctypes.byref(found), place))
            say(f"rank {self.rank}: cuda {i} {bytes(uuid).hex()} {place.value.decode()}")
            if found.value != i:
                say(f"rank {self.rank}: at the place of {i} is {found.value}")
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        must("nvmlInit", nvml.nvmlInit_v2())
        count, device, found = ctypes.c_uint(), ctypes.c_void_p(), ctypes.c_void_p()
        must("nvml count", nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)))
        for i in range(count.value):
            uuid, info = ctypes.create_string_buffer(96), ctypes.create_string_buffer(68)
            must("nvml device", nvml.nvmlDeviceGetHandleByIndex_v2(i, ctypes.byref(device)))
            must("nvml uuid", nvml.nvmlDeviceGetUUID(device, uuid, 96))
            must("nvml place", nvml.nvmlDeviceGetPciInfo_v3(device, info))
            name = uuid.value.decode().removeprefix("GPU-").replace("-", "")
            say(f"rank {self.rank}: nvml {i} {name} {info.value.decode()}")
            at = nvml.nvmlDeviceGetHandleByPciBusId_v2(info[36:], ctypes.byref(found))
            must("nvml by place", at)
            if found.value != device.value:
                say(f"rank {self.rank}: at NVML's place of {i} is another")

    def keep_others(self, a, b):
        """Sums once more; the last rank lets the others wait until there is a file `go`: it does
        something else before it, or its device does."""
        go = Path(os.environ["JOB_STORE"]) / "go"

        def until(_):
            while not go.exists():
                time.sleep(0.01)

        say(f"rank {self.rank}: goes on")
        last = self.rank == self.ranks - 1
        if last and self.mode == "late":
            until(None)
        work = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(until)
        if last and self.mode == "computes":
            must("host function", cuda.cuLaunchHostFunc(self.stream, work, None))
        must("ncclAllReduce", self.reduce(b, a, 2))
        must("sync", cuda.cuStreamSynchronize(self.stream))
        say(f"rank {self.rank}: sums again {self.read(a, 2)}")

    def wait(self, a, b):
        """Sums on and on, as a trainer does: asks what has become of it, and ends at an error. In
        mode `blocked` it asks nothing, and waits for its device."""
        say(f"rank {self.rank}: goes on")
        while True:
            rc = self.reduce(a, b, 2)
            if self.mode == "blocked":
                must("sync", cuda.cuStreamSynchronize(self.stream))
                continue
            while not rc and cuda.cuStreamQuery(self.stream) == 600:
                if self.trouble()[0]:
                    break
                time.sleep(0.02)
            code, why = self.trouble()
            if code:
                say(f"rank {self.rank}: error {code}: {why}")
                nccl.ncclCommAbort(self.comm)
                sys.exit(4)
            time.sleep(0.02)


def put(name, value):
    """Gives a file of the store to others, whole."""
    at = Path(os.environ["JOB_STORE"]) / name
    new = at.with_name(name + ".new")
    new.write_bytes(value)
    new.rename(at)


def got(name):
    """What a file of the store has, when it is there."""
    at = Path(os.environ["JOB_STORE"]) / name
    while not at.exists():
        time.sleep(0.01)
    return at.read_bytes()


def die_with_parent():
    """A launcher that is killed leaves nobody behind who waits for others."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def launch(a):
    store = a.store
    if not store:
        store = tempfile.mkdtemp(prefix="job-")
        atexit.register(shutil.rmtree, store, ignore_errors=True)
    os.environ["JOB_STORE"] = store
    names, ranks = STYLES[a.style], {}

    def begin(local, number=0):
        rank, world = a.node * a.n + local, a.nodes * a.n
        env = dict(os.environ, JOB_STYLE=a.style, JOB_ROUND=str(number))
        env.update(zip(names, map(str, (rank, world, local, a.n)), strict=True))
        if a.style == "deepspeed":
            env["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, range(a.n)))
        if a.visible:
            env["CUDA_VISIBLE_DEVICES"] = str(local)
        command = [sys.executable, __file__, "rank", a.mode]
        out = open(f"{store}/{rank}", "a+")
        stdin = subprocess.PIPE if a.mode == "look" else subprocess.DEVNULL
        err = open(f"{store}/{rank}.err", "a") if a.follow else None
        child = subprocess.Popen(
            command, env=env, stdout=out, stderr=err, stdin=stdin, preexec_fn=die_with_parent
        )
        ranks[rank] = (child, out)
        if a.follow:
            say(f"process {rank} {child.pid}")

    put("round-0", " ".join(map(str, range(a.n * a.nodes))).encode())
    for local in range(a.n):
        begin(local)
    worst = 0
    if a.follow:
        number = 0
        for line in sys.stdin:
            if line.strip() == "end":
                break
            # The ranks of the next round: those that are gone are started again.
            number += 1
            for rank in map(int, line.split()):
                if ranks[rank][0].poll() is not None:
                    worst = max(worst, abs(ranks[rank][0].returncode))
                    begin(rank, number)
            put(f"round-{number}", line.encode())
    for child, out in ranks.values():
        if child.stdin:
            child.stdin.close()
        worst = max(worst, abs(child.wait()))
        out.seek(0)
        sys.stdout.write(out.read())
    sys.exit(worst)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("what", choices=["launch", "rank"])
    p.add_argument("mode", choices=MODES)
    p.add_argument("-n", type=int, default=2)
    p.add_argument("--style", choices=sorted(STYLES), default="torchrun")
    p.add_argument("--visible", action="store_true", help="each rank sees its device alone")
    p.add_argument("--nodes", type=int, default=1)
    p.add_argument("--node", type=int, default=0)
    p.add_argument("--store")
    p.add_argument("--follow", action="store_true", help="print the processes; wait for `end`")
    a = p.parse_args()
    if a.what == "rank":
        Rank(a.mode).run()
    else:
        launch(a)


if __name__ == "__main__":
    main()
