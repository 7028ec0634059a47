"""A program of the CUDA driver API, as the lane runs it: memory goes to a device and comes back."""

import ctypes
import sys

cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *args):
    status = getattr(cuda, name)(*args)
    if status:
        sys.exit(f"{name} failed: {status}")


device, context = ctypes.c_int(), ctypes.c_void_p()
name = ctypes.create_string_buffer(100)
call("cuInit", 0)
call("cuDeviceGet", ctypes.byref(device), 0)
call("cuDeviceGetName", name, len(name), device)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
call("cuCtxSetCurrent", context)
sent = bytes(range(256)) * 4096
back = ctypes.create_string_buffer(len(sent))
memory, size = ctypes.c_uint64(), ctypes.c_size_t(len(sent))
call("cuMemAlloc_v2", ctypes.byref(memory), size)
call("cuMemcpyHtoD_v2", memory, sent, size)
call("cuMemcpyDtoH_v2", back, memory, size)
call("cuMemFree_v2", memory)
if back.raw != sent:
    sys.exit("other bytes came back than were sent")
print(f"{len(sent)} bytes to {name.value.decode()} and back")
