"""What the system does with memory that kernels use: files, pipes, sockets, handlers, masks."""

import ctypes as C
import faulthandler
import mmap
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading

KERNEL = b"fakedev-module 1\nkernel iota iota\n\0"
libc = C.CDLL(None, use_errno=True)
u64, u32, vp, sz = C.c_uint64, C.c_uint32, C.c_void_p, C.c_size_t
N = 200_000
BYTES = 4 * N

cu = C.CDLL("libcuda.so.1")


def call(name, *a):
    rc = getattr(cu, name)(*a)
    if rc:
        print("FAILED", name, rc)
        sys.exit(1)


call("cuInit", 0)
ctx, mod, iota = vp(), vp(), vp()
call("cuDevicePrimaryCtxRetain", C.byref(ctx), 0)
call("cuCtxSetCurrent", ctx)
call("cuModuleLoadData", C.byref(mod), KERNEL)
call("cuModuleGetFunction", C.byref(iota), mod, b"iota")


def kernel(p, first):
    """The kernel writes numbers from `first` on; the program has touched none of them."""
    args = [u64(p), u32(first), u64(N)]
    arr = (vp * 3)(*[C.cast(C.byref(a), vp) for a in args])
    call("cuLaunchKernel", iota, 1, 1, 1, 1, 1, 1, 0, None, arr, None)
    call("cuCtxSynchronize")


def expected(first):
    return b"".join((first + i).to_bytes(4, "little") for i in range(N))


def drained(fd, n, out):
    while n:
        b = os.read(fd, min(n, 1 << 16))
        if not b:
            break
        out.append(b)
        n -= len(b)


def through_pipe(write):
    """What arrives at the other end of a pipe."""
    r, w = os.pipe()
    out = []
    t = threading.Thread(target=drained, args=(r, BYTES, out))
    t.start()
    n = write(w)
    os.close(w)
    t.join()
    os.close(r)
    return n, b"".join(out)


class Iov(C.Structure):
    _fields_ = [("p", vp), ("n", sz)]


def all_of(p, first, kind):
    """Each way to read memory that a kernel has written, and each to write it."""
    view = (C.c_char * BYTES).from_address(p)
    want = expected(first)

    def check(what, got):
        print(kind, what, got)

    with tempfile.TemporaryFile(buffering=0) as f:
        fd = f.fileno()
        for what, write in (
            ("write", lambda: libc.write(fd, vp(p), sz(BYTES))),
            ("pwrite", lambda: libc.pwrite(fd, vp(p), sz(BYTES), C.c_long(0))),
            ("writev", lambda: libc.writev(fd, (Iov * 2)((p, 1000), (p + 1000, BYTES - 1000)), 2)),
            ("pwritev2", lambda: libc.pwritev2(fd, (Iov * 1)((p, BYTES)), 1, C.c_long(0), 0)),
            ("os.write", lambda: os.write(fd, memoryview(view))),
            ("file", lambda: f.write(view)),
        ):
            os.ftruncate(fd, 0)
            os.lseek(fd, 0, 0)
            kernel(p, first)
            n = write()
            check(what, (n, os.pread(fd, BYTES, 0) == want))
        os.ftruncate(fd, 0)
        os.lseek(fd, 0, 0)
        stream = libc.fdopen(os.dup(fd), b"w")
        kernel(p, first)
        n = libc.fwrite(vp(p), 4, N, stream)
        libc.fclose(stream)
        check("fwrite", (n, os.pread(fd, BYTES, 0) == want))
        data = bytes(reversed(want))
        os.pwrite(fd, data, 0)
        for what, read in (
            ("read", lambda: libc.read(fd, vp(p), sz(BYTES))),
            ("pread", lambda: libc.pread(fd, vp(p), sz(BYTES), C.c_long(0))),
            ("preadv2", lambda: libc.preadv2(fd, (Iov * 1)((p, BYTES)), 1, C.c_long(0), 0)),
            ("os.preadv", lambda: os.preadv(fd, [view], 0)),
            ("readinto", lambda: f.readinto(view)),
            ("readv", lambda: libc.readv(fd, (Iov * 2)((p, 1000), (p + 1000, BYTES - 1000)), 2)),
        ):
            os.lseek(fd, 0, 0)
            kernel(p, first)
            n = read()
            check(what, (n, view.raw == data))
        kernel(p, first)
        n = libc.getrandom(vp(p), sz(256), 0)
        check("getrandom", (n, view.raw[:256] != want[:256], view.raw[256:] == want[256:]))
        os.lseek(fd, 0, 0)
        stream = libc.fdopen(os.dup(fd), b"r")
        kernel(p, first)
        n = libc.fread(vp(p), 4, N, stream)
        libc.fclose(stream)
        check("fread", (n, view.raw == data))
        # What was read is what kernels find.
        back = C.create_string_buffer(BYTES)
        call("cuMemcpyDtoH_v2", back, u64(p), sz(BYTES)) if kind == "managed" else None
        check("found", kind != "managed" or back.raw == data)
    kernel(p, first)
    parts = [slice(0, 4096), slice(4096, 8192)]
    n, got = through_pipe(lambda w: sum(os.write(w, view[part]) for part in parts))
    check("pipe", (n, got == want[:8192]))
    kernel(p, first)
    n, got = through_pipe(lambda w: libc.write(w, vp(p), sz(BYTES)))
    check("whole pipe", (n, got == want))
    a, b = socket.socketpair()
    with a, b:
        out = []
        t = threading.Thread(target=drained, args=(b.fileno(), BYTES, out))
        t.start()
        kernel(p, first)
        a.sendall(view)
        t.join()
        check("socket", b"".join(out) == want)
        kernel(p, first)
        t = threading.Thread(target=a.sendall, args=(want[::-1],))
        t.start()
        n = 0
        while n < BYTES:
            n += b.recv_into(memoryview(view)[n:])
        t.join()
        check("received", view.raw == want[::-1])


