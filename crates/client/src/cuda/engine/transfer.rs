//! Bytes on their way between the program's memory and the device's, over the connection.

use super::prelude::*;
use crate::cuda::call::thread;
use crate::cuda::state::repeats::Sent;
use crate::cuda::state::rows::HostBox;
use crate::progress::Progress;
use busbar_channel::Bulk;
use busbar_transport::Memory;
use busbar_wire::limits::BULK_CHUNK as CHUNK;

/// From this size on it is cheaper to send pageable memory in place and wait until it has gone out
/// than to copy it into the queue.
pub const SEND_IN_PLACE: usize = 4 << 20;

/// How much of its end is copied all the same: what a fast link carries in some round trips.
const TAIL: usize = 512 << 10;

/// A longer copy into the queue begins with a piece of this size, so that the link has something to
/// do early.
const FIRST: usize = 128 << 10;

/// Waits until no queued copy needs `len` bytes of the program's own at `p` any more: none of them
/// is on its way out, every copy to them has arrived, and every one from them is read.
pub fn wait_for_copies(cx: Cx, p: u64, len: u64) {
    wait_until_sent(cx, p, len);
    cx.look_until(|| !cx.state().order.has_copies(p, len));
}

/// Waits until nothing of `len` bytes of the program's own at `p` is on its way out.
pub fn wait_until_sent(cx: Cx, p: u64, len: u64) {
    // A session that is over sends nothing.
    let _ = cx.client.session.has_back(p, len);
}

/// There is page-locked memory: a connection may move its bytes in place.
pub fn keep(cx: Cx, (p, size): (u64, u64)) {
    let (start, len) = (p as *mut u8, size as usize);
    // SAFETY: until it is freed, unregistered or shown to kernels, each of which forgets it. What
    // an asynchronous copy reads the program leaves as it is.
    unsafe { cx.client.session.keep(Memory { start, len }) };
}

/// None may any more: the memory goes, or kernels see it and its pages are closed by turns.
pub fn forget(cx: Cx, p: u64) {
    cx.client.session.forget(p);
    cx.rest().for_each(|there| there.client.session.forget(p));
}

/// Queues bytes for the device that are sent from where they lie. Page-locked ones stay until the
/// copy is done; what is sent of others has arrived on return.
///
/// # Safety
/// `len` bytes at `src` are readable.
pub unsafe fn send_in_place(
    cx: Cx,
    dst: u64,
    src: *const u8,
    len: usize,
    stream: u32,
    pinned: bool,
) -> Result<()> {
    // The end of pageable memory is copied: while it travels, the word that everything before it
    // has arrived comes back, and nobody waits for a silent link.
    let copied = if pinned { 0 } else { TAIL };
    let in_place = len - copied;
    let mut progress = Progress::of(len);
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
        if let Some(p) = &mut progress {
            p.add(n);
        }
    }
    if pinned {
        return Ok(());
    }
    let session = &cx.client.session;
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
pub fn queue(cx: Cx, dst: u64, bytes: &[u8], stream: u32) -> Result<()> {
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

/// Queues bytes of page-locked memory that the worker has already, or is to keep: lists of
/// addresses that a training copies at every step. Says whether it did.
pub fn again(cx: Cx, dst: u64, bytes: &[u8], stream: u32) -> Result<bool> {
    let session = &cx.client.session;
    if !session.keeps || session.has_used_rdma() {
        return Ok(false);
    }
    match thread::look(&cx.state().kept.copies, 0, bytes, None) {
        Sent::Plain | Sent::Changed(_) => return Ok(false),
        Sent::Kept(place) => {
            let data = &[][..];
            let m = msg::CopyInKept {
                dst,
                stream,
                place,
                data,
            };
            cx.send_bulk(&m, Bulk::Copy(bytes))?;
        }
        Sent::Again(place) => cx.send(&msg::CopyInAgain { dst, stream, place })?,
    }
    Ok(true)
}

/// Fetches bytes from the device, over the connection, and waits for them.
///
/// # Safety
/// `len` bytes at `dst` are writable.
pub unsafe fn fetch(cx: Cx, dst: *mut u8, src: u64, len: usize, stream: u32) -> Result<()> {
    let m = msg::CopyOut {
        src,
        len: len as u64,
        stream,
    };
    cx.call_into(&m, Some((dst, len))).map(drop)
}

/// The bytes, packed.
///
/// # Safety
/// The program's memory is readable.
pub unsafe fn gather(b: &HostBox) -> Vec<u8> {
    let mut out = Vec::with_capacity(b.len());
    for z in 0..b.depth {
        for y in 0..b.height {
            let p = b.end.row(y, z) as *const u8;
            // SAFETY: a row of the program's box.
            out.extend_from_slice(unsafe { std::slice::from_raw_parts(p, b.width) });
        }
    }
    out
}

/// Hands the bytes of a box on, packed, in pieces that each fit a record, but for those in some
/// ranges of addresses.
///
/// # Safety
/// The program's memory is readable.
pub unsafe fn pieces(
    b: &HostBox,
    without: &[(u64, u64)],
    mut piece_at: impl FnMut(usize, &[u8]) -> Result<()>,
) -> Result<()> {
    let packed = match without.is_empty() && b.whole().is_none() {
        // SAFETY: passed on to the caller.
        true => unsafe { gather(b) },
        false => Vec::new(),
    };
    let all = match packed.is_empty() {
        true => b.without(without),
        false => vec![(0, packed.as_ptr() as u64, packed.len())],
    };
    for (offset, p, len) in all {
        // SAFETY: part of the box, or its packed bytes.
        let bytes = unsafe { std::slice::from_raw_parts(p as *const u8, len) };
        for (i, piece) in bytes.chunks(CHUNK).enumerate() {
            piece_at(offset + i * CHUNK, piece)?;
        }
    }
    Ok(())
}

/// Puts packed bytes in their places.
///
/// # Safety
/// The program's memory is writable, and `packed` as long as the box.
pub unsafe fn scatter(b: &HostBox, packed: &[u8]) {
    for (i, row) in packed.chunks_exact(b.width).enumerate() {
        let to = b.end.row(i % b.height, i / b.height) as *mut u8;
        // SAFETY: a row of the program's box.
        unsafe { std::ptr::copy_nonoverlapping(row.as_ptr(), to, b.width) };
    }
}
