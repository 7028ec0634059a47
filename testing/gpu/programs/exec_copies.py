"""Which copies an executable graph takes in the place of others: of other memory, of another shape.

By a node's parameters, and by an update with a graph that is captured anew. Each line has what the
call said, and whether the right bytes arrived then.

    exec_copies.py [PLACE ...]

Of the copies to these places; without any, all. Memory of another kind is not among them: a driver
takes such a line in the place of another one, which is a limit of Busbar's.
"""

import ctypes
import sys

from driver import SIZE_T, U32, U64, Box, call, made, must

SIZE, UNIFIED = 16 << 10, 4
# Bytes in a row, rows, slices, and bytes from one row to the next.
SHAPES = {
    "a line": (256, 1, 1, 256),
    "a longer line": (512, 1, 1, 512),
    "whole rows": (64, 4, 1, 64),
    "rows": (64, 4, 1, 96),
    "wider rows": (80, 4, 1, 96),
    "rows further apart": (64, 4, 1, 128),
    "a whole box": (32, 2, 4, 32),
    "a box": (32, 2, 4, 48),
}
# Destination and source, and other places for either.
ENDS = [
    ("device", "other", "another", "third"),
    ("pinned", "device", "other pinned", "other"),
    ("device", "pinned", "other", "other pinned"),
    ("pageable", "device", "other pageable", "other"),
    ("device", "pageable", "other", "other pageable"),
    ("pinned", "third pinned", "other pinned", "fourth pinned"),
    ("device", "managed", "other", "other managed"),
]


class Result(ctypes.Structure):
    _fields_ = [("result", U32), ("node", U64), ("other", U64)]


KEPT = []


def place(name):
    """Memory of the kind that its name says."""
    if name.endswith("pinned"):
        return made("cuMemHostAlloc", SIZE_T(SIZE), 0)
    if name.endswith("managed"):
        return made("cuMemAllocManaged", SIZE_T(SIZE), 1)
    if name.endswith("pageable"):
        KEPT.append((ctypes.c_char * SIZE)())
        return ctypes.addressof(KEPT[-1])
    return made("cuMemAlloc_v2", SIZE_T(SIZE))


class Trial:
    def __init__(self):
        self.context = U64(made("cuDevicePrimaryCtxRetain", 0))
        must("cuCtxSetCurrent", self.context)
        self.stream = U64(made("cuStreamCreate", 1))
        self.memory = {name: place(name) for ends in ENDS for name in ends}
        self.pattern = bytes((i * 7 + i // 256) & 255 for i in range(SIZE))

    def copy(self, to, of, shape):
        width, rows, depth, pitch = SHAPES[shape]
        return Box(
            src_type=UNIFIED, src_device=self.memory[of] + SIZE // 2,
            src_pitch=pitch, src_height=rows,
            dst_type=UNIFIED, dst_device=self.memory[to], dst_pitch=pitch, dst_height=rows,
            width=width, rows=rows, depth=depth,
        )  # fmt: skip

    def captured(self, to, of, shape):
        must("cuStreamBeginCapture_v2", self.stream, 1)
        must("cuMemcpy3DAsync_v2", ctypes.byref(self.copy(to, of, shape)), self.stream)
        graph = U64()
        must("cuStreamEndCapture", self.stream, ctypes.byref(graph))
        return graph

    def arrives(self, exec, to, of, shape):
        """Whether a launch moves the bytes of a copy, and no others."""
        for name in (to, of):
            must("cuMemcpy", U64(self.memory[name]), self.pattern, SIZE_T(SIZE))
        width, rows, depth, pitch = SHAPES[shape]
        want = bytearray(self.pattern)
        for at in (line * pitch for line in range(rows * depth)):
            want[at : at + width] = self.pattern[SIZE // 2 + at : SIZE // 2 + at + width]
        must("cuGraphLaunch", exec, self.stream)
        must("cuStreamSynchronize", self.stream)
        has = (ctypes.c_char * SIZE)()
        must("cuMemcpy", has, U64(self.memory[to]), SIZE_T(SIZE))
        return "right" if bytes(has) == want else "WRONG"

    def change(self, was, then, update):
        graph = self.captured(*was)
        exec = U64()
        must("cuGraphInstantiateWithFlags", ctypes.byref(exec), graph, U64(0))
        result = Result()
        if update:
            other = self.captured(*then)
            rc = call("cuGraphExecUpdate_v2", exec, other, ctypes.byref(result))
            must("cuGraphDestroy", other)
        else:
            node, one = U64(), SIZE_T(1)
            must("cuGraphGetNodes", graph, ctypes.byref(node), ctypes.byref(one))
            copy = ctypes.byref(self.copy(*then))
            rc = call("cuGraphExecMemcpyNodeSetParams", exec, node, copy, self.context)
        arrived = self.arrives(exec, *(was if rc else then))
        must("cuGraphExecDestroy", exec)
        must("cuGraphDestroy", graph)
        return f"{rc} {result.result}, {arrived}"


def main():
    must("cuInit", 0)
    trial = Trial()
    for to, of, other_to, other_of in ENDS:
        if to not in (sys.argv[1:] or [to]):
            continue
        for shape in SHAPES:
            # The same once more, other shapes, and the same shape elsewhere.
            others = [(to, of, other) for other in SHAPES]
            others += [(other_to, of, shape), (to, other_of, shape)]
            for then in others:
                said = [trial.change((to, of, shape), then, update) for update in (False, True)]
                print(f"{to} from {of}, {shape}: {then[0]} from {then[1]}, {then[2]}: {said}")


main()
