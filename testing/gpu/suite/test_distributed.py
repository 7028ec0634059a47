"""PyTorch's own tests of its collectives and of DistributedDataParallel, which its package brings,
for two ranks over NCCL; `jobs.py` runs them natively and through Busbar."""

import os
import tempfile

os.environ.setdefault("BACKEND", "nccl")
os.environ.setdefault("WORLD_SIZE", "2")
if "TEMP_DIR" not in os.environ:
    # The ranks, which are processes of their own, find what the first one made.
    made = tempfile.mkdtemp(prefix="busbar-distributed-")
    for name in ("barrier", "test_dir", "init_dir"):
        os.mkdir(os.path.join(made, name))
    os.environ["TEMP_DIR"] = made
    os.environ["INIT_METHOD"] = f"file://{made}/init_dir/shared_init_file"

import torch  # noqa: E402
from torch.testing._internal.distributed.distributed_test import (  # noqa: E402
    DistributedTest,
    TestDistBackend,
)


class TestDistBackendWithSpawn(TestDistBackend, DistributedTest._DistTestBase):
    def setUp(self):
        super().setUp()
        self._spawn_processes()
        torch.backends.cudnn.flags(enabled=True, allow_tf32=False).__enter__()