def blocked(p, first):
    """A thread that has blocked every signal looks at such memory, and its mask is as it said."""

    def run():
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        first_word = u32.from_address(p).value
        now = signal.pthread_sigmask(signal.SIG_BLOCK, [])
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGSEGV])
        open_again = signal.pthread_sigmask(signal.SIG_SETMASK, before)
        after = signal.pthread_sigmask(signal.SIG_BLOCK, [])
        seg = [signal.SIGSEGV in s for s in (before, now, open_again, after)]
        print("blocked:", first_word, u32.from_address(p + BYTES - 4).value, seg)

    kernel(p, first)
    t = threading.Thread(target=run)
    t.start()
    t.join()


caught, kept = [], []


@C.CFUNCTYPE(None, C.c_int)
def handler(n):
    caught.append(n)


def handlers(p):
    """Handlers that come later are the program's still, and ours stays."""
    libc.signal.restype = vp
    libc.signal.argtypes = [C.c_int, vp]
    mine = C.cast(handler, vp).value
    was = libc.signal(signal.SIGSEGV, mine)
    print("signal:", was, libc.signal(signal.SIGSEGV, mine) == mine)
    kernel(p, 70)
    print("touched:", u32.from_address(p + 4).value, caught)
    os.kill(os.getpid(), signal.SIGSEGV)
    print("sent:", caught)
    libc.signal(signal.SIGSEGV, None)
    faulthandler.enable()
    kernel(p, 80)
    print("with faulthandler:", u32.from_address(p + 8).value, faulthandler.is_enabled())
    faulthandler.disable()
    kernel(p, 90)
    print("without:", u32.from_address(p + 8).value)


def crashes():
    """A fault that is not ours ends the program as it does natively, after its handler."""
    for how in ("plain", "faulthandler", "sent"):
        r = subprocess.run([sys.executable, __file__, how], capture_output=True, text=True)
        said = [line for line in r.stderr.splitlines() if line.startswith("Fatal Python error")]
        print("crash", how, r.returncode, r.stdout.strip(), said)


def made(kind):
    p = u64()
    if kind == "managed":
        call("cuMemAllocManaged", C.byref(p), sz(BYTES), 1)
    elif kind == "page-locked":
        call("cuMemHostAlloc", C.byref(p), sz(BYTES), 2)
    else:
        m = mmap.mmap(-1, BYTES, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        kept.append(m)
        p = u64(C.addressof(C.c_char.from_buffer(m)))
        call("cuMemHostRegister_v2", p, sz(BYTES), 2)
    return p.value


if len(sys.argv) > 1:
    p = made("managed")
    if sys.argv[1] == "faulthandler":
        faulthandler.enable()
    kernel(p, 5)
    print(u32.from_address(p).value, flush=True)
    if sys.argv[1] == "sent":
        os.kill(os.getpid(), signal.SIGSEGV)
    _ = u32.from_address(16).value
    sys.exit(0)
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
first = made("managed")
mask = signal.pthread_sigmask(signal.SIG_BLOCK, [])
print("all blocked:", mask == signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})
kernel(first, 3)
print("seen:", u32.from_address(first + 4).value)
signal.pthread_sigmask(signal.SIG_SETMASK, [])
libc.fdopen.restype = C.c_void_p
libc.fwrite.restype = libc.fread.restype = C.c_size_t
libc.fwrite.argtypes = libc.fread.argtypes = [C.c_void_p, C.c_size_t, C.c_size_t, C.c_void_p]
libc.fclose.argtypes = [C.c_void_p]
for f in ("write", "read", "pwrite", "pread", "send", "recv"):
    getattr(libc, f).restype = C.c_ssize_t
for i, kind in enumerate(("managed", "page-locked", "registered")):
    p = made(kind)
    all_of(p, 1000 * i, kind)
    blocked(p, 7)
    handlers(p)
crashes()
print("done")
