//! Copies between the program's memory and the device's.
//!
//! A copy to the device returns once the bytes are queued: from pageable memory they are copied
//! into the queue, page-locked memory is sent from where it lies, which is what CUDA asks its users
//! to leave alone until the copy is done. A copy from the device to page-locked memory returns at
//! once and the bytes arrive by themselves; any other waits.

use super::copy_rows::{DEVICE, End, HOST, Rows};
use super::graph_host;
use super::memory;
use super::runtime::{Cx, enter, guard};
use super::{context, copy_across};
use super::{ring, settled, shadow, shared, space, stream};
use crate::session::CHUNK;
use busbar_abi::cuda::*;
use busbar_channel::Bulk;
use busbar_wire::codec::Request;
use busbar_wire::generated::cuda as msg;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Copies to page-locked memory whose bytes have not all arrived.
static ARRIVING: AtomicUsize = AtomicUsize::new(0);
/// Where they go: first address and end, by number.
static PLACES: Mutex<BTreeMap<u64, (u64, u64)>> = Mutex::new(BTreeMap::new());
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// From this size on it is cheaper to send pageable memory in place and wait until it has gone out
/// than to copy it into the queue.
const SEND_IN_PLACE: usize = 4 << 20;
/// How much of its end is copied all the same: what a fast link carries in some round trips.
const TAIL: usize = 512 << 10;
/// A longer copy into the queue begins with a piece of this size, so that the link has something to
/// do early.
const FIRST: usize = 128 << 10;

/// Waits until every copy to page-locked memory has arrived, and every one from it is read.
pub fn wait_for_copies(cx: Cx) {
    let left = || ARRIVING.load(Ordering::Acquire) > 0 || super::callback::reads();
    while left() && cx.rt.session.closed().is_none() {
        cx.rt.session.flush();
        std::thread::sleep(Duration::from_micros(50));
    }
}

/// Fails at once, as CUDA does, when the bytes are not all in memory that the device has. A mistake
/// that only the worker noticed would be reported late.
pub(super) fn must_be_on_device(p: u64, len: usize) -> Result<(), CUresult> {
    let window = space::span(space::WINDOW);
    let shadowed = window.contains(&p) || shadow::device_side(p, len).is_some();
    // Page-locked memory that the worker has, too, is at the same address there.
    let shared = shared::holds(p) && memory::is_pinned(p, len);
    if shadowed || shared || memory::is_on_device(p, len) {
        Ok(())
    } else {
        Err(CUDA_ERROR_INVALID_VALUE)
    }
}

/// A copy between two places on devices, or between what is there of shadowed memory.
fn on_device(cx: Cx, dst: u64, src: u64, len: usize, stream: u32) -> Result<(), CUresult> {
    let there = |p| shadow::device_side(p, len).unwrap_or(p);
    let (dst, src) = (there(dst), there(src));
    must_be_on_device(dst, len)?;
    must_be_on_device(src, len)?;
    copy_across::between(cx, dst, src, len, stream)
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
) -> Result<bool, CUresult> {
    if !later {
        stream::refuse_wait(cx, stream)?;
        return Ok(false);
    }
    let end = |(memory, p): (u32, u64)| End {
        memory,
        host: p,
        device: p,
        ..End::default()
    };
    let r = Rows {
        src: end(src),
        dst: end(dst),
        width: len,
        height: 1,
        depth: 1,
    };
    graph_host::capture(cx, &r, stream)
}

/// Counts one of them for as long as it lives.
pub(super) struct Arriving(u64);

