"""Copies of pageable, page-locked and registered memory, short and long, behind each other."""

import ctypes as C
import hashlib
import random
import sys
import threading

cu = C.CDLL("libcuda.so.1")
u64, vp, sz = C.c_uint64, C.c_void_p, C.c_size_t
MIB = 1 << 20


def call(name, *args):
    rc = getattr(cu, name)(*args)
    if rc:
        print("FAILED", name, rc)
        sys.exit(1)


call("cuInit", 0)
context = vp()
call("cuDevicePrimaryCtxRetain", C.byref(context), 0)
call("cuCtxSetCurrent", context)
stream = vp()
call("cuStreamCreate", C.byref(stream), 1)
device = u64()
call("cuMemAlloc_v2", C.byref(device), sz(28 * MIB))
rng = random.Random(5)
pattern = rng.randbytes(28 * MIB)


def digest(at, n):
    return hashlib.md5(C.string_at(at, n)).hexdigest()[:12]


def host_alloc(n):
    p = vp()
    call("cuMemHostAlloc", C.byref(p), sz(n), 0)
    return p.value


def round_trip(what, out, back, n, later):
    """Sends n bytes from `out`, brings them back to `back`."""
    C.memmove(out, pattern[: n], n)
    C.memset(back, 0, n)
    if later:
        call("cuMemcpyHtoDAsync_v2", device, vp(out), sz(n), stream)
        call("cuMemcpyDtoHAsync_v2", vp(back), device, sz(n), stream)
        call("cuStreamSynchronize", stream)
    else:
        call("cuMemcpyHtoD_v2", device, vp(out), sz(n))
        call("cuMemcpyDtoH_v2", vp(back), device, sz(n))
    good = C.string_at(back, n) == pattern[:n]
    print(what, n, "later" if later else "now", good, digest(back, n))


pageable = [(C.c_char * (10 * MIB))() for _ in range(2)]
pinned = [host_alloc(10 * MIB) for _ in range(2)]
registered = [(C.c_char * (10 * MIB))() for _ in range(2)]
for r in registered:
    call("cuMemHostRegister_v2", vp(C.addressof(r)), sz(10 * MIB), 0)
kinds = {
    "pageable": [C.addressof(p) for p in pageable],
    "pinned": pinned,
    "registered": [C.addressof(r) for r in registered],
}
for n in (1, 4097, 65536, 262144, 300001, MIB, 3 * MIB + 3, 9 * MIB + 77):
    for name, (out, back) in kinds.items():
        for later in (False, True):
            round_trip(name, out + 13, back + 7, n, later)

# Into the middle of what is there.
call("cuMemcpyHtoD_v2", device, vp(pinned[0]), sz(8 * MIB))
call("cuMemcpyHtoD_v2", u64(device.value + MIB), vp(pinned[0] + 100), sz(MIB))
call("cuMemcpyDtoH_v2", vp(pinned[1]), device, sz(8 * MIB))
print("middle", digest(pinned[1], 8 * MIB))

# Memory that comes and goes while copies are under way.
small = [host_alloc(rng.randrange(1, 5000)) for _ in range(50)]
print("small", len(set(small)), all(p % 512 == 0 for p in small))
for p in small:
    call("cuMemFreeHost", vp(p))
kept = []
for i in range(16):
    n = rng.randrange(1, 5 * MIB)
    p = host_alloc(n)
    C.memset(p, i, n)
    call("cuMemcpyHtoDAsync_v2", device, vp(p), sz(n), stream)
    if i % 3:
        call("cuMemFreeHost", vp(p))
    else:
        kept.append(p)
    if i % 5 == 0:
        call("cuStreamSynchronize", stream)
        call("cuMemcpyDtoH_v2", vp(pinned[1]), device, sz(n))
        print("freed", i, C.string_at(pinned[1], n) == bytes([i]) * n)
for p in kept:
    call("cuMemFreeHost", vp(p))

# A stream that waits for the program: a copy behind it must not hold up the program.
go = threading.Event()
HostFunction = C.CFUNCTYPE(None, vp)
wait = HostFunction(lambda _: (go.wait(20), None)[1])
call("cuLaunchHostFunc", stream, wait, None)
long = C.create_string_buffer(pattern, 28 * MIB)
call("cuMemcpyHtoDAsync_v2", device, long, sz(28 * MIB), stream)
C.memset(long, 0, 28 * MIB)
print("returned", not go.is_set())
go.set()
call("cuStreamSynchronize", stream)
call("cuMemcpyDtoH_v2", long, device, sz(28 * MIB))
print("behind", C.string_at(long, 28 * MIB) == pattern)

if "in-order" in sys.argv:
    # The device reads page-locked memory when the copy's turn comes.
    fill = HostFunction(lambda _: C.memset(pinned[0], 42, 1000) and None)
    C.memset(pinned[0], 1, 1000)
    call("cuLaunchHostFunc", stream, fill, None)
    call("cuMemcpyHtoDAsync_v2", device, vp(pinned[0]), sz(1000), stream)
    call("cuMemcpyDtoHAsync_v2", vp(pinned[0]), device, sz(500), stream)
    call("cuMemcpyHtoDAsync_v2", u64(device.value + 500), vp(pinned[0]), sz(100), stream)
    call("cuStreamSynchronize", stream)
    call("cuMemcpyDtoH_v2", vp(pinned[1]), device, sz(1000))
    print("in order", set(C.string_at(pinned[1], 1000)))
    call("cuMemsetD8Async", u64(pinned[0]), 9, sz(64), stream)
    call("cuStreamSynchronize", stream)
    print("filled", C.string_at(pinned[0], 65)[60:])

# Errors of copies are the program's to hear of.
beyond = u64(device.value + (1 << 39))
print("wrong", cu.cuMemcpyHtoDAsync_v2(beyond, vp(pinned[0]), sz(MIB), stream))
print("wrong", cu.cuMemcpyDtoH_v2(vp(pinned[0]), beyond, sz(MIB)))
for r in registered:
    call("cuMemHostUnregister", vp(C.addressof(r)))
for p in pinned:
    call("cuMemFreeHost", vp(p))
print("again", cu.cuMemFreeHost(vp(pinned[0])))
print("done")
