"""What other processes may look at has reached the driver when a call returns.

Told where the simulated driver writes down its calls, counts them: a process that is told of one of
these calls asks by a way of its own.
"""

import ctypes as C
import sys

from cuda_driver import Prop, begin, call, cu, sz, u64, vp


class Handle(C.Structure):
    _fields_ = [("r", C.c_ubyte * 64)]


cu.cuIpcOpenEventHandle.argtypes = [vp, Handle]


def calls(name):
    with open(sys.argv[1]) as log:
        return sum(line.startswith(name) for line in log)


def arrive(what, name, times, *args):
    """Says how many of the calls the driver has seen each time when they have returned."""
    before = calls(name)
    seen = []
    for _ in range(times):
        call(*args)
        seen.append(calls(name) - before)
    print(what, seen == list(range(1, times + 1)) or seen)


begin()
stream = vp()
call("cuStreamCreate", C.byref(stream), 1)

event, handle = vp(), Handle()
call("cuEventCreate", C.byref(event), 6)
call("cuIpcGetEventHandle", C.byref(handle), event)
arrive("records of an event", "cuEventRecord", 20, "cuEventRecord", event, stream)
arrive("waits for it", "cuStreamWaitEvent", 20, "cuStreamWaitEvent", stream, event, 0)
theirs = vp()
call("cuIpcOpenEventHandle", C.byref(theirs), handle)
arrive("records of another's", "cuEventRecord", 20, "cuEventRecord", theirs, stream)
arrive("waits for that", "cuStreamWaitEvent", 20, "cuStreamWaitEvent", stream, theirs, 0)
call("cuEventDestroy_v2", theirs)

# Created memory that is passed on by a descriptor.
made, at, fd = u64(), u64(), C.c_int()
prop = Prop(type=1, handles=1, where=(1, 0))
call("cuMemCreate", C.byref(made), sz(2 << 20), C.byref(prop), u64(0))
call("cuMemAddressReserve", C.byref(at), sz(2 << 20), sz(0), u64(0), u64(0))
call("cuMemMap", at, sz(2 << 20), sz(0), made, u64(0))
lets = (C.c_int * 3)(1, 0, 3)
call("cuMemSetAccess", at, sz(2 << 20), lets, sz(1))
call("cuMemExportToShareableHandle", C.byref(fd), made, 1, u64(0))
word = C.c_int(5)
arrive("copies to such memory", "cuMemcpyHtoD", 20, "cuMemcpyHtoD_v2", at, C.byref(word), sz(4))