fn places() -> MutexGuard<'static, BTreeMap<u64, (u64, u64)>> {
    PLACES.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Arriving {
    /// One whose bytes go somewhere in `len` bytes at `place`.
    pub(super) fn new(place: u64, len: usize) -> Self {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        places().insert(number, (place, place.saturating_add(len as u64)));
        ARRIVING.fetch_add(1, Ordering::AcqRel);
        Self(number)
    }

    /// Whether any will write to `len` bytes at `p`.
    fn reaches(p: u64, len: usize) -> bool {
        let end = p.saturating_add(len as u64);
        ARRIVING.load(Ordering::Acquire) > 0
            && places().values().any(|(from, to)| *from < end && p < *to)
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        places().remove(&self.0);
        ARRIVING.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Whether work that is queued may still write `len` bytes of the program's memory at `p`: what is
/// read of it now would be too old for a copy behind that work.
pub(super) fn is_due(p: u64, len: usize) -> bool {
    super::callback::any_due() || Arriving::reaches(p, len)
}

/// Sends a message whose bulk answer arrives by itself; `then` hears whether it did, while
/// `arriving` still counts.
///
/// # Safety
/// `place` stays writable until `then` has run.
pub(super) unsafe fn later<'a, R: Request<'a>>(
    cx: Cx,
    m: &R,
    place: (*mut u8, usize),
    arriving: Arriving,
    then: impl FnOnce(bool) + Send + 'static,
) -> Result<(), CUresult> {
    settled::program_will_see();
    let arrived = move |a: Option<crate::calls::Answer>| {
        let status = a.map_or(CUDA_ERROR_DEVICE_UNAVAILABLE, |a| a.status);
        if status != CUDA_SUCCESS {
            context::defer(cx.scope, status);
        }
        then(status == CUDA_SUCCESS);
        drop(arriving);
    };
    // SAFETY: passed on to the caller.
    let sent = unsafe { cx.rt.session.call_async(cx.scope, m, Some(place), arrived) };
    sent.map_err(|_| CUDA_ERROR_DEVICE_UNAVAILABLE)
}

/// Host to device. Unless it may be done `later`, it is done on return as far as the program can
/// tell.
///
/// # Safety
/// `len` bytes at `src` are readable; page-locked ones stay as they are until the copy is done.
unsafe fn to_device(
    cx: Cx,
    dst: u64,
    src: *const u8,
    len: usize,
    stream: u32,
    later: bool,
) -> Result<(), CUresult> {
    // SAFETY: passed on to the caller.
    let before = unsafe { queue_to_device(cx, dst, src, len, stream, later)? };
    if !later && len > 0 {
        settled::after(cx, stream)?;
    }
    before
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
) -> Result<Result<(), CUresult>, CUresult> {
    cx.need_context()?;
    if len == 0 {
        return Ok(Ok(()));
    }
    if src.is_null() {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    if let Some(there) = shadow::device_side(src as u64, len) {
        return on_device(cx, dst, there, len, stream).map(Ok);
    }
    let dst = shadow::device_side(dst, len).unwrap_or(dst);
    must_be_on_device(dst, len)?;
    if shadow::active() {
        shadow::work(cx, stream, false)?;
    }
    // SAFETY: passed on to the caller.
    let there = |cx| unsafe { queue_to_device(cx, dst, src, len, 0, later)? };
    if let Some(done) = copy_across::in_its_context(cx, dst, stream, there) {
        return done.map(Ok);
    }
    if stream::capturing() && captured(cx, (DEVICE, dst), (HOST, src as u64), len, stream, later)? {
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
    let pinned = later && memory::is_pinned(src as u64, len);
    if pinned && is_due(src as u64, len) && !cx.idle(stream) {
        return super::callback::read_in_order(cx, dst, src as u64, len, stream).map(Ok);
    }
    // SAFETY: passed on to the caller.
    if unsafe { ring::to_device(cx, dst, src, len, stream)? } {
        return Ok(before);
    }
    // SAFETY: passed on to the caller.
    unsafe {
        if pinned || len >= SEND_IN_PLACE {
            send_in_place(cx, dst, src, len, stream, pinned)?;
        } else {
            queue(cx, dst, std::slice::from_raw_parts(src, len), stream)?;
        }
    }
    Ok(before)
}

/// Queues bytes for the device that are sent from where they lie. Page-locked ones stay until the
/// copy is done; what is sent of others has arrived on return.
///
/// # Safety
/// `len` bytes at `src` are readable.
unsafe fn send_in_place(
    cx: Cx,
    dst: u64,
    src: *const u8,
    len: usize,
    stream: u32,
    pinned: bool,
) -> Result<(), CUresult> {
    // The end of pageable memory is copied: while it travels, the word that everything before it
    // has arrived comes back, and nobody waits for a silent link.
    let copied = if pinned { 0 } else { TAIL };
    let in_place = len - copied;
    let mut done = 0;
    while done < in_place {
        // The odd piece goes first: what is acknowledged by itself is a whole one.
        let n = match (in_place - done) % CHUNK {
            0 => CHUNK,
            odd => odd,
        };
        let m = msg::CopyIn {
            dst: dst + done as u64,
            stream,
            pad: 0,
            data: &[],
        };
        // SAFETY: within the caller's `len` bytes.
        cx.send_bulk(&m, Bulk::Borrow(unsafe { src.add(done) }, n))?;
        done += n;
    }
    if pinned {
        return Ok(());
    }
    let session = &cx.rt.session;
    let mark = session.mark();
    session.flush();
    // SAFETY: within the caller's `len` bytes.
    let end = unsafe { std::slice::from_raw_parts(src.add(in_place), copied) };
    let queued = queue(cx, dst + in_place as u64, end, stream);
    // Whatever became of that: the rest is still being read.
    session
        .received(mark)
        .map_err(|_| CUDA_ERROR_DEVICE_UNAVAILABLE)?;
    queued
}

/// Queues bytes for the device, which may change as soon as this returns.
pub(super) fn queue(cx: Cx, dst: u64, bytes: &[u8], stream: u32) -> Result<(), CUresult> {
    let first = if bytes.len() > 2 * FIRST { FIRST } else { 0 };
    let (first, rest) = bytes.split_at(first);
    let mut dst = dst;
    for data in first.chunks(CHUNK).chain(rest.chunks(CHUNK)) {
        let m = msg::CopyIn {
            dst,
            stream,
            pad: 0,
            data: &[],
        };
        if data.len() <= 4096 {
            cx.send(&msg::CopyIn { data, ..m })?;
        } else {
            cx.send_bulk(&m, Bulk::Copy(data))?;
        }
        dst += data.len() as u64;
    }
    Ok(())
}

/// Fetches bytes from the device, over the connection, and waits for them.
///
/// # Safety
/// `len` bytes at `dst` are writable.
pub(super) unsafe fn fetch(
    cx: Cx,
    dst: *mut u8,
    src: u64,
    len: usize,
    stream: u32,
) -> Result<(), CUresult> {
    let m = msg::CopyOut {
        src,
        len: len as u64,
        stream,
    };
    cx.call_into(&m, Some((dst, len))).map(drop)
}

/// Device to host.
///
/// # Safety
/// `len` bytes at `dst` are writable, and stay so until the copy is done.
unsafe fn to_host(
    cx: Cx,
    dst: *mut u8,
    src: u64,
    len: usize,
    stream: u32,
    later: bool,
) -> Result<(), CUresult> {
    cx.need_context()?;
    if len == 0 {
        return Ok(());
    }
    if dst.is_null() {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    if let Some(there) = shadow::device_side(dst as u64, len) {
        on_device(cx, there, src, len, stream)?;
        // The program's next look at the bytes waits for them; an error it is told of here.
        return if later {
            Ok(())
        } else {
            cx.call(&msg::CuStreamSynchronize { h_stream: stream })
                .map(drop)
        };
    }
    let src = shadow::device_side(src, len).unwrap_or(src);
    must_be_on_device(src, len)?;
    if shadow::active() {
        shadow::work(cx, stream, true)?;
    }
    // SAFETY: passed on to the caller.
    let there = |cx| unsafe { to_host(cx, dst, src, len, 0, false) };
    if let Some(done) = copy_across::in_its_context(cx, src, stream, there) {
        return done;
    }
    if stream::capturing() && captured(cx, (HOST, dst as u64), (DEVICE, src), len, stream, later)? {
        return Ok(());
    }
    let ends = (dst as u64, src);
    if shared::copy(cx, ends, dst as u64, len, stream, later)? {
        return Ok(());
    }
    if later && memory::is_pinned(dst as u64, len) {
        // SAFETY: page-locked memory stays until it is freed, and freeing it waits for copies.
        return unsafe {
            settled::program_will_see();
            let done = ring::to_host_later(cx, dst, src, len, stream)?;
            let m = msg::CopyOut {
                src: src + done as u64,
                len: (len - done) as u64,
                stream,
            };
            if done == len {
                return Ok(());
            }
            let (place, left) = (dst.add(done), len - done);
            let arriving = Arriving::new(place as u64, left);
            self::later(cx, &m, (place, left), arriving, |_| {})
        };
    }
    // SAFETY: passed on to the caller.
    unsafe {
        if ring::to_host(cx, dst, src, len, stream)? {
            return Ok(());
        }
        let since = cx.queued();
        fetch(cx, dst, src, len, stream)?;
        cx.now_idle(stream, since);
    }
    if super::output::expected() {
        // What kernels have printed comes with a call that waits for the stream itself.
        cx.call(&msg::CuStreamSynchronize { h_stream: stream })?;
    }
    Ok(())
}

/// Whether an address is the program's own memory, as far as CUDA is concerned.
pub(super) fn on_host(p: u64) -> bool {
    match memory::find(p) {
        // What kernels see, the device can copy.
        Some(_) if shadow::device_side(p, 1).is_some() => false,
        Some(r) => r.sort.is_page_locked(),
        None => !super::space::holds(p),
    }
}

/// As [`any`], for later, but that a source on the host has been read on return.
///
/// # Safety
/// As for [`any`].
pub(super) unsafe fn at_once(
    cx: Cx,
    dst: u64,
    src: u64,
    len: usize,
    stream: u32,
) -> Result<(), CUresult> {
    let pinned = on_host(src) && !on_host(dst) && memory::is_pinned(src, len);
    let usual = !pinned || shadow::active() || stream::capturing() || cx.rt.devices.len() > 1;
    if !usual {
        cx.need_context()?;
        must_be_on_device(dst, len)?;
        // SAFETY: page-locked memory of that length.
        let bytes = unsafe { std::slice::from_raw_parts(src as *const u8, len) };
        return queue(cx, dst, bytes, stream);
    }
    // SAFETY: passed on to the caller.
    unsafe { any(cx, dst, src, len, stream, true)? };
    if pinned && !stream::capturing() {
        cx.call(&msg::CuStreamSynchronize { h_stream: stream })?;
    }
    Ok(())
}

/// A copy whose ends the addresses tell.
pub(super) unsafe fn any(
    cx: Cx,
    dst: u64,
    src: u64,
    len: usize,
    stream: u32,
    later: bool,
) -> Result<(), CUresult> {
    // SAFETY: passed on to the caller, for whichever end is on the host.
    unsafe {
        match (on_host(dst), on_host(src)) {
            (false, true) => to_device(cx, dst, src as *const u8, len, stream, later),
            (true, false) => to_host(cx, dst as *mut u8, src, len, stream, later),
            (false, false) if len == 0 => Ok(()),
            (false, false) => on_device(cx, dst, src, len, stream),
            (true, true) if len > 0 && (dst == 0 || src == 0) => Err(CUDA_ERROR_INVALID_VALUE),
            (true, true) => {
                // In stream order: what was queued before may still write the source.
                let (to, from) = ((HOST, dst), (HOST, src));
                if len > 0 && stream::capturing() && captured(cx, to, from, len, stream, later)? {
                    return Ok(());
                }
                if len > 0 {
                    cx.call(&msg::CuStreamSynchronize { h_stream: stream })?;
                    std::ptr::copy(src as *const u8, dst as *mut u8, len);
                }
                Ok(())
            }
        }
    }
}

pub(super) unsafe fn cuMemcpy(
    dst: CUdeviceptr,
    src: CUdeviceptr,
    len: usize,
    per_thread: bool,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let s = stream::id(cx, std::ptr::null_mut(), per_thread)?;
        // SAFETY: the program's addresses.
        unsafe { any(cx, dst, src, len, s, false) }
    })
}

pub(super) unsafe fn cuMemcpyAsync(
    dst: CUdeviceptr,
    src: CUdeviceptr,
    len: usize,
    stream: CUstream,
    per_thread: bool,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let s = stream::id(cx, stream, per_thread)?;
        // SAFETY: the program's addresses.
        unsafe { any(cx, dst, src, len, s, true) }
    })
}

pub(super) unsafe fn cuMemcpyHtoD_v2(
    dst: CUdeviceptr,
    src: *const c_void,
    len: usize,
    per_thread: bool,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let s = stream::id(cx, std::ptr::null_mut(), per_thread)?;
        // SAFETY: the program's pointer.
        unsafe { to_device(cx, dst, src.cast(), len, s, false) }
    })
}

