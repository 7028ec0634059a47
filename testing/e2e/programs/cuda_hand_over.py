"""Two processes have most of a device's memory in turn: each frees it and tells the other.

Of memory by itself (`alloc`) or created and mapped (`map`); says how often there was none.
"""

import ctypes as C
import os
import sys

from cuda_driver import Prop, begin, call, cu, sz, u64

ROUNDS = 20
SIZE = 700 << 20


def alloc():
    """Takes the memory; how to free it, or nothing where there is none."""
    p = u64()
    if cu.cuMemAlloc_v2(C.byref(p), sz(SIZE)):
        return None
    return lambda: call("cuMemFree_v2", p)


def map_pieces():
    """The same in 70 pieces."""
    at, piece, made = u64(), 10 << 20, []
    call("cuMemAddressReserve", C.byref(at), sz(SIZE), sz(0), u64(0), u64(0))
    prop, memory = Prop(type=1, where=(1, 0)), u64()

    def free():
        for i, memory in enumerate(made):
            call("cuMemUnmap", u64(at.value + i * piece), sz(piece))
            call("cuMemRelease", memory)
        call("cuMemAddressFree", at, sz(SIZE))

    for i in range(SIZE // piece):
        if cu.cuMemCreate(C.byref(memory), sz(piece), C.byref(prop), u64(0)):
            free()
            return None
        made.append(u64(memory.value))
        call("cuMemMap", u64(at.value + i * piece), sz(piece), sz(0), memory, u64(0))
    return free


take = {"alloc": alloc, "map": map_pieces}[sys.argv[1]]
(a_reads, a_writes), (b_reads, b_writes) = os.pipe(), os.pipe()
child = os.fork()
reads, writes = (a_reads, b_writes) if child else (b_reads, a_writes)
begin()
if not child:
    os.write(writes, b"x")
none = 0
for _ in range(ROUNDS):
    os.read(reads, 1)
    free = take()
    if free:
        free()
    else:
        none += 1
    os.write(writes, b"x")
if child:
    status = os.waitpid(child, 0)[1]
    print("parent: none", none, "times; child:", os.waitstatus_to_exitcode(status))
else:
    os._exit(none)
