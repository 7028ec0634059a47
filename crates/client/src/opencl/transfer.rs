//! Reads, writes, copies and fills of buffers.

use super::entry::{self, Result};
use super::event::{self, Out};
use super::memory::{Memory, buffer};
use super::object::{Object, get};
use super::queue::{self, Queue};
use super::server::LOST;
use crate::session::CHUNK;
use busbar_abi::opencl::*;
use busbar_channel::Bulk;
use busbar_wire::codec::Request;
use busbar_wire::generated::opencl as wire;
use busbar_wire::pieces::pieces;
use std::sync::atomic::Ordering;

/// Sends a message whose answer is bulk for the program's memory, and waits if the program does.
///
/// # Safety
/// `place` stays writable until the command has run.
pub unsafe fn fetch<'a, R: Request<'a>>(
    q: &Object<Queue>,
    blocking: bool,
    msg: &R,
    place: (*mut u8, usize),
    mut out: Out<'_>,
) -> Result<()> {
    if blocking {
        let here = q.here();
        q.server.call_into(msg, Some(place))?;
        q.server.borrowed.store(false, Ordering::Release);
        q.server.deferred(q.id)?;
        if q.in_order() {
            q.reached(here);
        }
        out.complete();
    } else {
        // The worker tells of a failure by the event, or at the next call that waits.
        // SAFETY: passed on to the caller.
        unsafe { q.server.session.call_async(0, msg, Some(place), |_| {}) }.map_err(|_| LOST)?;
    }
    out.give();
    Ok(())
}

