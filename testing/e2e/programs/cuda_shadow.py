"""Managed, mapped and registered memory with the simulated driver's kernels."""

import ctypes as C
import sys

cu = C.CDLL("libcuda.so.1")


def ok(rc, what=""):
    if rc:
        print("FAILED", what, rc)
        sys.exit(1)


u64 = C.c_uint64
vp = C.c_void_p
sz = C.c_size_t


def call(name, *a):
    f = getattr(cu, name)
    ok(f(*a), name)


call("cuInit", 0)
dev = C.c_int()
call("cuDeviceGet", C.byref(dev), 0)
ctx = vp()
call("cuDevicePrimaryCtxRetain", C.byref(ctx), dev)
call("cuCtxSetCurrent", ctx)
mod = vp()
img = (
    b"fakedev-module 1\nkernel fill fill_u32\nkernel iota iota\nkernel saxpy saxpy\n"
    b"kernel copy copy\nkernel scramble scramble\n\0"
)
call("cuModuleLoadData", C.byref(mod), img)


def fn(n):
    f = vp()
    call("cuModuleGetFunction", C.byref(f), mod, n.encode())
    return f


F = {n: fn(n) for n in ("fill", "iota", "saxpy", "copy", "scramble")}


def launch(name, *args, stream=None):
    arr = (vp * len(args))(*[C.cast(C.byref(a), vp) for a in args])
    call("cuLaunchKernel", F[name], 1, 1, 1, 1, 1, 1, 0, stream, arr, None)


def sync():
    call("cuCtxSynchronize")


U32 = C.c_uint32
N = 300000
# managed: host writes, kernel, host reads
p = u64()
call("cuMemAllocManaged", C.byref(p), sz(4 * N), 1)
a = (U32 * N).from_address(p.value)
for i in range(0, N, 1000):
    a[i] = i
