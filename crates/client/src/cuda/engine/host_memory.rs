//! Page-locked memory that is ours to make.

use super::prelude::*;
use crate::cuda::call::unmap_host;
use crate::cuda::engine::{host_file, place, shadow, shared, transfer};
use crate::cuda::state::area::{Evidence, SMALL};
use crate::cuda::state::host_file::Piece;
use crate::cuda::state::ranges::{IN_FILE, Range, Sort, Spaces, pages};
use crate::cuda::state::spares::Spare;

/// Makes page-locked memory.
pub fn alloc(cx: Cx, size: usize, flags: u32) -> Result<u64> {
    let of = cx.home()?;
    if let Some(spare) = cx.state().spares.take(size as u64, of.0) {
        return again(cx, spare, of, flags);
    }
    let shared = shared::alloc(cx, size as u64);
    let p = shared.map_or_else(|| place::host_map(&cx.state().spaces, size), Ok)?;
    cx.state().ranges.add(p, size as u64, Sort::Host, of, flags);
    if shared.is_none() {
        cx.state().shadows.has_host_memory(None);
    }
    tell(cx, (p, size as u64), Sort::Host, flags);
    Ok(p)
}

/// Makes page-locked memory of what lies in a file, which other processes may have, too.
pub fn of_file(cx: Cx, piece: Piece, flags: u32) -> Result<u64> {
    let of = cx.home()?;
    let p = host_file::place(cx, &piece)?;
    let (size, flags) = (piece.size, flags | IN_FILE);
    cx.state().pieces.insert(p, piece);
    cx.state().ranges.add(p, size, Sort::Host, of, flags);
    cx.state().shadows.has_host_memory(None);
    tell(cx, (p, size), Sort::Host, flags);
    Ok(p)
}

/// Gives out memory that was freed. Kernels see it from the beginning: the worker has it, and a
/// kernel whose pointer was missed would read what is old.
fn again(cx: Cx, s: Spare, of: (u32, CUdevice), flags: u32) -> Result<u64> {
    // SAFETY: pages of ours that nobody uses.
    unsafe { std::ptr::write_bytes(s.base as *mut u8, 0, pages(s.size) as usize) };
    let state = cx.state();
    state.ranges.add(s.base, s.size, Sort::Host, of, flags);
    let r = state.ranges.find(s.base).ok_or(CUDA_ERROR_UNKNOWN)?;
    shadow::show(cx.in_context(s.context), &r, s.start, Evidence::Sure)
        .inspect_err(|_| _ = state.ranges.take(s.base, Range::is_allocated))?;
    tell(cx, (s.base, s.size), Sort::Host, flags);
    transfer::forget(cx, s.base);
    Ok(s.base)
}

/// There is page-locked memory: it is so for the devices of all servers, and of one's context.
pub fn tell(cx: Cx, (p, size): (u64, u64), sort: Sort, flags: u32) {
    transfer::keep(cx, (p, size));
    let device = cx.current_device().unwrap_or(0);
    for there in cx.rest() {
        let state = there.state();
        state.ranges.add(p, size, sort, (0, device), flags);
        state.shadows.has_host_memory(match sort {
            Sort::Registered => Some((p, p + size)),
            _ => None,
        });
        transfer::keep(there, (p, size));
    }
}

/// That memory goes: nobody needs it any more, and no kernel sees it.
pub fn untell(cx: Cx, r: &Range) {
    for there in cx.rest() {
        if let Some(r) = there.state().ranges.remove(r.base, |s| s == r.sort) {
            transfer::wait_for_copies(there, r.base, r.size);
            shadow::conceal(there, &r);
        }
    }
    transfer::forget(cx, r.base);
}

/// Whether page-locked memory may be a flag for kernels, of which programs make one after the
/// other. Of several servers any may be the one whose kernels see the next.
pub fn is_flag(cx: Cx, r: &Range) -> bool {
    r.size <= SMALL
        && !r.is_in_file()
        && cx.state().ranges.may_be_for_kernels(r)
        && cx.rest().next().is_none()
}

/// Kernels see page-locked memory no longer. Says whether what is left of a `flag` is kept for the
/// next one.
pub fn put_by(cx: Cx, r: &Range, flag: bool) -> bool {
    if !flag {
        shadow::conceal(cx, r);
        return false;
    }
    let gone = shadow::put_by(cx, r);
    let spaces = &cx.state().spaces;
    gone.iter()
        .flatten()
        .for_each(|old| leave_spare(spaces, old));
    gone.is_some()
}

fn leave_spare(spaces: &Spaces, s: &Spare) {
    if s.sort == Sort::Host {
        leave(spaces, s.base, s.size);
    }
}

/// A context goes, and what is registered in it.
pub fn leave_context(cx: Cx) {
    let state = cx.state();
    for s in state.spares.take_context(cx.scope) {
        shadow::leave_window(cx, &s);
        leave_spare(&state.spaces, &s);
    }
}

/// Frees page-locked memory.
pub fn free(cx: Cx, p: u64) -> Result<()> {
    let state = cx.state();
    let r = state.ranges.find(p).filter(|r| r.base == p);
    let flag = r.is_some_and(|r| is_flag(cx, &r));
    let r = state.ranges.take(p, Range::is_allocated);
    let r = r.ok_or(CUDA_ERROR_INVALID_VALUE)?;
    transfer::wait_for_copies(cx, r.base, r.size);
    untell(cx, &r);
    if state.spaces.is_shared(r.base) {
        // In the context it was registered in, whose work must be over first.
        shared::free(cx.in_context(r.context), r.base, r.size);
        return Ok(());
    }
    if let Some(piece) = state.pieces.take(&r.base) {
        shadow::conceal(cx, &r);
        host_file::leave(cx, r.base, &piece);
        return Ok(());
    }
    if !put_by(cx, &r, flag) {
        leave(&state.spaces, r.base, r.size);
    }
    Ok(())
}

/// The room of memory that is the program's alone is anybody's.
pub fn leave(spaces: &Spaces, base: u64, size: u64) {
    if let Some((va, size)) = place::leave_host(spaces, base, size) {
        unmap_host(va, size);
        spaces.vacant(va, size);
    }
}
