//! Copies between the program's memory and the device's.
//!
//! A copy to the device returns once the bytes are queued: from pageable memory they are copied
//! into the queue, page-locked memory is sent from where it lies, which is what CUDA asks its users
//! to leave alone until the copy is done. A copy from the device to page-locked memory returns at
//! once and the bytes arrive by themselves; any other waits.

use super::prelude::*;
use crate::cuda::call::{Arriving, Host};
use crate::cuda::engine::{
    across, activity, addresses, callback, graph_host, peer, ring, settled, shadow, shared, stream,
    transfer,
};
use crate::cuda::state::rows::{DEVICE, End, HOST, Rows, UNIFIED};
use crate::marks;

/// A copy between two places on devices, or between what is there of shadowed memory.
fn on_device(cx: Cx, dst: u64, src: u64, len: usize, stream: u32) -> Result<()> {
    let there = |p| cx.state().shadows.device_side(p, len).unwrap_or(p);
    let (dst, src) = (there(dst), there(src));
    must_be_copied(cx, dst, len, stream)?;
    must_be_copied(cx, src, len, stream)?;
    let m = msg::CuMemcpyDtoDAsyncV2 {
        dst_device: dst,
        src_device: src,
        byte_count: len as u64,
        h_stream: stream,
    };
    cx.send_to(&m, Touch::At(&[dst]))?;
    cx.has_begun(stream)
}

/// Refuses an end of a copy that is no device's, or may not be copied by the current one.
fn must_be_copied(cx: Cx, p: u64, len: usize, stream: u32) -> Result<()> {
    cx.state().must_be_on_device(p, len)?;
    peer::in_stream(cx, stream, peer::may_copy(cx, peer::asks(cx), p))
}

/// Where the device finds what a program calls the host's memory, if it does: that may be its own.
fn for_device(cx: Cx, p: u64, len: usize) -> Option<u64> {
    let state = cx.state();
    let shadowed = shadow::end_of_copy(cx, p, len);
    shadowed.or_else(|| state.is_devices(p).then_some(p))
}

/// A copy of bytes that lie one behind the other, between kinds of memory.
fn flat(dst: (u32, u64), src: (u32, u64), len: usize) -> Rows {
    let end = |(memory, p): (u32, u64)| End {
        memory,
        host: p,
        device: p,
        pitch: len,
        height: 1,
        ..End::default()
    };
    Rows {
        src: end(src),
        dst: end(dst),
        width: len,
        height: 1,
        depth: 1,
    }
}

/// Makes a node of a copy on a capturing stream; says whether it did. One that would wait is
/// refused.
#[cold]
fn captured(
    cx: Cx,
    dst: (u32, u64),
    src: (u32, u64),
    len: usize,
    stream: u32,
    later: bool,
) -> Result<bool> {
    if !later {
        stream::refuse_wait(cx, stream)?;
        return Ok(false);
    }
    graph_host::capture(cx, &flat(dst, src, len), stream)
}

/// Makes a node of a copy whose ends the addresses tell, on a capturing stream: its parameters then
/// say so. Says whether it did.
#[cold]
fn captured_as_named(cx: Cx, dst: u64, src: u64, len: usize, stream: u32) -> Result<bool> {
    for (p, writes) in [(dst, true), (src, false)] {
        match cx.state().on_host(p) {
            true => begin(cx, p, len, writes)?,
            false => must_be_copied(cx, p, len, stream)?,
        }
    }
    graph_host::capture(cx, &flat((UNIFIED, dst), (UNIFIED, src), len), stream)
}

/// Host to device, as the program calls it: what it calls a device's may be page-locked memory.
/// Unless it may be done `later`, it is done on return as far as the program can tell.
///
/// # Safety
/// `len` bytes at `src` are readable; page-locked ones stay as they are until the copy is done.
pub unsafe fn to_device(
    cx: Cx,
    dst: u64,
    src: *const u8,
    len: usize,
    stream: u32,
    later: bool,
) -> Result<()> {
    // SAFETY: passed on to the caller.
    unsafe {
        match cx.state().ranges.find_page_locked(dst).is_some() {
            true => by_address(cx, dst, src as u64, len, stream, later),
            false => from_host(cx, dst, src, len, stream, later),
        }
    }
}

/// The program's memory to a device's.
///
/// # Safety
/// As for [`to_device`].
unsafe fn from_host(
    cx: Cx,
    dst: u64,
    src: *const u8,
    len: usize,
    stream: u32,
    later: bool,
) -> Result<()> {
    // SAFETY: passed on to the caller.
    if let Some(done) = unsafe { across::bytes(cx, dst, src as u64, len, stream, later, any) } {
        return done;
    }
    if marks::is_on() {
        activity::know_end(cx, src as u64, later);
    }
    let waits = !later && len > 0;
    let quiet = waits.then(|| settled::quiet(cx, stream)).flatten();
    // SAFETY: passed on to the caller.
    let before = unsafe { queue_to_device(cx, dst, src, len, stream, later)? };
    if waits {
        settled::after(cx, stream, quiet)?;
    }
    before
}

