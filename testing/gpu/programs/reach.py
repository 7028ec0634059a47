"""Which memory may be copied, filled, asked about and put into graphs, in which device's stream,
with which device current. Each line has four results, with device 0 or 1 current and a stream of
device 0 or 1, in this order: 00 01 10 11. A result is the call's error, `ok`, or `wrong` where
bytes did not arrive. Of two devices; with one there is nothing to tell.

    reach.py [WORLD ...]

A world says which device is let in to the other's memory: `apart`, `0 let in`, `1 let in` or
`both let in`.
"""

import ctypes
import mmap
import sys

from driver import SIZE_T, U32, U64, Box, call, end, made, must

SIZE, MAPPED, MARK = 64 << 10, 2 << 20, 0x6D61726B
INVALID_VALUE = 1
DEVICE, ARRAY, UNIFIED = 2, 3, 4
NAMES = {0: "ok", 1: "INVALID_VALUE", 400: "INVALID_HANDLE", 500: "NOT_FOUND", 999: "UNKNOWN"}
NAMES |= {700: "ILLEGAL_ADDRESS", 801: "NOT_SUPPORTED", 900: "STREAM_CAPTURE_UNSUPPORTED"}


class Location(ctypes.Structure):
    _fields_ = [("type", U32), ("id", U32)]


class Access(ctypes.Structure):
    _fields_ = [("where", Location), ("flags", U32)]


class Allocation(ctypes.Structure):
    _fields_ = [("type", U32), ("handles", U32), ("where", Location), ("rest", U64 * 2)]


class PoolProps(ctypes.Structure):
    _fields_ = [("type", U32), ("handles", U32), ("where", Location), ("rest", U64 * 9)]


class Rows(ctypes.Structure):
    _fields_ = [*end("src", deep=False), *end("dst", deep=False)]
    _fields_ += [("width", SIZE_T), ("rows", SIZE_T)]


class Fill(ctypes.Structure):
    _fields_ = [("dst", U64), ("pitch", SIZE_T), ("value", U32), ("element", U32)]
    _fields_ += [("width", SIZE_T), ("height", SIZE_T)]


class How(ctypes.Structure):
    _fields_ = [("order", U32), ("src", Location), ("dst", Location), ("flags", U32)]


class Resource(ctypes.Structure):
    _fields_ = [("type", U32), ("pad", U32), ("device", U64), ("format", U32), ("channels", U32)]
    _fields_ += [("bytes", SIZE_T), ("rest", U64 * 20)]


