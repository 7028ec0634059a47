"""Stands for a program that trains: it finds its devices, and takes memory of each."""

import ctypes
import sys

cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *args):
    status = getattr(cuda, name)(*args)
    if status:
        sys.exit(f"{name} failed: {status}")


count, device, context = ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p()
memory, free, total = ctypes.c_uint64(), ctypes.c_size_t(), ctypes.c_size_t()
call("cuInit", 0)
call("cuDeviceGetCount", ctypes.byref(count))
for ordinal in range(count.value):
    call("cuDeviceGet", ctypes.byref(device), ordinal)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(1 << 20))
    call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
print(f"trained on {count.value} GPUs of {total.value >> 30} GiB")