/// An end of a copy in the program's memory, which the copy `writes` or reads: one that the driver
/// takes. Where ordinary memory goes on into registered memory, that is opened first: the system
/// moves such bytes, too.
fn begin(cx: Cx, p: u64, len: usize, writes: bool) -> Result<()> {
    let ranges = &cx.state().ranges;
    let whole = p != 0 && ranges.may_be_end(p, len);
    refuse_if(!whole, CUDA_ERROR_INVALID_VALUE)?;
    if cx.state().shadows.active() && ranges.leads_into_page_locked(p, len) {
        Host.open(p, len as u64, writes);
    }
    Ok(())
}

/// Queues a copy from the host to the device. One that is not for `later` waits first for what may
/// write its source; what became of that is told beside what becomes of the copy.
///
/// # Safety
/// As for [`to_device`].
unsafe fn queue_to_device(
    cx: Cx,
    dst: u64,
    src: *const u8,
    len: usize,
    stream: u32,
    later: bool,
) -> Result<Result<()>, CUresult> {
    cx.need_context()?;
    if len == 0 {
        return Ok(Ok(()));
    }
    begin(cx, src as u64, len, false)?;
    if let Some(there) = for_device(cx, src as u64, len) {
        return on_device(cx, dst, there, len, stream).map(Ok);
    }
    let shadowed = cx.state().shadows.device_side(dst, len);
    let dst = shadowed.unwrap_or(dst);
    must_be_copied(cx, dst, len, stream)?;
    // SAFETY: passed on to the caller.
    addresses::in_copy(cx, dst, unsafe { std::slice::from_raw_parts(src, len) })?;
    // What is copied may have its own address in it: then kernels see it from now on.
    if let Some(there) = cx.state().shadows.device_side(src as u64, len) {
        return on_device(cx, dst, there, len, stream).map(Ok);
    }
    let touch = shadowed.map_or(Touch::Nothing, |_| Touch::All);
    let _sending = cx.work_if_shadowed(stream, touch)?;
    if cx.state().captures.any()
        && captured(cx, (DEVICE, dst), (HOST, src as u64), len, stream, later)?
    {
        return Ok(Ok(()));
    }
    let ends = (dst, src as u64);
    let before = match later {
        true => Ok(()),
        false => settled::before(cx, stream, src as u64, len),
    };
    if shared::copy(cx, ends, src as u64, len, stream, later)? {
        return Ok(before);
    }
    let pinned = later && cx.state().ranges.is_pinned_end(src as u64, len);
    if pinned && cx.may_still_write(src as u64, len) && !cx.idle(stream) {
        let r = flat((DEVICE, dst), (HOST, src as u64), len);
        return callback::read_in_order(cx, &r, 0, stream).map(Ok);
    }
    // SAFETY: passed on to the caller.
    if unsafe { ring::to_device(cx, dst, src, len, stream)? } {
        return Ok(before);
    }
    // SAFETY: the caller's bytes.
    let bytes = unsafe { std::slice::from_raw_parts(src, len) };
    if pinned && transfer::again(cx, dst, bytes, stream)? {
        return Ok(before);
    }
    // SAFETY: passed on to the caller.
    unsafe {
        if pinned || len >= transfer::SEND_IN_PLACE {
            transfer::send_in_place(cx, dst, src, len, stream, pinned)?;
        } else {
            transfer::queue(cx, dst, std::slice::from_raw_parts(src, len), stream)?;
        }
    }
    Ok(before)
}

/// Device to host, as the program calls it.
///
/// # Safety
/// `len` bytes at `dst` are writable, and stay so until the copy is done.
pub unsafe fn to_host(
    cx: Cx,
    dst: *mut u8,
    src: u64,
    len: usize,
    stream: u32,
    later: bool,
) -> Result<()> {
    // SAFETY: passed on to the caller.
    unsafe {
        match cx.state().ranges.find_page_locked(src).is_some() {
            true => by_address(cx, dst as u64, src, len, stream, later),
            false => from_device(cx, dst, src, len, stream, later),
        }
    }
}

/// A device's memory to the program's.
///
/// # Safety
/// As for [`to_host`].
unsafe fn from_device(
    cx: Cx,
    dst: *mut u8,
    src: u64,
    len: usize,
    stream: u32,
    later: bool,
) -> Result<()> {
    // SAFETY: passed on to the caller.
    if let Some(done) = unsafe { across::bytes(cx, dst as u64, src, len, stream, later, any) } {
        return done;
    }
    if marks::is_on() {
        activity::know_end(cx, dst as u64, later);
    }
    let mark = cx.state().shadows.mark();
    // SAFETY: passed on to the caller.
    if unsafe { bring_to_host(cx, dst, src, len, stream, later)? } {
        cx.waited(cx.scope, Some(stream), mark);
    }
    Ok(())
}

