"""RMM under CuPy: the same work on memory of each kind that RMM has."""
import sys

import cupy as cp
import numpy as np
import rmm
from rmm import mr
from rmm.allocators.cupy import rmm_cupy_allocator

rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 30
cp.cuda.set_allocator(rmm_cupy_allocator)
device = mr.CudaMemoryResource
KINDS = {
    "device": device,
    "managed": mr.ManagedMemoryResource,
    "stream order": mr.CudaAsyncMemoryResource,
    "managed, stream order": mr.CudaAsyncManagedMemoryResource,
    "a pool": lambda: mr.PoolMemoryResource(device(), initial_pool_size=2**26),
    "a managed pool": lambda: mr.PoolMemoryResource(
        mr.ManagedMemoryResource(), initial_pool_size=2**26
    ),
    "an arena": lambda: mr.ArenaMemoryResource(device(), arena_size=2**28),
    "bins": lambda: mr.BinningMemoryResource(device(), 18, 24),
    "pieces of a size": lambda: mr.FixedSizeMemoryResource(device(), block_size=1 << 24),
    "managed, prefetched": lambda: mr.PrefetchResourceAdaptor(mr.ManagedMemoryResource()),
    "tracked": lambda: mr.TrackingResourceAdaptor(device()),
    "a limit": lambda: mr.LimitingResourceAdaptor(device(), 2**28),
}


def work():
    """Sorts in three streams; the sums of the smallest."""
    numbers = np.random.default_rng(1).standard_normal((512, 512)).astype(np.float32)
    source = cp.asarray(numbers)
    # The streams do not wait for the one that it is copied on.
    cp.cuda.get_current_stream().synchronize()
    streams = [cp.cuda.Stream(non_blocking=True) for _ in range(3)]
    total = 0.0
    for i in range(rounds):
        with streams[i % 3]:
            total += float(cp.sort((source * (i + 1)).ravel())[:1000].sum())
    return total


for name, make in KINDS.items():
    try:
        rmm.mr.set_current_device_resource(make())
        total = work()
        buffer = rmm.DeviceBuffer.to_device(b"busbar" * 1000)
        buffer.resize(20)
        print(name, repr(total), bytes(buffer.copy_to_host()))
        if name == "a limit":
            rmm.DeviceBuffer(size=2**29)
    except (MemoryError, RuntimeError, ValueError) as e:
        print(name, type(e).__name__, str(e).split("at:")[0][:60])