pub(super) unsafe fn cuMemcpyHtoDAsync_v2(
    dst: CUdeviceptr,
    src: *const c_void,
    len: usize,
    stream: CUstream,
    per_thread: bool,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let s = stream::id(cx, stream, per_thread)?;
        // SAFETY: the program's pointer.
        unsafe { to_device(cx, dst, src.cast(), len, s, true) }
    })
}

pub(super) unsafe fn cuMemcpyDtoH_v2(
    dst: *mut c_void,
    src: CUdeviceptr,
    len: usize,
    per_thread: bool,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let s = stream::id(cx, std::ptr::null_mut(), per_thread)?;
        // SAFETY: the program's pointer.
        unsafe { to_host(cx, dst.cast(), src, len, s, false) }
    })
}

pub(super) unsafe fn cuMemcpyDtoHAsync_v2(
    dst: *mut c_void,
    src: CUdeviceptr,
    len: usize,
    stream: CUstream,
    per_thread: bool,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let s = stream::id(cx, stream, per_thread)?;
        // SAFETY: the program's pointer.
        unsafe { to_host(cx, dst.cast(), src, len, s, true) }
    })
}

pub(super) unsafe fn cuMemcpyDtoDAsync_v2(
    dst: CUdeviceptr,
    src: CUdeviceptr,
    len: usize,
    stream: CUstream,
    per_thread: bool,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        cx.need_context()?;
        let s = stream::id(cx, stream, per_thread)?;
        // Page-locked memory of the host is an address of the device's, too; other memory is not.
        let mapped = |p| memory::is_pinned(p, len);
        if !mapped(dst) && len > 0 {
            must_be_on_device(dst, len)?;
        }
        if !mapped(src) && len > 0 {
            must_be_on_device(src, len)?;
        }
        // SAFETY: memory that CUDA knows, checked above.
        unsafe { any(cx, dst, src, len, s, true) }
    })
}

// The family's functions on rows, and on batches, have files of their own.
pub(super) use super::copy_batch::*;
pub(super) use super::copy_rows::*;
