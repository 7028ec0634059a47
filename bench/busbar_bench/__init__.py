"""Compares programs on a remote GPU with the same programs on a local one.

The workloads know nothing of Busbar: a worker process runs them, and the runner starts that same
process with and without a prefix such as ``busbar run --server HOST:PORT --``.
"""

FORMAT = "busbar-bench/1"
