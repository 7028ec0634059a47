//! Pools of host memory and of managed memory, which are given and taken back in stream order.

use super::prelude::*;
use crate::cuda::engine::{host_file, host_memory, managed, stream};
use crate::cuda::state::advice::Advice;
use crate::cuda::state::host_file::{HostFile, Piece};
use crate::cuda::state::host_pools::{HostPool, Of};
use crate::cuda::state::ranges::{Range, Sort};

/// Page-locked memory of a pool is every context's, and kernels see it.
const FLAGS: u32 = CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP;

/// Marks the flags of memory that came from a pool.
pub const POOLED: u32 = 1 << 30;

/// Whether memory came from a pool of managed memory.
pub fn is_managed(r: &Range) -> bool {
    r.sort == Sort::Managed && r.flags & POOLED != 0
}

/// The pool with an id, if it is one of these.
pub fn find(cx: Cx, id: u32) -> Option<Arc<HostPool>> {
    cx.state().host_pools.get(&id)
}

/// Makes a pool that may have so many bytes in use; 0 for any number. Other processes may have its
/// memory if it lies in a file.
pub fn create(cx: Cx, of: Of, most: u64, file: Option<Arc<HostFile>>) -> u32 {
    let id = cx.create_in(Kind::MemoryPool, 0);
    let pools = &cx.state().host_pools;
    pools.insert(id, HostPool::new(id, of, most, file));
    id
}

/// The pool that there is without a program's making one.
pub fn default(cx: Cx, of: Of) -> u32 {
    let known = &mut lock(&cx.state().known_host_pools).own;
    *known.entry(of).or_insert_with(|| create(cx, of, 0, None))
}

/// The pool that a program has put in its place, or that one.
pub fn current(cx: Cx, of: Of) -> u32 {
    let put = lock(&cx.state().known_host_pools).current.get(&of).copied();
    put.unwrap_or_else(|| default(cx, of))
}

/// A pool goes. What the program still has of it stays until it is freed.
pub fn destroy(cx: Cx, pool: &HostPool) -> Result<()> {
    let own = lock(&cx.state().known_host_pools)
        .own
        .get(&pool.of)
        .copied();
    refuse_if(own == Some(pool.id), CUDA_ERROR_INVALID_VALUE)?;
    let free = pool.destroy();
    cx.destroy(Kind::MemoryPool, pool.id);
    release(cx, free)
}

/// Gives memory back that is free in no pool, and what of gone pools has come free meanwhile.
pub fn release(cx: Cx, free: Vec<u64>) -> Result<()> {
    let left = std::mem::take(&mut *lock(&cx.state().host_left));
    for at in left.into_iter().chain(free) {
        let of_managed = |r: &Range| r.sort == Sort::Managed;
        match cx.state().ranges.take(at, of_managed) {
            Some(r) => managed::free(cx, &r)?,
            None => host_memory::free(cx, at)?,
        }
    }
    Ok(())
}

/// Makes memory for a pool.
fn make(cx: Cx, pool: &HostPool, size: u64) -> Result<u64> {
    match (&pool.file, pool.of) {
        (Some(file), _) => return host_memory::of_file(cx, host_file::piece(file, size)?, FLAGS),
        (None, Of::Host) => return host_memory::alloc(cx, size as usize, FLAGS),
        (None, Of::Managed(_)) => {}
    }
    // A pool outlives the contexts of a program, so its memory is best in one that stays.
    let (_, device) = cx.home()?;
    let primary = cx.state().contexts.primary(device)?;
    let home = match primary.retained.load(Ordering::Acquire) {
        0 => cx,
        _ => cx.in_context(cx.device(device)?.primary),
    };
    managed::alloc(home, size, POOLED | CU_MEM_ATTACH_GLOBAL)
}

/// Memory of a pool has gone with its context.
pub fn lose(cx: Cx, r: &Range) {
    let state = cx.state();
    if let Some((pool, size)) = state.host_pooled.take(&r.base) {
        pool.give(r.base, size);
    }
    lock(&state.host_left).retain(|at| *at != r.base);
    state.host_pools.retain(|_, pool| {
        pool.lose(r.base, r.size);
        true
    });
}

/// Neither end of its life can be part of a graph.
fn not_captured(cx: Cx, stream: u32) -> Result<()> {
    if cx.state().captures.any() && stream::captures(cx, stream)? {
        return Err(CUDA_ERROR_NOT_SUPPORTED);
    }
    Ok(())
}

