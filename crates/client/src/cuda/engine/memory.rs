//! Device memory of the program's.

use super::prelude::*;
use crate::cuda::call::freed;
use crate::cuda::engine::{host_pool, managed, pool, shadow};
use crate::cuda::state::ranges::{Range, Sort, plausible};

/// Makes a module's variable known, of a context and its device.
pub fn add_variable(
    cx: Cx,
    (va, size): (u64, u64),
    managed: bool,
    of: (u32, CUdevice),
) -> Result<()> {
    plausible(va, size)?;
    let sort = if managed {
        shadow::add_variable(cx, (va, size), of.0)?;
        Sort::Managed
    } else {
        Sort::Foreign
    };
    cx.state().ranges.add(va, size, sort, of, 0);
    Ok(())
}

/// Allocates device memory in the current context.
pub fn alloc(cx: Cx, size: usize) -> Result<u64> {
    let (context, device) = cx.home()?;
    refuse_if(size == 0, CUDA_ERROR_INVALID_VALUE)?;
    let state = cx.state();
    let at = state.spaces.place(device as u32, size as u64, |va, size| {
        cx.call(&msg::MemMapAt { va, size, device }).map(drop)
    })?;
    let of = (context, device);
    state.ranges.add(at, size as u64, Sort::Device, of, 0);
    Ok(at)
}

/// Frees device memory, or managed memory, once nothing uses it any more.
pub fn free(cx: Cx, p: u64) -> Result<()> {
    // A module's managed variable has no flags, and is not the program's to free; memory of a pool
    // is the pool's.
    let managed = |r: &Range| r.sort == Sort::Managed && r.flags != 0 && !host_pool::is_managed(r);
    let ours = |r: &Range| r.sort == Sort::Device || managed(r);
    let Some(r) = cx.state().ranges.take(p, ours) else {
        return pool::free_now(cx, p);
    };
    if r.sort == Sort::Managed {
        return managed::free(cx, &r);
    }
    // In the context the memory was made in: it is that one's work that must be over first.
    freed::retire(cx.in_context(r.context), r.device as u32, r.base, r.size)
}
