"""Which devices a program sees, by `CUDA_VISIBLE_DEVICES` and `CUDA_DEVICE_ORDER`."""
import os
import subprocess
import sys

ASK = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
n = ctypes.c_int(-1)
rc = cuda.cuInit(0)
print("init", rc, "count", cuda.cuDeviceGetCount(ctypes.byref(n)), n.value, end=" ")
for i in range(max(n.value, 0)):
    bus, device = ctypes.create_string_buffer(32), ctypes.c_int()
    cuda.cuDeviceGet(ctypes.byref(device), i)
    print("bus", cuda.cuDeviceGetPCIBusId(bus, 32, device), len(bus.value), end=" ")
print("past the end", cuda.cuDeviceGet(ctypes.byref(n), 64))
"""
UUID = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
cuda.cuInit(0)
raw = (ctypes.c_ubyte * 16)()
if cuda.cuDeviceGetUuid_v2(raw, 0) == 0:
    h = bytes(raw).hex()
    print("GPU-" + "-".join((h[:8], h[8:12], h[12:16], h[16:20], h[20:])))
"""


def child(code, **settings):
    env = {
        k: v
        for k, v in os.environ.items()
        if k not in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
    }
    r = subprocess.run(
        [sys.executable, "-c", code], env=dict(env, **settings), capture_output=True, text=True
    )
    return r.stdout.strip() or f"exit {r.returncode}: {r.stderr.strip()[-200:]}"


print("all:", child(ASK))
uuid = child(UUID)
for name, value in (
    ("none", ""),
    ("minus one", "-1"),
    ("first", "0"),
    ("first, then no such", "0,99"),
    ("no such, then first", "99,0"),
    ("twice", "0,0"),
    ("words", "gpu"),
    ("spaces", " 0 "),
    ("uuid", uuid),
    ("start of the uuid", uuid[:12]),
    ("no such uuid", "GPU-00000000"),
):
    print(f"{name}:", child(ASK, CUDA_VISIBLE_DEVICES=value))
for order in ("PCI_BUS_ID", "FASTEST_FIRST", "nonsense"):
    print(f"{order}:", child(ASK, CUDA_DEVICE_ORDER=order))
