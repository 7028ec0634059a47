//! Page-locked memory that is ours to make.

use super::prelude::*;
use crate::cuda::call::unmap_host;
use crate::cuda::engine::{place, shadow, shared, transfer};
use crate::cuda::state::ranges::{Range, Sort};

/// Makes page-locked memory.
pub fn alloc(cx: Cx, size: usize, flags: u32) -> Result<u64> {
    let of = cx.home()?;
    let shared = shared::alloc(cx, size as u64);
    let p = shared.map_or_else(|| place::host_map(&cx.state().spaces, size), Ok)?;
    cx.state().ranges.add(p, size as u64, Sort::Host, of, flags);
    if shared.is_none() {
        cx.state().shadows.has_host_memory(None);
    }
    tell(cx, (p, size as u64), Sort::Host, flags);
    Ok(p)
}

/// There is page-locked memory: it is so for the devices of all servers, and of one's context.
pub fn tell(cx: Cx, (p, size): (u64, u64), sort: Sort, flags: u32) {
    let device = cx.current_device().unwrap_or(0);
    for there in cx.rest() {
        let state = there.state();
        state.ranges.add(p, size, sort, (0, device), flags);
        state.shadows.has_host_memory(match sort {
            Sort::Registered => Some((p, p + size)),
            _ => None,
        });
    }
}

/// That memory goes: nobody needs it any more, and no kernel sees it.
pub fn untell(cx: Cx, r: &Range) {
    for there in cx.rest() {
        if let Some(r) = there.state().ranges.remove(r.base, |s| s == r.sort) {
            transfer::settle(there, r.base, r.size);
            shadow::conceal(there, &r);
        }
    }
}

/// Frees page-locked memory.
pub fn free(cx: Cx, p: u64) -> Result<()> {
    let state = cx.state();
    let r = state.ranges.take(p, Range::is_allocated);
    let r = r.ok_or(CUDA_ERROR_INVALID_VALUE)?;
    transfer::settle(cx, r.base, r.size);
    untell(cx, &r);
    if state.spaces.is_shared(r.base) {
        // In the context it was registered in, whose work must be over first.
        shared::free(cx.in_context(r.context), r.base, r.size);
        return Ok(());
    }
    shadow::conceal(cx, &r);
    if let Some((va, size)) = place::leave_host(&state.spaces, r.base, r.size) {
        unmap_host(va, size);
        state.spaces.vacant(va, size);
    }
    Ok(())
}
