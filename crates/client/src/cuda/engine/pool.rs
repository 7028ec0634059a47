//! Memory pools: stream-ordered allocation. The driver's own pools serve it, at the worker, so it
//! is the driver that says where such memory lies.

use super::prelude::*;
use crate::cuda::engine::host_pool;
use crate::cuda::state::handles::WORKER_IDS;
use crate::cuda::state::ranges::{ORDERED, Range, Sort};
use crate::cuda::state::recycled::{Home, Pool};
use busbar_channel::switches::Switch;

/// Marks the flags of memory that came from a pool; the others are the pool's id, 0 for the default
/// one of its device.
pub const POOLED: u32 = host_pool::POOLED;

/// Marks the flags of memory that a node of a graph allocates. Its address is the graph's: who
/// frees it gives it back until the graph is launched again.
pub const OF_GRAPH: u32 = 1 << 29;

/// Whether memory came from a pool.
pub fn is_pooled(r: &Range) -> bool {
    r.sort == Sort::Foreign && r.flags & POOLED != 0
}

/// Whether a node of a graph allocates memory.
pub fn is_graphs(r: &Range) -> bool {
    r.sort == Sort::Foreign && r.flags & OF_GRAPH != 0
}

/// The handle of the pool that memory came from; null when it came from none.
pub fn of_memory(cx: Cx, r: &Range) -> Result<u64> {
    if r.sort != Sort::Foreign {
        let pool = cx.state().host_pooled.get(&r.base);
        return Ok(pool.map_or(0, |(p, _)| cx.raw(Kind::MemoryPool, p.id)));
    }
    match r.flags & !ORDERED {
        POOLED => of_device(cx, r.device, 1),
        f if f & POOLED != 0 => Ok(cx.raw(Kind::MemoryPool, f & !POOLED)),
        _ => Ok(0),
    }
}

/// The handle of a device's default pool, or of the one that it allocates from.
pub fn of_device(cx: Cx, device: CUdevice, default: u32) -> Result<u64> {
    cx.device(device)?;
    let pool = cx.reply_to(&msg::PoolOfDevice { device, default })?.pool;
    cx.state().pools.insert(pool, device);
    cx.in_context(0).adopt(Kind::MemoryPool, pool)
}

/// What memory of a pool is known by: its device, and the pool's id, but for the default one's.
pub fn known(cx: Cx, pool: u32) -> Option<Pool> {
    let device = cx.state().pools.get(&pool)?;
    let own = Some(pool).filter(|id| *id < WORKER_IDS);
    Some((device, own.unwrap_or(0)))
}

/// The same of memory that came from one.
fn of_range(r: &Range) -> Pool {
    (r.device, r.flags & !ORDERED & !POOLED)
}

/// Devices may use the memory of a pool, or no longer. A pool of the program's own is kept by its
/// id alone: of which device another process's is, is known when there is memory of it.
pub fn let_in(cx: Cx, pool: u32, list: &[CUmemAccessDesc]) {
    let own = (pool < WORKER_IDS).then_some((0, pool));
    if let Some(pool) = own.or_else(|| known(cx, pool)) {
        let mut users = lock(&cx.state().pool_users);
        for a in list {
            users.insert((pool, a.location.id), a.flags);
        }
    }
}

/// Whether a device may use memory of a pool that is not its own device's.
pub fn may_use(cx: Cx, r: &Range, user: CUdevice) -> bool {
    let pool = match of_range(r) {
        (device, 0) => (device, 0),
        (_, id) => (0, id),
    };
    let flags = lock(&cx.state().pool_users).get(&(pool, user)).copied();
    flags.is_some_and(|flags| flags != CU_MEM_ACCESS_FLAGS_PROT_NONE)
}

/// What memory that is about to be freed came from.
pub enum Maker {
    /// It was there, and is no longer.
    Pool(Range),
    /// Whether it is there depends on what graphs have been launched: the driver knows.
    Graph,
}

/// Memory that a pool or a graph gave is about to be freed.
pub fn forget(cx: Cx, p: CUdeviceptr) -> Result<Maker> {
    let ranges = &cx.state().ranges;
    let of_graph = |r: &Range| r.base == p && is_graphs(r);
    if ranges.find(p).is_some_and(|r| of_graph(&r)) {
        return Ok(Maker::Graph);
    }
    let gone = ranges.take(p, is_pooled);
    gone.map(Maker::Pool).ok_or(CUDA_ERROR_INVALID_VALUE)
}

/// Where memory of a pool may be had again once it was freed in a stream.
pub fn home(cx: Cx, stream: u32, pool: Pool, size: u64) -> Home {
    let scope = cx.scope;
    Home {
        scope,
        stream,
        pool,
        size,
    }
}

/// Keeps memory that a pool gave, and that was freed in a stream, for the next allocation there.
/// Says whether it did: nothing is kept while a stream captures, whose graph might own it.
pub fn keep(cx: Cx, r: &Range, stream: u32) -> bool {
    let home = home(cx, stream, of_range(r), r.size);
    Switch::Local.on() && !cx.state().captures.any() && cx.state().recycled.keep(home, r.base)
}

/// `cuMemFree` of memory that came from a pool.
pub fn free_now(cx: Cx, p: CUdeviceptr) -> Result<()> {
    if host_pool::free_now(cx, p)? {
        return Ok(());
    }
    forget(cx, p)?;
    cx.call(&msg::PoolFreeNow { va: p }).map(drop)
}
