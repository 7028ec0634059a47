//! Managed memory: allocation and its end. How both sides see it is the business of
//! [`super::shadow`].

use super::prelude::*;
use crate::cuda::call::{Host, freed, unmap_host};
use crate::cuda::engine::{place, shadow};
use crate::cuda::state::ranges::{Range, Sort, pages};
use crate::cuda::state::space;

/// Allocates managed memory, of the current context, that is to be known by these flags.
pub fn alloc(cx: Cx, size: u64, flags: u32) -> Result<u64> {
    let of = cx.home()?;
    let device = of.1;
    let state = cx.state();
    let at = state.spaces.place(space::MANAGED, size, |va, size| {
        place::map_fixed(va, size, libc::PROT_READ)?;
        let there = cx.call(&msg::MemMapAt { va, size, device });
        there.map(drop).inspect_err(|_| unmap_host(va, size))
    })?;
    state.ranges.add(at, size, Sort::Managed, of, flags);
    shadow::add_managed(cx, at, pages(size))?;
    Ok(at)
}

/// Frees managed memory, which is no range any more, once nothing uses it.
pub fn free(cx: Cx, r: &Range) -> Result<()> {
    let cx = cx.in_context(r.context);
    cx.state().shadows.forget_managed(&Host, r.base);
    lock(&cx.state().advised).forget(r.base, r.size);
    close(r);
    freed::retire(cx, space::MANAGED, r.base, r.size)
}

/// Takes the pages of managed memory from the program.
pub fn close(r: &Range) {
    let len = pages(r.size) as usize;
    let p = r.base as *mut c_void;
    // Closed while it is nobody's, so that its neighbours in the granule do not hide a mistake;
    // then as the next allocation expects it.
    // SAFETY: pages of ours that nobody uses any more.
    unsafe {
        libc::madvise(p, len, libc::MADV_DONTNEED);
        libc::mprotect(p, len, libc::PROT_READ);
    }
}