/// Memory of a pool, which is there at once.
pub fn alloc(cx: Cx, pool: Arc<HostPool>, size: u64, stream: u32) -> Result<u64> {
    not_captured(cx, stream)?;
    refuse_if(pool.is_imported(), CUDA_ERROR_INVALID_VALUE)?;
    release(cx, Vec::new())?;
    if size == 0 {
        return Ok(0);
    }
    let at = match pool.take(size).ok_or(CUDA_ERROR_OUT_OF_MEMORY)? {
        Some(at) => at,
        None => make(cx, &pool, size).inspect_err(|_| pool.not_made(size))?,
    };
    if let Of::Managed(preferred) = pool.of {
        let advice = Advice {
            preferred,
            ..Advice::default()
        };
        lock(&cx.state().advised).change(at, size, |a| *a = advice.clone());
    }
    cx.state().host_pooled.insert(at, (pool, size));
    Ok(at)
}

/// Memory of another process's pool.
pub fn import(cx: Cx, pool: Arc<HostPool>, data: &CUmemPoolPtrExportData) -> Result<u64> {
    let file = pool.file.as_ref().filter(|file| !file.is_own);
    let piece = Piece::of(file.ok_or(CUDA_ERROR_INVALID_VALUE)?, data);
    let piece = piece.ok_or(CUDA_ERROR_INVALID_VALUE)?;
    release(cx, Vec::new())?;
    let size = piece.size;
    let at = host_memory::of_file(cx, piece, FLAGS)?;
    pool.has(size);
    cx.state().host_pooled.insert(at, (pool, size));
    Ok(at)
}

/// What another process needs to have memory of a pool; `None` where that is none of these pools.
pub fn export(cx: Cx, at: u64) -> Result<Option<CUmemPoolPtrExportData>> {
    if cx.state().host_pooled.get(&at).is_none() {
        return Ok(None);
    }
    let piece = cx.state().pieces.get(&at).filter(|piece| piece.file.is_own);
    let piece = piece.ok_or(CUDA_ERROR_INVALID_VALUE)?;
    Ok(Some(piece.ticket()))
}

/// Frees memory of a pool when a stream has come so far; says whether it is such.
pub fn free(cx: Cx, at: u64, stream: u32) -> Result<bool> {
    let state = cx.state();
    if state.host_pooled.get(&at).is_none() {
        return Ok(false);
    }
    not_captured(cx, stream)?;
    let (pool, size) = state
        .host_pooled
        .take(&at)
        .ok_or(CUDA_ERROR_INVALID_VALUE)?;
    let come_so_far = msg::CopyOut {
        src: 0,
        len: 0,
        stream,
    };
    let then = move |_| lock(&state.host_left).extend(pool.give(at, size));
    // SAFETY: the answer has no bulk bytes.
    let sent = unsafe {
        cx.client
            .session
            .call_async(cx.scope, &come_so_far, None, then)
    };
    sent.or_else(|_| cx.lost()).map(|()| true)
}

/// Frees memory of a pool at once; says whether it is such.
pub fn free_now(cx: Cx, at: u64) -> Result<bool> {
    let Some((pool, size)) = cx.state().host_pooled.take(&at) else {
        return Ok(false);
    };
    let waited = cx.synchronize(crate::cuda::state::order::ALL_STREAMS);
    release(cx, pool.give(at, size).into_iter().collect())?;
    waited.map(|()| true)
}

/// The first attributes are numbers that a program sets.
const LAST_SETTING: u32 = CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;

/// An attribute.
pub fn attribute(pool: &HostPool, which: u32) -> u64 {
    let p = lock(&pool.inside);
    match which {
        CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT => p.reserved.now,
        CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH => p.reserved.high,
        CU_MEMPOOL_ATTR_USED_MEM_CURRENT => p.used.now,
        CU_MEMPOOL_ATTR_USED_MEM_HIGH => p.used.high,
        CU_MEMPOOL_ATTR_RELEASE_THRESHOLD => p.settings.get(&which).copied().unwrap_or(0),
        // Memory may be used again in each of the ways, unless a program says otherwise.
        _ => p.settings.get(&which).copied().unwrap_or(1),
    }
}

/// Sets an attribute. A high mark can only be set back.
pub fn set_attribute(pool: &HostPool, which: u32, value: u64) -> Result<()> {
    let mut p = lock(&pool.inside);
    match (which, value) {
        (1..=LAST_SETTING, _) => _ = p.settings.insert(which, value),
        (CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, 0) => p.reserved.high = p.reserved.now,
        (CU_MEMPOOL_ATTR_USED_MEM_HIGH, 0) => p.used.high = p.used.now,
        _ => return Err(CUDA_ERROR_INVALID_VALUE),
    }
    Ok(())
}