class World:
    """All memory, with the devices in `let_in`, a bit each, let in to the other's."""

    KINDS = ["plain", "pitched", "managed", "pool", "own pool", "mapped", "closed"]
    KINDS += ["pinned", "registered", "variable"]

    def __init__(self, let_in):
        self.let_in = let_in
        self.context = [made("cuDevicePrimaryCtxRetain", d) for d in range(2)]
        self.stream, self.scratch, self.array = [], [], []
        for d in range(2):
            self.use(d)
            self.stream.append(made("cuStreamCreate", 1))
            self.scratch.append(made("cuMemAlloc_v2", SIZE_T(SIZE)))
            shape = (U64 * 3)(16, 4, 0x100000003)
            # Format and number of channels: unsigned words, one each.
            ctypes.memmove(ctypes.addressof(shape) + 16, (U32 * 2)(3, 1), 8)
            self.array.append(made("cuArrayCreate_v2", ctypes.byref(shape)))
        self.host = made("cuMemHostAlloc", SIZE_T(SIZE), 1)
        self.words = (U32 * 64).from_address(self.host)
        self.handles, self.own, self.kept = [], [], []
        self.memory = [self.all_of(d) for d in range(2)]

    def use(self, device):
        must("cuCtxSetCurrent", U64(self.context[device]))

    def may(self, user, home):
        return user == home or self.let_in >> user & 1

    def all_of(self, d):
        self.use(d)
        if self.may(d, 1 - d):
            must("cuCtxEnablePeerAccess", U64(self.context[1 - d]), 0)
        pitch, pitched = SIZE_T(), U64()
        shape = SIZE_T(512), SIZE_T(SIZE // 512), 4
        plain = made("cuMemAlloc_v2", SIZE_T(SIZE))
        must("cuMemAllocPitch_v2", ctypes.byref(pitched), ctypes.byref(pitch), *shape)
        managed = made("cuMemAllocManaged", SIZE_T(SIZE), 1)
        props = PoolProps(1, 0, Location(1, d))
        self.own.append(made("cuMemPoolCreate", ctypes.byref(props)))
        pools = [made("cuDeviceGetDefaultMemPool", d), self.own[d]]
        pooled = [self.of_pool(d, pool) for pool in pools]
        mapped = [self.mapped(d, closed) for closed in (False, True)]
        pinned = made("cuMemHostAlloc", SIZE_T(SIZE), 2)
        memory = mmap.mmap(-1, SIZE)
        self.kept.append(memory)
        registered = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        must("cuMemHostRegister_v2", U64(registered), SIZE_T(SIZE), 2)
        some = [plain, pitched.value, managed, *pooled, *mapped, pinned, registered]
        return [*some, self.variable()]

    def of_pool(self, home, pool):
        flags = 3 if self.may(1 - home, home) else 0
        access = Access(Location(1, 1 - home), flags)
        must("cuMemPoolSetAccess", U64(pool), ctypes.byref(access), SIZE_T(1))
        stream = U64(self.stream[home])
        p = made("cuMemAllocFromPoolAsync", SIZE_T(SIZE), U64(pool), stream)
        must("cuStreamSynchronize", stream)
        return p

    def mapped(self, home, closed):
        props = Allocation(1, 0, Location(1, home))
        memory = made("cuMemCreate", SIZE_T(MAPPED), ctypes.byref(props), U64(0))
        p = made("cuMemAddressReserve", SIZE_T(MAPPED), SIZE_T(0), U64(0), U64(0))
        must("cuMemMap", U64(p), SIZE_T(MAPPED), SIZE_T(0), U64(memory), U64(0))
        self.handles.append((p, memory))
        for d in range(2):
            access = Access(Location(1, d), 3)
            if not closed and self.may(d, home):
                must("cuMemSetAccess", U64(p), SIZE_T(MAPPED), ctypes.byref(access), SIZE_T(1))
        return p

    def variable(self):
        """A module's variable, of code for a driver, or for one that is simulated."""
        ptx = b".version 8.0\n.target sm_80\n.address_size 64\n"
        ptx += b".visible .global .align 16 .b8 variable[%d];\n" % SIZE
        module, p, size = U64(), U64(), SIZE_T()
        for code in (b"fakedev-module 1\nglobal variable %d\n" % SIZE, ptx):
            if call("cuModuleLoadData", ctypes.byref(module), code) == 0:
                break
        out = ctypes.byref(p), ctypes.byref(size)
        must("cuModuleGetGlobal_v2", *out, module, b"variable")
        return p.value

    def end(self):
        for d in range(2):
            self.use(d)
            call("cuCtxSynchronize")
            for kind in (3, 4):
                call("cuMemFree_v2", U64(self.memory[d][kind]))
            call("cuMemPoolDestroy", U64(self.own[d]))
            call("cuMemHostUnregister", U64(self.memory[d][8]))
        for p, memory in self.handles:
            call("cuMemUnmap", U64(p), SIZE_T(MAPPED))
            call("cuMemAddressFree", U64(p), SIZE_T(MAPPED))
            call("cuMemRelease", U64(memory))
        call("cuCtxSetCurrent", U64(0))
        for d in range(2):
            call("cuDevicePrimaryCtxReset_v2", d)
            call("cuDevicePrimaryCtxRelease_v2", d)


class Call:
    """A call: of memory of a kind that is at home somewhere, with a device current, in a stream."""

    def __init__(self, w, kind, home, current, lane):
        self.w, self.kind, self.home = w, World.KINDS[kind], home
        self.current, self.lane = current, lane
        self.p = w.memory[home][kind]
        self.m, self.s = U64(self.p), U64(w.stream[lane])
        self.near, self.far = w.scratch[lane], w.scratch[1 - lane]
        self.host = w.host
        self.arrives = None

    def context(self, device):
        return U64(self.w.context[device])

    def to(self, p, device, rc):
        self.arrives = p, device
        return rc

    def into(self, rc):
        return self.to(self.p, self.home, rc)

    def to_host(self, rc):
        return self.to(self.host, None, rc)

    def fill(self, p, word):
        must("cuMemsetD32_v2", U64(p), U32(word), SIZE_T(64))

    def begin(self, own, others):
        """The memory has a word, and all other places have another one."""
        for d in range(2):
            self.w.use(d)
            if d == self.home and self.kind != "closed":
                self.fill(self.p, own)
            self.fill(self.w.scratch[d], others)
            must("cuCtxSynchronize")
        self.w.words[:] = [others] * 64

    def captured(self, make):
        rc = call("cuStreamBeginCapture_v2", self.s, 1)
        if rc:
            return rc
        rc = make()
        graph = U64()
        ended = call("cuStreamEndCapture", self.s, ctypes.byref(graph))
        if rc or ended:
            if graph:
                call("cuGraphDestroy", graph)
            return rc or ended
        return self.run(graph, rc)

    def run(self, graph, rc, change=None):
        exec = U64()
        rc = rc or call("cuGraphInstantiateWithFlags", ctypes.byref(exec), graph, U64(0))
        if change:
            rc = rc or change(exec)
        rc = rc or call("cuGraphLaunch", exec, self.s)
        call("cuStreamSynchronize", self.s)
        if exec:
            call("cuGraphExecDestroy", exec)
        call("cuGraphDestroy", graph)
        return rc

    def node(self, add, set_one, set_exec, was, then, how, by=None):
        """A node that is added with the lane's context: changed in the graph, or what it became."""
        graph = U64(made("cuGraphCreate", 0))
        node = U64()
        at = ctypes.byref(node), graph, None, SIZE_T(0)
        rc = call(add, *at, ctypes.byref(was), self.context(self.lane))
        if how == "changed":
            rc = rc or call(set_one, node, ctypes.byref(then))
        change = None
        if how == "executable":
            by = self.context(self.lane if by is None else by)
            change = lambda exec: call(set_exec, exec, node, ctypes.byref(then), by)
        return self.run(graph, rc, change)

    def fill_node(self, how, by=None):
        names = ["cuGraphAddMemsetNode", "cuGraphMemsetNodeSetParams"]
        names.append("cuGraphExecMemsetNodeSetParams")
        first = MARK + 9 if how else MARK + 1
        was, then = (Fill(self.p, 0, value, 4, 16, 1) for value in (first, MARK + 1))
        return self.into(self.node(*names, was, then, how, by))

    def copy_node(self, to, of, how, by=None):
        names = ["cuGraphAddMemcpyNode", "cuGraphMemcpyNodeSetParams"]
        names.append("cuGraphExecMemcpyNodeSetParams")
        copy = box(to, of, UNIFIED)
        return self.node(*names, copy, copy, how, by)

    def changed_capture(self):
        """What a stream captured is changed, with the current context, before it runs."""
        # Page-locked memory that a server shares is at home where its segment is.
        if self.kind in ("pinned", "registered"):
            return 0
        must("cuStreamBeginCapture_v2", self.s, 1)
        rc = call("cuMemsetD32Async", self.m, U32(MARK + 5), SIZE_T(16), self.s)
        graph, node, one = U64(), U64(), SIZE_T(1)
        ended = call("cuStreamEndCapture", self.s, ctypes.byref(graph))
        if rc or ended:
            if graph:
                call("cuGraphDestroy", graph)
            return rc or ended
        must("cuGraphGetNodes", graph, ctypes.byref(node), ctypes.byref(one))
        then, by = Fill(self.p, 0, MARK + 1, 4, 16, 1), self.context(self.current)
        name = "cuGraphExecMemsetNodeSetParams"
        change = lambda exec: call(name, exec, node, ctypes.byref(then), by)
        return self.into(self.run(graph, rc, change))


def rows(to, of, kind):
    return Rows(
        src_type=kind, src_device=of, src_pitch=64, dst_type=kind, dst_device=to, dst_pitch=64,
        width=32, rows=4,
    )  # fmt: skip


def box(to, of, kind, contexts=(0, 0)):
    return Box(
        src_type=kind, src_device=of, src_pitch=32, src_height=2, src_context=contexts[1],
        dst_type=kind, dst_device=to, dst_pitch=32, dst_height=2, dst_context=contexts[0],
        width=32, rows=2, depth=2,
    )  # fmt: skip


def of_array(c, p, writes):
    """Rows of an array that is at home where the memory is: to memory, or from there."""
    r = rows(p, p, UNIFIED)
    side = "dst" if writes else "src"
    setattr(r, f"{side}_type", ARRAY)
    setattr(r, f"{side}_array", c.w.array[c.home])
    return r


def two(r, c):
    return call("cuMemcpy2DAsync_v2", ctypes.byref(r), c.s)


def three(b, c):
    return call("cuMemcpy3DAsync_v2", ctypes.byref(b), c.s)


N = SIZE_T(256)


def within(c, to, of):
    return call("cuMemcpyDtoDAsync_v2", U64(to), U64(of), N, c.s)


def down(c, to):
    return call("cuMemcpyDtoHAsync_v2", U64(to), c.m, N, c.s)


def up(c, of):
    return call("cuMemcpyHtoDAsync_v2", c.m, U64(of), N, c.s)


def any_to_any(c, to, of):
    return call("cuMemcpyAsync", U64(to), U64(of), N, c.s)


def peer(c, to, its, of, own):
    ends = U64(to), c.context(its), U64(of), c.context(own)
    return call("cuMemcpyPeerAsync", *ends, N, c.s)


def batch(c, to, of):
    lists = [ctypes.byref(v) for v in (U64(to), U64(of), SIZE_T(64))]
    how, which = How(1), SIZE_T(0)
    about = ctypes.byref(how), ctypes.byref(which), SIZE_T(1)
    return call("cuMemcpyBatchAsync_v2", *lists, SIZE_T(1), *about, c.s)


def on_stack(c, comes):
    """Copies with memory of the program's that the driver does not know."""
    words = (U32 * 64)(*([MARK] * 64 if comes else [MARK + 1] * 64))
    at = ctypes.addressof(words)
    if not comes:
        return c.into(up(c, at))
    rc = down(c, at)
    call("cuStreamSynchronize", c.s)
    c.w.words[0] = words[0]
    return c.to_host(rc)


def attribute(c, which, of, right):
    value = of()
    rc = call("cuPointerGetAttribute", ctypes.byref(value), which, c.m)
    return rc or (0 if (value.value or 0) == right else 500)


def address_range(c):
    base, size = U64(), SIZE_T()
    out = ctypes.byref(base), ctypes.byref(size)
    rc = call("cuMemGetAddressRange_v2", *out, U64(c.p + 64))
    return rc or (0 if base.value == c.p and size.value in (SIZE, MAPPED) else 999)


def texture(c):
    out = U64()
    of, how = Resource(2, 0, c.p, 3, 1, 4096), (U64 * 40)()
    at = ctypes.byref(out), ctypes.byref(of), ctypes.byref(how)
    rc = call("cuTexObjectCreate", *at, None)
    if out:
        call("cuTexObjectDestroy", out)
    return rc


def pooled(c):
    if c.kind not in ("pool", "own pool"):
        return 0
    own = c.kind == "own pool"
    pool = c.w.own[c.home] if own else made("cuDeviceGetDefaultMemPool", c.home)
    p = U64()
    rc = call("cuMemAllocFromPoolAsync", ctypes.byref(p), SIZE_T(SIZE), U64(pool), c.s)
    return rc or call("cuMemFreeAsync", p, c.s)


def of_stream(c):
    p, device = U64(), ctypes.c_int(-1)
    rc = call("cuMemAllocAsync", ctypes.byref(p), SIZE_T(SIZE), c.s)
    rc = rc or call("cuPointerGetAttribute", ctypes.byref(device), 9, p)
    rc = rc or call("cuMemFreeAsync", p, c.s)
    return rc or (0 if device.value == c.lane else 500)


def recorded(c):
    event = U64(made("cuEventCreate", 0))
    rc = call("cuEventRecord", event, c.s)
    rc = rc or call("cuStreamWaitEvent", U64(c.w.stream[1 - c.lane]), event, 0)
    call("cuEventDestroy_v2", event)
    return rc


def waits(c):
    """Where memory may be out of reach, nothing must wait for ever."""
    anywhere = c.kind in ("managed", "pinned", "registered")
    let_in = c.w.may(c.lane, c.home) and (c.kind != "variable" or c.lane == c.home)
    if c.kind == "closed" or not (anywhere or let_in):
        return 0
    return call("cuStreamWaitValue32_v2", c.s, c.m, U32(MARK + 1), 1)


def arrays(call_it):
    """What is told once, with ordinary memory."""
    return lambda c: call_it(c) if c.kind == "plain" else 0


INTO, OUT, ASKS = "into", "out", "asks"
first = lambda c: c.w.scratch[0]
# What comes into the memory, what goes out of it, and what asks.
CALLS = [
    (INTO, "fill", lambda c: c.into(call("cuMemsetD32Async", c.m, U32(MARK + 1), SIZE_T(64), c.s))),
    (INTO, "fill rows", lambda c: c.into(call(
        "cuMemsetD2D32Async", c.m, SIZE_T(64), U32(MARK + 1), SIZE_T(4), SIZE_T(4), c.s))),
    (INTO, "fill now", lambda c: c.into(call("cuMemsetD32_v2", c.m, U32(MARK + 1), SIZE_T(64)))),
    (OUT, "to the host", lambda c: c.to_host(down(c, c.host))),
    (OUT, "to the host now", lambda c: c.to_host(call("cuMemcpyDtoH_v2", U64(c.host), c.m, N))),
    (OUT, "to the host's stack", lambda c: on_stack(c, True)),
    (INTO, "from the host", lambda c: c.into(up(c, c.host))),
    (INTO, "from the host now", lambda c: c.into(call("cuMemcpyHtoD_v2", c.m, U64(c.host), N))),
    (INTO, "from the host's stack", lambda c: on_stack(c, False)),
    (OUT, "any to the host", lambda c: c.to_host(any_to_any(c, c.host, c.p))),
    (INTO, "any from the host", lambda c: c.into(any_to_any(c, c.p, c.host))),
    (INTO, "from the near", lambda c: c.into(within(c, c.p, c.near))),
    (OUT, "to the near", lambda c: c.to(c.near, c.lane, within(c, c.near, c.p))),
    (OUT, "to the far", lambda c: c.to(c.far, 1 - c.lane, within(c, c.far, c.p))),
    (INTO, "from the far", lambda c: c.into(within(c, c.p, c.far))),
    (OUT, "any to the near", lambda c: c.to(c.near, c.lane, any_to_any(c, c.near, c.p))),
    (OUT, "to the first now", lambda c: c.to(
        first(c), 0, call("cuMemcpyDtoD_v2", U64(first(c)), c.m, N))),
    (INTO, "from the first now", lambda c: c.into(
        call("cuMemcpyDtoD_v2", c.m, U64(first(c)), N))),
    (OUT, "rows to the host", lambda c: c.to_host(two(rows(c.host, c.p, UNIFIED), c))),
    (INTO, "rows from the host", lambda c: c.into(two(rows(c.p, c.host, UNIFIED), c))),
    (OUT, "rows to the host now", lambda c: c.to_host(
        call("cuMemcpy2D_v2", ctypes.byref(rows(c.host, c.p, UNIFIED))))),
    (OUT, "rows to the near", lambda c: c.to(c.near, c.lane, two(rows(c.near, c.p, DEVICE), c))),
    (INTO, "rows from the far", lambda c: c.into(two(rows(c.p, c.far, DEVICE), c))),
    (OUT, "a box to the host", lambda c: c.to_host(three(box(c.host, c.p, UNIFIED), c))),
    (INTO, "a box from the far", lambda c: c.into(three(box(c.p, c.far, DEVICE), c))),
    (OUT, "peer to the near", lambda c: c.to(
        c.near, c.lane, peer(c, c.near, c.lane, c.p, c.home))),
    (OUT, "peer to the far", lambda c: c.to(
        c.far, 1 - c.lane, peer(c, c.far, 1 - c.lane, c.p, c.home))),
    (INTO, "peer from the near", lambda c: c.into(peer(c, c.p, c.home, c.near, c.lane))),
    (OUT, "peer with another's context", lambda c: c.to(
        c.near, c.lane, peer(c, c.near, c.lane, c.p, 1 - c.home))),
    (OUT, "peer now", lambda c: c.to(first(c), 0, call(
        "cuMemcpyPeer", U64(first(c)), c.context(0), c.m, c.context(c.home), N))),
    (OUT, "a peer's box to the near", lambda c: c.to(c.near, c.lane, call(
        "cuMemcpy3DPeerAsync", ctypes.byref(box(
            c.near, c.p, DEVICE, (c.w.context[c.lane], c.w.context[c.home]))), c.s))),
    (OUT, "batch to the host", lambda c: c.to_host(batch(c, c.host, c.p))),
    (INTO, "batch from the far", lambda c: c.into(batch(c, c.p, c.far))),
    (INTO, "write a word", lambda c: c.into(
        call("cuStreamWriteValue32_v2", c.s, c.m, U32(MARK + 1), 0))),
    (OUT, "wait for a word", waits),
    (INTO, "fill, captured", lambda c: c.into(c.captured(
        lambda: call("cuMemsetD32Async", c.m, U32(MARK + 1), SIZE_T(64), c.s)))),
    (OUT, "to the host, captured", lambda c: c.to_host(c.captured(lambda: down(c, c.host)))),
    (INTO, "from the host, captured", lambda c: c.into(c.captured(lambda: up(c, c.host)))),
    (OUT, "to the near, captured", lambda c: c.to(
        c.near, c.lane, c.captured(lambda: within(c, c.near, c.p)))),
    (INTO, "from the far, captured", lambda c: c.into(
        c.captured(lambda: within(c, c.p, c.far)))),
    (OUT, "rows to the host, captured", lambda c: c.to_host(
        c.captured(lambda: two(rows(c.host, c.p, UNIFIED), c)))),
    (INTO, "a captured fill, changed", lambda c: c.changed_capture()),
    # Here the second number is the device whose context the node has.
    (INTO, "a node that fills", lambda c: c.fill_node(None)),
    (INTO, "a fill that is changed", lambda c: c.fill_node("changed")),
    (INTO, "a fill in an executable", lambda c: c.fill_node("executable")),
    (INTO, "a fill by the other device", lambda c: c.fill_node("executable", 1 - c.lane)),
    (OUT, "a node that copies", lambda c: c.to_host(c.copy_node(c.host, c.p, None))),
    (OUT, "a copy that is changed", lambda c: c.to_host(c.copy_node(c.host, c.p, "changed"))),
    (OUT, "a copy in an executable", lambda c: c.to_host(
        c.copy_node(c.host, c.p, "executable"))),
    (OUT, "a copy by the other device", lambda c: c.to_host(
        c.copy_node(c.host, c.p, "executable", 1 - c.lane))),
    (INTO, "a node between devices", lambda c: c.into(c.copy_node(c.p, c.near, None))),
    (INTO, "a node from the far", lambda c: c.into(c.copy_node(c.p, c.far, None))),
    (ASKS, "its address", lambda c: attribute(c, 3, U64, c.p) and INVALID_VALUE),
    (ASKS, "its kind", lambda c: attribute(c, 2, U32, DEVICE)),
    (ASKS, "its device", lambda c: attribute(c, 9, U32, c.home)),
    (ASKS, "its context", lambda c: attribute(c, 1, U64, c.w.context[c.home])),
    (ASKS, "its range", address_range),
    (ASKS, "as a texture", texture),
    (ASKS, "attach it", lambda c: call("cuStreamAttachMemAsync", c.s, c.m, SIZE_T(0), 1)),
    (ASKS, "prefetch it to the first", lambda c: call(
        "cuMemPrefetchAsync_v2", c.m, SIZE_T(4096), Location(1, 0), 0, c.s)),
    (ASKS, "advise it", lambda c: call(
        "cuMemAdvise_v2", c.m, SIZE_T(4096), 3, Location(1, 0))),
    (ASKS, "an array from the host", arrays(lambda c: two(of_array(c, c.host, True), c))),
    (ASKS, "an array to the host", arrays(lambda c: two(of_array(c, c.host, False), c))),
    (ASKS, "an array to the host now", arrays(
        lambda c: call("cuMemcpy2D_v2", ctypes.byref(of_array(c, c.host, False))))),
    (ASKS, "an array to the near", arrays(lambda c: two(of_array(c, c.near, False), c))),
    (ASKS, "an array from the far", arrays(lambda c: two(of_array(c, c.far, True), c))),
    (ASKS, "an array to the host, captured", arrays(
        lambda c: c.captured(lambda: two(of_array(c, c.host, False), c)))),
    (ASKS, "an array from the far, captured", arrays(
        lambda c: c.captured(lambda: two(of_array(c, c.far, True), c)))),
    (ASKS, "allocate and free", pooled),
    (ASKS, "allocate of the stream's", of_stream),
    (ASKS, "record", recorded),
]  # fmt: skip


def result(w, kind, home, current, lane, way, act):
    """What a call says, and whether its bytes are there; and whether the world is over then."""
    c = Call(w, kind, home, current, lane)
    c.begin(MARK + (way == OUT), MARK + (way == INTO))
    w.use(current)
    rc = act(c)
    said = NAMES.get(rc, str(rc))
    after = 0
    for d in range(2):
        w.use(d)
        after = call("cuCtxSynchronize") or after
    if after:
        return f"{said} then {NAMES.get(after, after)}", True
    if rc == 0 and c.arrives and c.kind != "closed":
        p, device = c.arrives
        word = U32(w.words[0])
        if device is not None:
            w.use(device)
            must("cuMemcpyDtoH_v2", ctypes.byref(word), U64(p), SIZE_T(4))
        said += "" if word.value == MARK + 1 else " wrong"
    return said, False


def main():
    must("cuInit", 0)
    if made("cuDeviceGetCount", of=ctypes.c_int) < 2:
        print("one device")
        return
    for let_in, name in enumerate(["apart", "0 let in", "1 let in", "both let in"]):
        if name not in (sys.argv[1:] or [name]):
            continue
        w = World(let_in)
        for kind, called in enumerate(World.KINDS):
            for home in range(2):
                for way, what, act in CALLS:
                    all_said = []
                    for i in range(4):
                        said, over = result(w, kind, home, i >> 1, i & 1, way, act)
                        all_said.append(said)
                        if over:
                            w.end()
                            w = World(let_in)
                    print(f"{name}, {called} of {home}, {what}: {', '.join(all_said)}")
        w.end()


main()
