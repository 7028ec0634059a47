"""Two processes share device memory."""

import ctypes as C
import subprocess
import sys


def ok(rc, what):
    if rc:
        print("FAILED", what, rc, flush=True)
        sys.exit(1)


u64 = C.c_uint64
vp = C.c_void_p
sz = C.c_size_t


class H(C.Structure):
    _fields_ = [("r", C.c_ubyte * 64)]


cu = C.CDLL("libcuda.so.1")


def call(n, *a):
    ok(getattr(cu, n)(*a), n)


cu.cuIpcOpenMemHandle_v2.argtypes = [vp, H, C.c_uint]
call("cuInit", 0)
d = C.c_int()
call("cuDeviceGet", C.byref(d), 0)
ctx = vp()
call("cuDevicePrimaryCtxRetain", C.byref(ctx), d)
call("cuCtxSetCurrent", ctx)
if len(sys.argv) > 1:
    h = H((C.c_ubyte * 64)(*bytes.fromhex(sys.argv[1])))
    p = u64()
    q = u64()
    call("cuIpcOpenMemHandle_v2", C.byref(p), h, 1)
    call("cuIpcOpenMemHandle_v2", C.byref(q), h, 1)
    b, n = u64(), sz()
    call("cuMemGetAddressRange_v2", C.byref(b), C.byref(n), p)
    buf = (C.c_uint32 * 4)()
    call("cuMemcpyDtoH_v2", buf, p, sz(16))
    print("child reads", list(buf), p.value == q.value, n.value)
    call("cuMemsetD32_v2", p, C.c_uint32(42), sz(2))
    call("cuCtxSynchronize")
    call("cuIpcCloseMemHandle", p)
    call("cuMemcpyDtoH_v2", buf, q, sz(16))
    call("cuIpcCloseMemHandle", q)
    print("closed twice", cu.cuIpcCloseMemHandle(q))
    bad = H()
    print("made up", cu.cuIpcOpenMemHandle_v2(C.byref(p), bad, 1))
    w = bytearray(bytes(h.r))
    w[20] ^= 1
    print("wrong secret", cu.cuIpcOpenMemHandle_v2(C.byref(p), H((C.c_ubyte * 64)(*w)), 1))
    w[9] ^= 1
    print("wrong worker", cu.cuIpcOpenMemHandle_v2(C.byref(p), H((C.c_ubyte * 64)(*w)), 1))
    sys.exit(0)
for size in (1000, 3 << 20):
    x = u64()
    call("cuMemAlloc_v2", C.byref(x), sz(100))
    p = u64()
    call("cuMemAlloc_v2", C.byref(p), sz(size))
    call("cuMemsetD32_v2", p, C.c_uint32(size), sz(4))
    call("cuCtxSynchronize")
    h = H()
    call("cuIpcGetMemHandle", C.byref(h), p)
    g = H()
    call("cuIpcGetMemHandle", C.byref(g), p)
    print("same", bytes(h.r) == bytes(g.r), flush=True)
    r = subprocess.run(
        [sys.executable, sys.argv[0], bytes(h.r).hex()], capture_output=True, text=True
    )
    print(r.stdout, r.stderr, r.returncode)
    buf = (C.c_uint32 * 4)()
    call("cuMemcpyDtoH_v2", buf, p, sz(16))
    print("parent reads", list(buf))
    call("cuMemFree_v2", p)
print("not ours", cu.cuIpcGetMemHandle(C.byref(h), u64(4096)))