launch("scramble", p, u64(7), u64(N // 2))
launch("scramble", p, u64(7), u64(N // 2))
sync()
print("round trip", all(a[i] == i for i in range(0, N, 1000)))
launch("iota", p, U32(5), u64(N))
s = vp()
call("cuStreamCreate", C.byref(s), 1)
sync()
print("iota", a[0], a[1], a[N - 1], sum(a[i] for i in range(0, N, 777)))
a[10] = 99
a[N - 1] = 77
h = (U32 * N)()
call("cuMemcpyDtoH_v2", h, p, sz(4 * N))
print("copied", h[9], h[10], h[N - 1])
call("cuMemsetD32_v2", p, U32(3), sz(N))
sync()
print("memset", a[0], a[10], a[N - 1])
# copy into managed then look without a sync
for i in range(N):
    h[i] = i * 2
call("cuMemcpyHtoD_v2", p, h, sz(4 * N))
print("hd", a[3], a[N - 2])
d = u64()
call("cuMemAlloc_v2", C.byref(d), sz(4 * N))
call("cuMemcpy", d, p, sz(4 * N))
call("cuMemsetD32_v2", p, U32(0), sz(N))
call("cuMemcpy", p, d, sz(4 * N))
sync()
print("dd", a[3], a[N - 2])
# stream order
launch("fill", p, U32(1), u64(N), stream=s)
launch("iota", p, U32(1), u64(10), stream=s)
call("cuStreamSynchronize", s)
print("stream", a[0], a[9], a[10])
x = C.c_uint8()
call("cuPointerGetAttribute", C.byref(x), 8, p)
print("managed", x.value)
base, size = u64(), sz()
call("cuMemGetAddressRange_v2", C.byref(base), C.byref(size), u64(p.value + 100))
print(base.value == p.value, size.value)
call("cuMemPrefetchAsync", p, sz(4 * N), 0, None)
launch("iota", p, U32(2), u64(N))
call("cuMemPrefetchAsync", p, sz(4 * N), -1, None)
sync()
print("prefetch", a[N - 1])
q = u64()
print(
    "oversize",
    cu.cuMemAllocManaged(C.byref(q), sz(1 << 62), 1) != 0,
    cu.cuMemAllocManaged(C.byref(q), sz(0), 1),
    cu.cuMemAllocManaged(C.byref(q), sz(8), 9),
)
# small neighbours
ps = []
for i in range(40):
    q = u64()
    call("cuMemAllocManaged", C.byref(q), sz(100 + i * 300), 1)
    ps.append(q)
    C.memset(q.value, i, 100)
for i, q in enumerate(ps):
    launch("fill", u64(q.value + 4), U32(i), u64(2))
sync()
print(
    "small",
    [
        (
            C.c_uint8.from_address(q.value).value,
            U32.from_address(q.value + 8).value,
            C.c_uint8.from_address(q.value + 12).value,
        )
        for q in ps[::9]
    ],
)
for q in ps:
    call("cuMemFree_v2", q)
# pinned, by parameter
hp = vp()
call("cuMemHostAlloc", C.byref(hp), sz(4 * N), 2)
b = (U32 * N).from_address(hp.value)
b[0] = 11
launch("copy", d, u64(hp.value), u64(4 * N))
launch("iota", u64(hp.value), U32(100), u64(N))
sync()
print("pinned", b[0], b[N - 1])
call("cuMemcpyDtoH_v2", h, d, sz(8))
print("was", h[0])
b[5] = 1
dp = u64()
call("cuMemHostGetDevicePointer_v2", C.byref(dp), hp, 0)
launch("copy", d, u64(dp.value + 16), u64(16))
sync()
call("cuMemcpyDtoH_v2", h, d, sz(16))
print("pinned 2", list(h[:4]))
call("cuMemcpyDtoHAsync_v2", hp, d, sz(16), None)
sync()
print("into pinned", list(b[:5]))
call("cuMemcpyHtoDAsync_v2", d, vp(hp.value + 4), sz(16), None)
call("cuMemcpyDtoH_v2", h, d, sz(16))
print("from pinned", list(h[:4]))
call("cuMemFreeHost", hp)
hp = vp()
call("cuMemHostAlloc", C.byref(hp), sz(4 * N), 0)
b = (U32 * N).from_address(hp.value)
b[7] = 7
print("fresh", b[7])
call("cuMemFreeHost", hp)
# registered, at an odd address
m = (C.c_char * (3 * 4096 + 200))()
at = C.addressof(m) + ((-C.addressof(m)) % 8) + 8
n = 3000
r = (U32 * n).from_address(at)
for i in range(n):
    r[i] = i
call("cuMemHostRegister_v2", vp(at), sz(4 * n), 2)
call("cuMemHostGetDevicePointer_v2", C.byref(dp), vp(at), 0)
launch("scramble", dp, u64(3), u64(n // 2))
sync()
changed = sum(r[i] != i for i in range(n)) > 2900
r[0] = r[0]
launch("scramble", dp, u64(3), u64(n // 2))
sync()
print("registered", changed, all(r[i] == i for i in range(n)))
r[1] = 55
r[n - 1] = 66
launch("copy", d, dp, u64(4 * n))
call("cuMemcpyDtoH_v2", h, d, sz(4 * n))
print("edges", h[0], h[1], h[2], h[n - 1])
launch("iota", dp, U32(9), u64(n))
call("cuMemHostUnregister", vp(at))
print("unregistered", r[0], r[n // 2], r[n - 1])
# a function in stream order reads and writes managed memory
CB = C.CFUNCTYPE(None, vp)
got = []


@CB
def f(_):
    got.append(a[0])
    a[0] = 1234


launch("fill", p, U32(8), u64(N), stream=s)
call("cuLaunchHostFunc", s, f, None)
launch("copy", d, p, u64(4), stream=s)
call("cuStreamSynchronize", s)
call("cuMemcpyDtoH_v2", h, d, sz(4))
print("host function", got, h[0])
call("cuMemFree_v2", p)
call("cuMemFree_v2", d)
print("done")
