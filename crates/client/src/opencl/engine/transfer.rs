//! Reads and writes: bytes on their way between the program's memory and a server.

use super::command::{self, Links, Out, marker, unwatched};
use super::prelude::*;
use crate::opencl::call::Memory;
use crate::opencl::state::layout::Layout;
use crate::progress::Progress;
use crate::session::CHUNK;
use busbar_channel::Bulk;
use busbar_wire::codec::Request;
use busbar_wire::pieces::pieces;
use std::borrow::Cow;

/// Sends a message whose answer is bulk for `place`, waits if the program does, and gives the
/// event. `then` is called once the bytes are there.
///
/// # Safety
/// `place` stays writable until the command has run.
pub unsafe fn fetch<'a, R: Request<'a>>(
    q: &Object<Queue>,
    blocking: bool,
    msg: &R,
    place: (*mut u8, usize),
    mut out: Out<'_>,
    then: impl FnOnce() + Send + 'static,
) -> Result<()> {
    if blocking {
        let here = q.order.here();
        q.server.call_into(msg, Some(place))?;
        q.server.borrowed.store(false, Ordering::Release);
        if q.in_order() {
            q.order.reached(here);
        }
        then();
        q.server.deferred(q.id)?;
        out.complete();
    } else {
        // The worker tells of a failure by the event, or at the next call that waits.
        let arrived = move |_| then();
        // SAFETY: passed on to the caller.
        let sent = unsafe { q.server.session.call_async(0, msg, Some(place), arrived) };
        sent.map_err(|_| LOST)?;
    }
    out.give();
    Ok(())
}

/// A pointer that another thread scatters to.
struct Target(*mut u8);

// SAFETY: the program lends the memory until the command has run.
unsafe impl Send for Target {}

impl Target {
    fn get(&self) -> *mut u8 {
        self.0
    }
}

/// As [`fetch`], of a box whose bytes come without gaps.
///
/// # Safety
/// The box at `to` stays writable until the command has run.
pub unsafe fn fetch_box<'a, R: Request<'a>>(
    q: &Object<Queue>,
    blocking: bool,
    msg: &R,
    (layout, to): (Layout, *mut u8),
    out: Out<'_>,
    then: impl FnOnce() + Send + 'static,
) -> Result<()> {
    if layout.tight() {
        // SAFETY: passed on to the caller.
        return unsafe { fetch(q, blocking, msg, (to, layout.packed()), out, then) };
    }
    let mut packed = vec![0u8; layout.packed()];
    let place = (packed.as_mut_ptr(), packed.len());
    let target = Target(to);
    let spread = move || {
        // SAFETY: passed on to the caller.
        unsafe { layout.scatter(&packed, target.get()) };
        then();
    };
    // SAFETY: `packed` moved into the closure; its bytes stay in place until that has run.
    unsafe { fetch(q, blocking, msg, place, out, spread) }
}

/// A write is queued. Waits for it where a program could tell that it has not run. `free`: it waits
/// for nothing itself.
pub fn written(q: &Object<Queue>, blocking: bool, free: bool, mut out: Out<'_>) -> Result<()> {
    if free && unwatched(q) {
        if blocking {
            q.server.wait_for_borrowed()?;
        }
        out.unseen(blocking);
    } else if blocking {
        if q.alone() && out.id() == 0 {
            q.server.wait_for_borrowed()?;
            q.order.called_early();
        } else {
            command::wait(q)?;
            out.complete();
        }
    }
    out.give();
    Ok(())
}

/// Whether a write is cut into several commands: not where these could overtake each other, nor
/// where the program can ask how long all of it took.
fn cuts(q: &Queue, data: &[u8], event: u32) -> bool {
    data.len() > CHUNK && q.in_order() && !(q.profiling() && event != 0)
}

/// Leaves no long list of waits, which would have no room beside a full piece; in order, a marker
/// does as well.
fn few(q: &Object<Queue>, waits: &mut Vec<u32>) -> Result<()> {
    match waits.len() <= 256 {
        true => Ok(()),
        false => q.server.queue(&marker(q, 0, std::mem::take(waits), false)),
    }
}

/// What the message of a part of a box says.
pub struct Part<'d> {
    /// The event of it.
    pub event: u32,
    /// What it waits for.
    pub waits: Vec<u32>,
    /// Where it begins.
    pub origin: [u64; 3],
    /// Its width, rows and slices.
    pub region: [u64; 3],
    /// Where its bytes are, if not here.
    pub blob: u32,
    /// Its bytes.
    pub data: &'d [u8],
}