/// Says whether the copy was waited for.
///
/// # Safety
/// As for [`to_host`].
unsafe fn bring_to_host(
    cx: Cx,
    dst: *mut u8,
    src: u64,
    len: usize,
    stream: u32,
    later: bool,
) -> Result<bool> {
    cx.need_context()?;
    if len == 0 {
        return Ok(!later);
    }
    begin(cx, dst as u64, len, true)?;
    if let Some(there) = for_device(cx, dst as u64, len) {
        on_device(cx, there, src, len, stream)?;
        // The program's next look at the bytes waits for them; an error it is told of here.
        if !later {
            cx.call(&msg::CuStreamSynchronize { h_stream: stream })?;
        }
        return Ok(!later);
    }
    let src = cx.state().shadows.device_side(src, len).unwrap_or(src);
    must_be_copied(cx, src, len, stream)?;
    let _sending = cx.work_if_shadowed(stream, Touch::Nothing)?;
    if cx.state().captures.any()
        && captured(cx, (HOST, dst as u64), (DEVICE, src), len, stream, later)?
    {
        return Ok(false);
    }
    let ends = (dst as u64, src);
    if shared::copy(cx, ends, dst as u64, len, stream, later)? {
        return Ok(!later);
    }
    if later && cx.state().ranges.is_pinned_end(dst as u64, len) {
        // SAFETY: page-locked memory stays until it is freed, and freeing it waits for copies.
        return unsafe {
            cx.state().order.program_will_see();
            let done = ring::to_host_later(cx, dst, src, len, stream)?;
            let m = msg::CopyOut {
                src: src + done as u64,
                len: (len - done) as u64,
                stream,
            };
            if done == len {
                return Ok(false);
            }
            let arriving = Arriving::new(cx, dst as u64 + done as u64, len - done);
            cx.later(&m, arriving).map(|()| false)
        };
    }
    // SAFETY: passed on to the caller.
    unsafe {
        if ring::to_host(cx, dst, src, len, stream)? {
            return Ok(true);
        }
        let since = cx.queued();
        transfer::fetch(cx, dst, src, len, stream)?;
        cx.now_idle(stream, since);
    }
    if cx.state().output.expected() {
        // What kernels have printed comes with a call that waits for the stream itself.
        cx.call(&msg::CuStreamSynchronize { h_stream: stream })?;
    }
    Ok(true)
}

/// As [`any`], for later, but that a source on the host has been read on return.
///
/// # Safety
/// As for [`any`].
pub unsafe fn at_once(cx: Cx, dst: u64, src: u64, len: usize, stream: u32) -> Result<()> {
    let pinned = cx.state().on_host(src)
        && !cx.state().on_host(dst)
        && cx.state().ranges.is_pinned(src, len);
    let usual = !pinned
        || cx.state().shadows.active()
        || cx.state().captures.any()
        || cx.client.devices.len() > 1;
    if !usual {
        cx.need_context()?;
        must_be_copied(cx, dst, len, stream)?;
        // SAFETY: page-locked memory of that length.
        let bytes = unsafe { std::slice::from_raw_parts(src as *const u8, len) };
        addresses::in_copy(cx, dst, bytes)?;
        return transfer::queue(cx, dst, bytes, stream);
    }
    // SAFETY: passed on to the caller.
    unsafe { any(cx, dst, src, len, stream, true)? };
    if pinned && !cx.state().captures.any() {
        cx.synchronize(stream)?;
    }
    Ok(())
}

/// A copy whose ends the addresses tell.
///
/// # Safety
/// `len` bytes at an end on the host are the program's to read or to write until the copy is done.
pub unsafe fn any(cx: Cx, dst: u64, src: u64, len: usize, stream: u32, later: bool) -> Result<()> {
    // SAFETY: passed on to the caller.
    if let Some(done) = unsafe { across::bytes(cx, dst, src, len, stream, later, any) } {
        return done;
    }
    let may_be_captured = len > 0 && later && cx.state().captures.any();
    if may_be_captured && captured_as_named(cx, dst, src, len, stream)? {
        return Ok(());
    }
    // SAFETY: passed on to the caller.
    unsafe { by_address(cx, dst, src, len, stream, later) }
}

/// As [`any`], of ends that the program has named otherwise.
///
/// # Safety
/// As for [`any`].
pub unsafe fn by_address(
    cx: Cx,
    dst: u64,
    src: u64,
    len: usize,
    stream: u32,
    later: bool,
) -> Result<()> {
    // SAFETY: passed on to the caller, for whichever end is on the host.
    unsafe {
        match (cx.state().on_host(dst), cx.state().on_host(src)) {
            (false, true) => from_host(cx, dst, src as *const u8, len, stream, later),
            (true, false) => from_device(cx, dst as *mut u8, src, len, stream, later),
            (false, false) if len == 0 => Ok(()),
            (false, false) => on_device(cx, dst, src, len, stream),
            (true, true) => {
                if len > 0 {
                    begin(cx, dst, len, true)?;
                    begin(cx, src, len, false)?;
                }
                // In stream order: what was queued before may still write the source.
                let (to, from) = ((HOST, dst), (HOST, src));
                if len > 0
                    && cx.state().captures.any()
                    && captured(cx, to, from, len, stream, later)?
                {
                    return Ok(());
                }
                if len > 0 {
                    cx.synchronize(stream)?;
                    std::ptr::copy(src as *const u8, dst as *mut u8, len);
                }
                Ok(())
            }
        }
    }
}
