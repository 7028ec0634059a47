//! Boxes of bytes: reads, writes and copies of buffers by rows and slices. They travel without
//! gaps.

use super::prelude::*;
use crate::opencl::engine::transfer;
use crate::opencl::state::layout::Layout;
use crate::opencl::state::rect::{Side, check_within};
use std::borrow::Cow;

/// A box in a buffer, and the same box in the program's memory.
struct Both {
    region: [u64; 3],
    there: Side,
    layout: Layout,
    start: usize,
}

/// Checks a box that is read or written.
fn check(
    q: &Queue,
    m: &Memory,
    size: Three,
    (origin, pitch): (Three, (usize, usize)),
    (host_origin, host_pitch): (Three, (usize, usize)),
    (memory, write): (*const c_void, bool),
) -> Result<Both> {
    m.check_buffer(&q.context)?;
    let region = size.region()?;
    let there = Side::new(origin.get()?, &region, pitch)?;
    let here = Side::new(host_origin.get()?, &region, host_pitch)?;
    refuse_if(memory.is_null() || there.end > m.size, CL_INVALID_VALUE)?;
    m.host_may(write)?;
    let layout = here.layout(&region);
    Ok(Both {
        region,
        there,
        layout,
        start: here.start,
    })
}

/// `clEnqueueReadBufferRect`.
pub unsafe fn clEnqueueReadBufferRect(
    q: &Object<Queue>,
    m: &Object<Memory>,
    blocking: bool,
    origin: Three,
    host_origin: Three,
    size: Three,
    pitch: (usize, usize),
    host_pitch: (usize, usize),
    to: Handle,
    events: Events<'_>,
) -> Result<()> {
    let (there, here) = ((origin, pitch), (host_origin, host_pitch));
    let b = check(q, m, size, there, here, (to, false))?;
    let (out, links) = begin(q, CL_COMMAND_READ_BUFFER_RECT, events)?;
    let msg = wire::ReadBufferRect {
        queue: q.id,
        buffer: m.id,
        event: links.0,
        waits: links.1,
        origin: b.there.origin,
        region: b.region,
        pitch: b.there.pitch,
    };
    // SAFETY: the program's memory, which it leaves alone until the command has run.
    unsafe {
        let place = (b.layout, to.cast::<u8>().add(b.start));
        transfer::fetch_box(q, blocking, &msg, place, out, || ())
    }
}

/// `clEnqueueWriteBufferRect`.
pub unsafe fn clEnqueueWriteBufferRect(
    q: &Object<Queue>,
    m: &Object<Memory>,
    blocking: bool,
    origin: Three,
    host_origin: Three,
    size: Three,
    pitch: (usize, usize),
    host_pitch: (usize, usize),
    from: *const c_void,
    events: Events<'_>,
) -> Result<()> {
    let (there, here) = ((origin, pitch), (host_origin, host_pitch));
    let b = check(q, m, size, there, here, (from, true))?;
    let (out, links) = begin(q, CL_COMMAND_WRITE_BUFFER_RECT, events)?;
    let free = links.1.is_empty();
    let area = (b.there.origin, b.region);
    // SAFETY: the program's memory, which it leaves as it is until the command has run.
    unsafe {
        let packed = b.layout.gather(from.cast::<u8>().add(b.start));
        let copy = matches!(packed, Cow::Owned(_));
        transfer::put_box(q, &packed, copy, area, links, |p| wire::WriteBufferRect {
            queue: q.id,
            buffer: m.id,
            event: p.event,
            waits: p.waits,
            origin: p.origin,
            region: p.region,
            pitch: b.there.pitch,
            blob: p.blob,
            data: p.data,
        })?;
    }
    transfer::written(q, blocking, free, out)
}

/// `clEnqueueCopyBufferRect`.
pub fn clEnqueueCopyBufferRect(
    q: &Object<Queue>,
    from: &Object<Memory>,
    to: &Object<Memory>,
    from_origin: Three,
    to_origin: Three,
    size: Three,
    from_pitch: (usize, usize),
    to_pitch: (usize, usize),
    events: Events<'_>,
) -> Result<()> {
    from.check_buffer(&q.context)?;
    to.check_buffer(&q.context)?;
    let region = size.region()?;
    let left = Side::new(from_origin.get()?, &region, from_pitch)?;
    let right = Side::new(to_origin.get()?, &region, to_pitch)?;
    refuse_if(left.end > from.size, CL_INVALID_VALUE)?;
    refuse_if(right.end > to.size, CL_INVALID_VALUE)?;
    if from.is(to) {
        check_within(&left, &right, &region)?;
    }
    command!(q, events, CL_COMMAND_COPY_BUFFER_RECT => CopyBufferRect {
        from: from.id,
        to: to.id,
        from_origin: left.origin,
        to_origin: right.origin,
        region,
        from_pitch: left.pitch,
        to_pitch: right.pitch,
    })
}
