//! The program's memory in graphs.
//!
//! A copy node whose one end is the program's memory copies from or to a *mirror* at the worker.
//! Here is what each mirror stands for. Before a launch the bytes of every source are sent, in the
//! order of the launch's stream; after it the bytes of every destination are asked for, and arrive
//! before any later wait for that stream is over.

use super::prelude::*;
use crate::cuda::call::{Arriving, fault};
use crate::cuda::engine::{addresses, stream, transfer};
use crate::cuda::state::graphs::Lists;
use crate::cuda::state::rows::{CHUNK, DEVICE, End, HOST, HostBox, Rows, UNIFIED, shape};
use busbar_channel::Bulk;
use busbar_wire::changes::changed;

/// A copy as it travels: its shape, ids of arrays, ids of mirrors.
pub struct Travel {
    pub shape: CUDA_MEMCPY3D,
    pub arrays: [u32; 2],
    pub mirrors: [u32; 2],
}

/// What stands for an end that is the program's own memory, and was `named` as such a kind.
fn mirror(cx: Cx, r: &Rows, end: End, named: CUmemorytype, written: bool) -> u32 {
    if end.memory != HOST {
        return 0;
    }
    let end = End {
        memory: named,
        ..end
    };
    cx.state().graphs.mirror(r.host(end), written)
}

