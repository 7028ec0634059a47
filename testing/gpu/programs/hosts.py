"""How many hosts the ranks of a program are to take themselves for: `JOB_HOSTS`."""

import os


def divide(rank, ranks):
    """Tells NCCL of which host this rank is, before it is asked for anything; sockets are between
    hosts."""
    hosts = int(os.environ.get("JOB_HOSTS", "1"))
    if hosts > 1:
        os.environ["NCCL_HOSTID"] = f"host{rank * hosts // ranks}"
