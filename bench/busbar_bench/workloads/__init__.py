"""The workloads, one small file each.

A workload module has ``NAMES``, the names it answers to, and ``build(spec, feed)``, which returns
an object with

- ``unit``, such as ``"images/s"``, and ``items_per_step``;
- ``step()``, which starts one step and returns a tensor that stands for its result, or None;
- ``synchronize()``, which waits for everything started;
- ``mark()``, which returns a function that waits for what has been started so far;
- ``read(result)``, a number the program would look at;
- ``close()``.

Nothing here knows where the GPU is.
"""

import importlib
import pkgutil


def _modules():
    return sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))


def names():
    """Every name a workload answers to. Imports no PyTorch."""
    return sorted(
        name
        for module in _modules()
        for name in importlib.import_module(f"{__name__}.{module}").NAMES
    )


def build(spec, feed):
    """Builds the workload that a specification names."""
    for module in _modules():
        loaded = importlib.import_module(f"{__name__}.{module}")
        if spec.name in loaded.NAMES:
            return loaded.build(spec, feed)
    raise ValueError(f"no workload is named {spec.name!r}; there are {', '.join(names())}")