/// Prepares a copy for a graph: each end on the host gets a mirror.
pub fn travel(cx: Cx, r: &Rows) -> Result<Travel> {
    let bytes = r.width.checked_mul(r.height);
    let bytes = bytes.and_then(|n| n.checked_mul(r.depth));
    if !bytes.is_some_and(|n| n > 0 && n < 1 << 40) {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let array = |e: &End| cx.handle_opt(Kind::Array, e.array);
    // A program that asks for a node's parameters sees the kinds of memory that it named.
    let named = [r.src.memory, r.dst.memory];
    let mut r = cx.state().resolved(r);
    for (e, named) in [&mut r.src, &mut r.dst].into_iter().zip(named) {
        if e.memory == HOST && cx.state().spaces.is_shared(e.host) {
            // What the worker has at the same address needs nothing in its place; it has no memory
            // that is the program's alone, so that is how the program's memory is called there.
            let memory = if named == UNIFIED { UNIFIED } else { DEVICE };
            (e.memory, e.device, e.host) = (memory, e.host, 0);
        } else if e.memory == DEVICE && named == UNIFIED {
            e.memory = UNIFIED;
        }
    }
    for e in [&r.src, &r.dst] {
        if e.memory == HOST && (e.host == 0 || e.pitch < r.width) {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
    }
    let mut shape = shape(&r);
    // The worker has one image of what overlaps: that needs the addresses here.
    let start = |e: End| match e.memory {
        HOST => e
            .extent(&r)
            .and_then(|(first, _)| e.host.checked_add(first)),
        _ => Some(0),
    };
    let (src, dst) = (start(r.src), start(r.dst));
    shape.srcHost = src.ok_or(CUDA_ERROR_INVALID_VALUE)? as _;
    shape.dstHost = dst.ok_or(CUDA_ERROR_INVALID_VALUE)? as _;
    // What is called otherwise has another mirror.
    if r.src.memory == HOST {
        shape.srcMemoryType = named[0] as _;
    }
    if r.dst.memory == HOST {
        shape.dstMemoryType = named[1] as _;
    }
    Ok(Travel {
        shape,
        arrays: [array(&r.src)?, array(&r.dst)?],
        mirrors: [
            mirror(cx, &r, r.src, named[0], false),
            mirror(cx, &r, r.dst, named[1], true),
        ],
    })
}

/// Puts the program's own addresses back where the worker has mirrors, or shares its memory.
pub fn restore(cx: Cx, c: &mut CUDA_MEMCPY3D, mirrors: [u32; 2]) {
    let place = |memory, p| if memory == HOST { (p, 0) } else { (0, p) };
    // What the worker has at the same address it calls a device's; programs hardly do.
    let locked = |p| cx.state().ranges.find_page_locked(p).is_some();
    if let Some(b) = cx.state().graphs.mirrored(mirrors[0]) {
        c.srcMemoryType = b.end.memory;
        let (host, device) = place(b.end.memory, b.end.host);
        (c.srcHost, c.srcDevice) = (host as _, device);
        (c.srcXInBytes, c.srcY, c.srcZ) = (b.end.x, b.end.y, b.end.z);
        (c.srcPitch, c.srcHeight) = (b.end.pitch, b.end.height);
    } else if c.srcMemoryType == DEVICE && locked(c.srcDevice) {
        c.srcMemoryType = CU_MEMORYTYPE_HOST as _;
        (c.srcHost, c.srcDevice) = (c.srcDevice as _, 0);
    }
    if let Some(b) = cx.state().graphs.mirrored(mirrors[1]) {
        c.dstMemoryType = b.end.memory;
        let (host, device) = place(b.end.memory, b.end.host);
        (c.dstHost, c.dstDevice) = (host as _, device);
        (c.dstXInBytes, c.dstY, c.dstZ) = (b.end.x, b.end.y, b.end.z);
        (c.dstPitch, c.dstHeight) = (b.end.pitch, b.end.height);
    } else if c.dstMemoryType == DEVICE && locked(c.dstDevice) {
        c.dstMemoryType = CU_MEMORYTYPE_HOST as _;
        (c.dstHost, c.dstDevice) = (c.dstDevice as _, 0);
    }
}

/// Makes a node of a copy with host memory if its stream captures; says whether it did.
pub fn capture(cx: Cx, r: &Rows, stream: u32) -> Result<bool> {
    if !stream::captures(cx, stream)? {
        return Ok(false);
    }
    let t = travel(cx, r)?;
    let m = msg::CaptureCopy {
        shape: busbar_abi::bytes_of(&t.shape),
        arrays: t.arrays,
        mirrors: t.mirrors,
        stream,
    };
    let graphs = &cx.state().graphs;
    let drop_mirrors = |_: &CUresult| t.mirrors.iter().for_each(|m| graphs.mirror_gone(*m));
    let reply = cx.reply_to(&m).inspect_err(drop_mirrors)?;
    Ok(reply.captured != 0)
}

/// Whether kernels see a box in place: then its bytes come and go as those of such memory do.
fn is_seen(cx: Cx, b: &HostBox) -> bool {
    let (p, n) = b.span();
    cx.state().shadows.device_side(p, n).is_some()
}

/// Sends what a launch on `stream` will read: page-locked memory as it is when the stream has come
/// so far, other memory as it is now, whatever is queued that may write it.
///
/// # Safety
/// The program's memory is readable, as the API asks; page-locked memory stays as it is until the
/// launch is over.
pub unsafe fn before_launch(cx: Cx, l: &Lists, stream: u32) -> Result<()> {
    let mut later = Vec::new();
    for id in &l.sources {
        let Some(b) = cx.state().graphs.mirrored(*id).filter(|b| !is_seen(cx, b)) else {
            continue;
        };
        let (p, n) = b.span();
        let order = &cx.state().order;
        let newer = match order.in_images(p, n) {
            Some(newer) => newer,
            None if !cx.state().ranges.is_pinned(p, n) => {
                let newer = order.newer_in_images(p, n, u64::MAX);
                newer.unwrap_or_default()
            }
            None if cx.idle(stream) => {
                cx.synchronize(stream)?;
                Vec::new()
            }
            None => {
                // SAFETY: passed on to the caller.
                unsafe {
                    transfer::pieces(&b, &[], |at, piece| {
                        addresses::in_copy(cx, at as u64, piece)
                    })?
                };
                later.push(Source::of(cx, *id, b));
                continue;
            }
        };
        let queue = |offset: usize, piece: &[u8]| {
            let offset = offset as u64;
            addresses::in_copy(cx, offset, piece)?;
            let m = msg::MirrorIn {
                mirror: *id,
                stream,
                offset,
                data: &[],
            };
            cx.send_bulk(&m, Bulk::Copy(piece))
        };
        // SAFETY: passed on to the caller.
        unsafe { transfer::pieces(&b, &newer, queue)? };
    }
    if later.is_empty() {
        return Ok(());
    }
    let of = cx.in_context(stream::context_of(cx, stream)?);
    of.light_gate(stream, move |go_on| {
        later.iter().for_each(Source::send);
        drop(go_on);
    })
}

/// Page-locked memory that a launch is to read once its stream has come so far. Until then it is
/// not freed.
struct Source {
    cx: Cx,
    mirror: u32,
    from: HostBox,
    /// What the launch itself is to bring has this number, or a greater one.
    before: u64,
}

impl Source {
    fn of(cx: Cx, mirror: u32, from: HostBox) -> Self {
        cx.state().order.read_due(from.span());
        let before = cx.state().order.next_arrival();
        Self {
            cx,
            mirror,
            from,
            before,
        }
    }

    /// Sends what is there, but for what an image has that is newer.
    fn send(&self) {
        // Kernels may have come to see it meanwhile: then it is where they find it.
        if is_seen(self.cx, &self.from) {
            return;
        }
        let (p, n) = self.from.span();
        let order = &self.cx.state().order;
        let newer = order.newer_in_images(p, n, self.before);
        let session = &self.cx.client.session;
        let write = |offset, piece: &[u8]| {
            let sent = session.mirror_in(self.mirror, offset as u64, piece);
            sent.map_err(|_| CUDA_ERROR_DEVICE_UNAVAILABLE)
        };
        let newer = newer.unwrap_or_default();
        // It may be closed to the program by now.
        // SAFETY: page-locked memory, which stays until it is freed; that waits for this.
        let _ = fault::in_function(|| unsafe { transfer::pieces(&self.from, &newer, write) });
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        self.cx.state().order.read_done(self.from.span());
    }
}

/// Asks for what a launch on `stream` writes. What is not page-locked is there when this returns,
/// as drivers have it. They wait for the copy alone: where functions may be behind it, which may
/// wait for the caller, nothing is waited for.
///
/// # Safety
/// The program's memory stays writable until it has waited for the stream, as the API asks.
pub unsafe fn after_launch(cx: Cx, exec: u32, l: &Lists, stream: u32) -> Result<()> {
    let mut at_once = Vec::new();
    for id in &l.destinations {
        let b = cx.state().graphs.destination(*id);
        let Some(b) = b.filter(|b| !is_seen(cx, b)) else {
            continue;
        };
        let (p, n) = b.span();
        if !cx.state().ranges.is_pinned(p, n) && !cx.state().order.graphs_have_functions() {
            at_once.push((p, n as u64));
        }
        let m = msg::MirrorOut {
            exec,
            mirror: *id,
            stream,
        };
        let len = b.len();
        if let Some(p) = b.whole() {
            let arriving = Arriving::of_graph(cx, p, len);
            // SAFETY: passed on to the caller.
            unsafe { cx.later(&m, arriving)? };
            continue;
        }
        let arriving = Arriving::of_box(cx, &b);
        let mut packed = vec![0u8; len];
        let p = packed.as_mut_ptr();
        // SAFETY: passed on to the caller.
        let put = move || unsafe { transfer::scatter(&b, &packed) };
        // SAFETY: the closure keeps the bytes.
        unsafe { cx.later_by(&m, (p, len), arriving, put)? };
    }
    for (p, n) in at_once {
        transfer::wait_for_copies(cx, p, n);
    }
    Ok(())
}

/// What copies before a host node have written, as it was when the node's function began.
pub struct Fetched {
    mirror: u32,
    to: HostBox,
    packed: Vec<u8>,
}

/// Before a host node's function runs: what copies before it have written. Ahead of what is queued,
/// which may wait for the graph.
pub fn fetch(cx: Cx, ids: &[u32]) -> Vec<Fetched> {
    let mut all = Vec::new();
    for id in ids {
        let b = cx.state().graphs.destination(*id);
        let Some(b) = b.filter(|b| !is_seen(cx, b)) else {
            continue;
        };
        let mut packed = vec![0u8; b.len()];
        let answer = cx.client.session.mirror_out(*id, &mut packed);
        if answer.is_ok_and(|a| a.status == CUDA_SUCCESS) {
            // SAFETY: a graph of the program's writes this memory.
            unsafe { transfer::scatter(&b, &packed) };
            all.push(Fetched {
                mirror: *id,
                to: b,
                packed,
            });
        }
    }
    all
}

/// After a host node's function has run: what copies behind it will read, but for what copies
/// `beside` it write, which is not here; and what the function has changed of what it was given:
/// that comes back after the launch. It is there before the worker heeds the word that the function
/// has returned.
pub fn give(cx: Cx, ids: &[u32], beside: &[u32], fetched: &[Fetched]) {
    for f in fetched {
        // SAFETY: a graph of the program's writes this memory.
        let now = unsafe { transfer::gather(&f.to) };
        for (offset, piece) in changed_pieces(&f.packed, &now) {
            let _ = cx.client.session.mirror_in(f.mirror, offset as u64, piece);
        }
    }
    let newer = |id: &u32| cx.state().graphs.destination(*id);
    let newer = beside.iter().filter_map(newer).flat_map(|b| b.without(&[]));
    let newer: Vec<_> = newer.map(|(_, p, n)| (p, p + n as u64)).collect();
    for id in ids {
        let Some(b) = cx.state().graphs.mirrored(*id).filter(|b| !is_seen(cx, b)) else {
            continue;
        };
        let (p, n) = b.span();
        if !cx.state().ranges.is_pinned(p, n) {
            // It was read at the launch.
            continue;
        }
        let write = |offset, piece: &[u8]| {
            let sent = cx.client.session.mirror_in(*id, offset as u64, piece);
            sent.map_err(|_| CUDA_ERROR_DEVICE_UNAVAILABLE)
        };
        // SAFETY: a graph of the program's reads this memory.
        let _ = unsafe { transfer::pieces(&b, &newer, write) };
    }
}

/// Where bytes are not as they were, and those between: at most one piece of each `CHUNK`.
fn changed_pieces<'a>(before: &'a [u8], now: &'a [u8]) -> impl Iterator<Item = (usize, &'a [u8])> {
    let chunks = before.chunks(CHUNK).zip(now.chunks(CHUNK)).enumerate();
    chunks.filter_map(|(i, (before, now))| {
        let r = changed(before, now)?;
        Some((i * CHUNK + r.start, &now[r]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_changed_is_found_in_each_piece() {
        let before = vec![7; 2 * CHUNK + 10];
        let mut now = before.clone();
        assert_eq!(changed_pieces(&before, &now).count(), 0);
        now[3] = 1;
        now[5] = 2;
        now[2 * CHUNK + 9] = 3;
        let found: Vec<_> = changed_pieces(&before, &now).collect();
        assert_eq!(found, [(3, &[1, 7, 2][..]), (2 * CHUNK + 9, &[3][..])]);
    }
}
