"""Prints what a program can ask of OpenCL platforms and devices, where clinfo is missing.

A field a line. Left out is what cannot or need not be equal through Busbar: names, handles,
extensions and what goes with them, memory shared with the host, and how much memory happens to be
free.
"""

import pyopencl as cl

LEFT_OUT = {"NAME", "PLATFORM", "PARENT_DEVICE", "PARENT_DEVICE_EXT", "REFERENCE_COUNT",
            "EXTENSIONS", "EXTENSIONS_WITH_VERSION", "SVM_CAPABILITIES", "EXECUTION_CAPABILITIES",
            "GLOBAL_MEM_SIZE", "MAX_MEM_ALLOC_SIZE", "GLOBAL_FREE_MEMORY_AMD",
            # PoCL 3.1 sets half of its eight bytes.
            "DEVICE_ENQUEUE_CAPABILITIES"}


def show(what, kinds):
    for name in sorted(n for n in dir(kinds) if n.isupper() and n not in LEFT_OUT):
        try:
            value = what.get_info(getattr(kinds, name))
        except (cl.Error, OverflowError, UnicodeDecodeError) as e:
            value = f"error {getattr(e, 'code', e)}"
        print(f"  {name} {value!r}" if " at 0x" not in repr(value) else f"  {name} an object")


for platform in cl.get_platforms():
    print("platform")
    show(platform, cl.platform_info)
    for device in platform.get_devices():
        print(" device", device.name.split(" @ ")[0])
        show(device, cl.device_info)
