"""What programs of the driver's functions begin with: the library, calls that must succeed, a
device's primary context, and how memory is created."""

import ctypes as C
import os
import sys

u64, vp, sz = C.c_uint64, C.c_void_p, C.c_size_t
cu = C.CDLL("libcuda.so.1")


class Prop(C.Structure):
    """`CUmemAllocationProp`."""

    _fields_ = [("type", C.c_int), ("handles", C.c_int), ("where", C.c_int * 2),
                ("rest", C.c_ubyte * 16)]


def call(name, *args):
    """Calls a function; ends the process, a child as well, where it fails."""
    rc = getattr(cu, name)(*args)
    if rc:
        print("FAILED", name, rc)
        sys.stdout.flush()
        os._exit(1)


def begin():
    """Has the first device's primary context be the current one."""
    d, ctx = C.c_int(), vp()
    call("cuInit", 0)
    call("cuDeviceGet", C.byref(d), 0)
    call("cuDevicePrimaryCtxRetain", C.byref(ctx), d)
    call("cuCtxSetCurrent", ctx)
