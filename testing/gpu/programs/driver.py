"""CUDA's driver by its own functions, for programs that tell what each of them says."""

import ctypes

U64, U32, SIZE_T = ctypes.c_uint64, ctypes.c_uint32, ctypes.c_size_t

cuda = ctypes.CDLL("libcuda.so.1")


def call(name, *args):
    return getattr(cuda, name)(*args)


def must(name, *args):
    rc = call(name, *args)
    if rc:
        raise SystemExit(f"{name}: {rc}")


def made(name, *args, of=U64):
    out = of()
    must(name, ctypes.byref(out), *args)
    return out.value


def end(prefix, deep=True):
    """The fields of a copy's end."""
    fields = [("x", SIZE_T), ("y", SIZE_T)]
    fields += [("z", SIZE_T), ("lod", SIZE_T)] if deep else []
    fields += [("type", U32), ("host", U64), ("device", U64), ("array", U64)]
    fields += [("context", U64)] if deep else []
    fields += [("pitch", SIZE_T)]
    fields += [("height", SIZE_T)] if deep else []
    return [(f"{prefix}_{name}", kind) for name, kind in fields]


class Box(ctypes.Structure):
    _fields_ = [*end("src"), *end("dst"), ("width", SIZE_T), ("rows", SIZE_T), ("depth", SIZE_T)]
