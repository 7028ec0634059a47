"""Prints the name of the first GPU."""

import ctypes
import sys

try:
    cuda = ctypes.CDLL("libcuda.so.1")
except OSError as error:
    sys.exit(f"no driver: {error}")
name = ctypes.create_string_buffer(100)
cuda.cuInit(0)
cuda.cuDeviceGetName(name, len(name), 0)
print(name.value.decode())
