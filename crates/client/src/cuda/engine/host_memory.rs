//! Page-locked memory that is ours to make.

use super::prelude::*;
use crate::cuda::call::unmap_host;
use crate::cuda::engine::{place, shadow, shared, transfer};
use crate::cuda::state::ranges::Sort;
use crate::cuda::state::space;

/// Makes page-locked memory.
pub fn alloc(cx: Cx, size: usize, flags: u32) -> Result<u64> {
    let of = cx.home()?;
    let shared = shared::alloc(cx, size as u64);
    let p = shared.map_or_else(|| place::host_map(&cx.state().spaces, size), Ok)?;
    cx.state().ranges.add(p, size as u64, Sort::Host, of, flags);
    if shared.is_none() {
        cx.state().shadows.has_host_memory(None);
    }
    Ok(p)
}

/// Frees page-locked memory.
pub fn free(cx: Cx, p: u64) -> Result<()> {
    let state = cx.state();
    let r = state.ranges.remove(p, |s| s == Sort::Host);
    let r = r.ok_or(CUDA_ERROR_INVALID_VALUE)?;
    transfer::settle(cx, r.base, r.size);
    if space::is_shared(r.base) {
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