/// Queues a write of a box, whose bytes have no gaps; `make` makes the message of a part of it.
///
/// # Safety
/// `data` stays as it is until the command has run, unless `copy`.
pub unsafe fn put_box<'d, R: Request<'d>>(
    q: &Object<Queue>,
    data: &'d [u8],
    copy: bool,
    (origin, region): ([u64; 3], [u64; 3]),
    (event, mut waits): Links,
    make: impl Fn(Part<'d>) -> R,
) -> Result<()> {
    if !cuts(q, data, event) {
        return q.server.send(data, |blob, data| {
            make(Part {
                event,
                waits,
                origin,
                region,
                blob,
                data,
            })
        });
    }
    few(q, &mut waits)?;
    let element = data.len() as u64 / region.iter().product::<u64>();
    let mut progress = Progress::of(data.len());
    let mut rest = data;
    for p in pieces(region, element, CHUNK as u64) {
        let piece;
        (piece, rest) = rest.split_at(p.bytes as usize);
        let msg = make(Part {
            event: if rest.is_empty() { event } else { 0 },
            waits: std::mem::take(&mut waits),
            origin: std::array::from_fn(|i| origin[i] + p.at[i]),
            region: p.region,
            blob: 0,
            data: &[],
        });
        let bulk = match copy {
            true => Bulk::Copy(piece),
            false => Bulk::Borrow(piece.as_ptr(), piece.len()),
        };
        let sent = q.server.session.queue_bulk(0, &msg, bulk);
        sent.map_err(|_| LOST)?;
        if let Some(p) = &mut progress {
            p.add(piece.len());
        }
    }
    if !copy {
        q.server.borrowed.store(true, Ordering::Release);
    }
    Ok(())
}

/// Queues a write to a buffer over the connection.
///
/// # Safety
/// As [`put_box`].
pub unsafe fn put_bytes(
    q: &Object<Queue>,
    m: &Object<Memory>,
    offset: usize,
    (data, copy): (&[u8], bool),
    (event, waits): Links,
) -> Result<()> {
    let area = ([offset as u64, 0, 0], [data.len() as u64, 1, 1]);
    // SAFETY: passed on to the caller.
    unsafe {
        put_box(q, data, copy, area, (event, waits), |p| wire::WriteBuffer {
            queue: q.id,
            buffer: m.id,
            event: p.event,
            waits: p.waits,
            offset: p.origin[0],
            blob: p.blob,
            data: p.data,
        })
    }
}

/// Queues a write of pixels from a box in memory.
///
/// # Safety
/// The box at `from` is readable, and stays as it is until the command has run, unless `copy`.
pub unsafe fn put_pixels(
    q: &Object<Queue>,
    m: &Object<Memory>,
    (layout, from): (Layout, *const u8),
    copy: bool,
    area: ([u64; 3], [u64; 3]),
    (event, waits): Links,
) -> Result<()> {
    // SAFETY: passed on to the caller; bytes that were gathered are copied.
    unsafe {
        let packed = layout.gather(from);
        let copy = copy || matches!(packed, Cow::Owned(_));
        put_box(q, &packed, copy, area, (event, waits), |p| {
            wire::WriteImage {
                queue: q.id,
                image: m.id,
                event: p.event,
                waits: p.waits,
                origin: p.origin,
                region: p.region,
                blob: p.blob,
                data: p.data,
            }
        })
    }
}

/// The message of a read of a buffer.
pub fn read_buffer(
    q: &Object<Queue>,
    m: &Object<Memory>,
    (offset, size): (usize, usize),
    (event, waits): Links,
) -> wire::ReadBuffer {
    wire::ReadBuffer {
        queue: q.id,
        buffer: m.id,
        event,
        waits,
        offset: offset as u64,
        size: size as u64,
    }
}

/// The message of a read of pixels.
pub fn read_image(
    q: &Object<Queue>,
    m: &Object<Memory>,
    (origin, region): ([u64; 3], [u64; 3]),
    bytes: usize,
    (event, waits): Links,
) -> wire::ReadImage {
    wire::ReadImage {
        queue: q.id,
        image: m.id,
        event,
        waits,
        origin,
        region,
        bytes: bytes as u64,
    }
}