/// A write is queued. Waits for it where a program could tell that it has not run. `free`: it waits
/// for nothing itself.
pub fn written(q: &Object<Queue>, blocking: bool, free: bool, mut out: Out<'_>) -> Result<()> {
    if free && q.unwatched() {
        if blocking {
            q.server.settle()?;
        }
        out.unseen(blocking);
    } else if blocking {
        if q.alone() && out.id() == 0 {
            q.server.settle()?;
            q.called_early();
        } else {
            queue::wait(q)?;
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
    if waits.len() <= 256 {
        return Ok(());
    }
    q.server.queue(&wire::Marker {
        queue: q.id,
        event: 0,
        waits: std::mem::take(waits),
        barrier: 0,
    })
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
    (event, mut waits): (u32, Vec<u32>),
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
    }
    if !copy {
        q.server.borrowed.store(true, Ordering::Release);
    }
    Ok(())
}

/// Queues a write to a buffer.
///
/// # Safety
/// `data` stays as it is until the command has run, unless `copy`.
pub unsafe fn put(
    q: &Object<Queue>,
    m: &Object<Memory>,
    offset: usize,
    data: &[u8],
    copy: bool,
    event: u32,
    waits: Vec<u32>,
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

/// `clEnqueueReadBuffer`.
pub unsafe extern "C" fn enqueue_read_buffer(
    queue: Handle,
    memory: Handle,
    blocking: u32,
    offset: usize,
    size: usize,
    to: Handle,
    n: u32,
    list: *const Handle,
    out: *mut Handle,
) -> i32 {
    // SAFETY: the program's handles, lists and memory, here and below.
    entry::status(|| unsafe {
        let q = get::<Queue>(queue)?;
        let m = buffer(&q.context, memory)?;
        m.check_range(offset, size)?;
        if to.is_null() || size == 0 {
            return Err(CL_INVALID_VALUE);
        }
        m.host_may(false)?;
        let waits = event::waits(&q.context, n, list)?;
        let out = Out::new(q, CL_COMMAND_READ_BUFFER, out);
        let msg = wire::ReadBuffer {
            queue: q.id,
            buffer: m.id,
            event: out.id(),
            waits,
            offset: offset as u64,
            size: size as u64,
        };
        fetch(q, blocking != 0, &msg, (to.cast(), size), out)
    })
}

/// `clEnqueueWriteBuffer`.
pub unsafe extern "C" fn enqueue_write_buffer(
    queue: Handle,
    memory: Handle,
    blocking: u32,
    offset: usize,
    size: usize,
    from: Handle,
    n: u32,
    list: *const Handle,
    out: *mut Handle,
) -> i32 {
    // SAFETY: the program's handles, lists and memory, here and below.
    entry::status(|| unsafe {
        let q = get::<Queue>(queue)?;
        let m = buffer(&q.context, memory)?;
        m.check_range(offset, size)?;
        if from.is_null() || size == 0 {
            return Err(CL_INVALID_VALUE);
        }
        m.host_may(true)?;
        let waits = event::waits(&q.context, n, list)?;
        let out = Out::new(q, CL_COMMAND_WRITE_BUFFER, out);
        let data = std::slice::from_raw_parts(from.cast::<u8>(), size);
        let free = waits.is_empty();
        put(q, m, offset, data, false, out.id(), waits)?;
        written(q, blocking != 0, free, out)
    })
}

/// `clEnqueueCopyBuffer`.
pub unsafe extern "C" fn enqueue_copy_buffer(
    queue: Handle,
    from: Handle,
    to: Handle,
    from_offset: usize,
    to_offset: usize,
    size: usize,
    n: u32,
    list: *const Handle,
    out: *mut Handle,
) -> i32 {
    // SAFETY: the program's handles and lists, here and below.
    entry::status(|| unsafe {
        let q = get::<Queue>(queue)?;
        let (a, b) = (buffer(&q.context, from)?, buffer(&q.context, to)?);
        a.check_range(from_offset, size)?;
        b.check_range(to_offset, size)?;
        if size == 0 {
            return Err(CL_INVALID_VALUE);
        }
        if overlaps(a, from_offset, b, to_offset, size) {
            return Err(CL_MEM_COPY_OVERLAP);
        }
        let waits = event::waits(&q.context, n, list)?;
        let out = Out::new(q, CL_COMMAND_COPY_BUFFER, out);
        q.server.queue(&wire::CopyBuffer {
            queue: q.id,
            from: a.id,
            to: b.id,
            event: out.id(),
            waits,
            from_offset: from_offset as u64,
            to_offset: to_offset as u64,
            size: size as u64,
        })?;
        out.give();
        Ok(())
    })
}

/// The buffer that a sub-buffer is a part of, and where a byte of it lies there.
pub fn root(m: &Object<Memory>, offset: usize) -> (*const Object<Memory>, usize) {
    match &m.parent {
        Some((p, origin)) => (&raw const **p, origin + offset),
        None => (m, offset),
    }
}

fn overlaps(a: &Object<Memory>, at: usize, b: &Object<Memory>, to: usize, size: usize) -> bool {
    let ((a, at), (b, to)) = (root(a, at), root(b, to));
    a == b && at < to + size && to < at + size
}

/// `clEnqueueFillBuffer`.
pub unsafe extern "C" fn enqueue_fill_buffer(
    queue: Handle,
    memory: Handle,
    pattern: Handle,
    pattern_size: usize,
    offset: usize,
    size: usize,
    n: u32,
    list: *const Handle,
    out: *mut Handle,
) -> i32 {
    // SAFETY: the program's handles, lists and memory, here and below.
    entry::status(|| unsafe {
        let q = get::<Queue>(queue)?;
        let m = buffer(&q.context, memory)?;
        m.check_range(offset, size)?;
        if pattern.is_null()
            || !pattern_size.is_power_of_two()
            || pattern_size > 128
            || !offset.is_multiple_of(pattern_size)
            || !size.is_multiple_of(pattern_size)
        {
            return Err(CL_INVALID_VALUE);
        }
        let waits = event::waits(&q.context, n, list)?;
        let out = Out::new(q, CL_COMMAND_FILL_BUFFER, out);
        q.server.queue(&wire::FillBuffer {
            queue: q.id,
            buffer: m.id,
            event: out.id(),
            waits,
            pattern: std::slice::from_raw_parts(pattern.cast(), pattern_size),
            offset: offset as u64,
            size: size as u64,
        })?;
        out.give();
        Ok(())
    })
}

/// `clEnqueueMigrateMemObjects`.
pub unsafe extern "C" fn enqueue_migrate_mem_objects(
    queue: Handle,
    n_objects: u32,
    objects: *const Handle,
    flags: u64,
    n: u32,
    list: *const Handle,
    out: *mut Handle,
) -> i32 {
    // SAFETY: the program's handles and lists, here and below.
    entry::status(|| unsafe {
        let q = get::<Queue>(queue)?;
        let known = CL_MIGRATE_MEM_OBJECT_HOST | CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED;
        if n_objects == 0 || objects.is_null() || flags & !known != 0 {
            return Err(CL_INVALID_VALUE);
        }
        let mut ids = Vec::new();
        for h in entry::list(n_objects, objects) {
            let m = get::<Memory>(*h)?;
            if !std::ptr::eq(&*m.context, &*q.context) {
                return Err(CL_INVALID_CONTEXT);
            }
            ids.push(m.id);
        }
        let waits = event::waits(&q.context, n, list)?;
        let out = Out::new(q, CL_COMMAND_MIGRATE_MEM_OBJECTS, out);
        q.server.queue(&wire::Migrate {
            queue: q.id,
            objects: ids,
            flags,
            event: out.id(),
            waits,
        })?;
        out.give();
        Ok(())
    })
}
