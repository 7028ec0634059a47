//! Boxes of bytes: reads, writes and copies of buffers by rows and slices. They travel without
//! gaps.

use super::entry::{self, Result};
use super::event::{self, Out};
use super::image::{Layout, read_box};
use super::memory::buffer;
use super::object::get;
use super::queue::Queue;
use super::transfer::{put_box, root, written};
use busbar_abi::opencl::*;
use busbar_wire::generated::opencl as wire;
use std::borrow::Cow;

/// One side of a copy: where the box begins, its pitches, and where it ends.
struct Side {
    origin: [u64; 3],
    pitch: [u64; 2],
    start: usize,
    end: usize,
}

fn side(origin: [u64; 3], region: &[u64; 3], row: usize, slice: usize) -> Result<Side> {
    let row = if row == 0 { region[0] } else { row as u64 };
    let rows = row.checked_mul(region[1]).ok_or(CL_INVALID_VALUE)?;
    let slice = if slice == 0 { rows } else { slice as u64 };
    if row < region[0] || slice < rows || row > 0 && !slice.is_multiple_of(row) {
        return Err(CL_INVALID_VALUE);
    }
    let at = |x: u64, y: u64, z: u64| {
        let sum = y.checked_mul(row)?.checked_add(z.checked_mul(slice)?)?;
        usize::try_from(sum.checked_add(x)?).ok()
    };
    let sum = |i: usize| origin[i].checked_add(region[i]).ok_or(CL_INVALID_VALUE);
    let start = at(origin[0], origin[1], origin[2]).ok_or(CL_INVALID_VALUE)?;
    let end = at(sum(0)?, sum(1)? - 1, sum(2)? - 1).ok_or(CL_INVALID_VALUE)?;
    Ok(Side {
        origin,
        pitch: [row, slice],
        start,
        end,
    })
}

/// Three sizes that are all at least one.
///
/// # Safety
/// As [`entry::three`].
unsafe fn region(p: *const usize) -> Result<[u64; 3]> {
    // SAFETY: passed on to the caller.
    let r = unsafe { entry::three(p)? };
    match r.contains(&0) {
        true => Err(CL_INVALID_VALUE),
        false => Ok(r),
    }
}

fn host_layout(region: &[u64; 3], host: &Side) -> Layout {
    Layout {
        row: region[0] as usize,
        rows: region[1] as usize,
        slices: region[2] as usize,
        row_pitch: host.pitch[0] as usize,
        slice_pitch: host.pitch[1] as usize,
    }
}

/// `clEnqueueReadBufferRect`.
pub unsafe extern "C" fn enqueue_read_buffer_rect(
    queue: Handle,
    memory: Handle,
    blocking: u32,
    origin: *const usize,
    host_origin: *const usize,
    size: *const usize,
    row: usize,
    slice: usize,
    host_row: usize,
    host_slice: usize,
    to: Handle,
    n: u32,
    list: *const Handle,
    out: *mut Handle,
) -> i32 {
    // SAFETY: the program's handles, lists and memory, here and below.
    entry::status(|| unsafe {
        let q = get::<Queue>(queue)?;
        let m = buffer(&q.context, memory)?;
        let region = region(size)?;
        let there = side(entry::three(origin)?, &region, row, slice)?;
        let here = side(entry::three(host_origin)?, &region, host_row, host_slice)?;
        if to.is_null() || there.end > m.size {
            return Err(CL_INVALID_VALUE);
        }
        m.host_may(false)?;
        let waits = event::waits(&q.context, n, list)?;
        let mut out = Out::new(q, CL_COMMAND_READ_BUFFER_RECT, out);
        let msg = wire::ReadBufferRect {
            queue: q.id,
            buffer: m.id,
            event: out.id(),
            waits,
            origin: there.origin,
            region,
            pitch: there.pitch,
        };
        let place = to.cast::<u8>().add(here.start);
        read_box(
            q,
            m,
            blocking != 0,
            &msg,
            host_layout(&region, &here),
            place,
        )?;
        if blocking != 0 {
            out.complete();
        }
        out.give();
        Ok(())
    })
}

/// `clEnqueueWriteBufferRect`.
pub unsafe extern "C" fn enqueue_write_buffer_rect(
    queue: Handle,
    memory: Handle,
    blocking: u32,
    origin: *const usize,
    host_origin: *const usize,
    size: *const usize,
    row: usize,
    slice: usize,
    host_row: usize,
    host_slice: usize,
    from: Handle,
    n: u32,
    list: *const Handle,
    out: *mut Handle,
) -> i32 {
    // SAFETY: the program's handles, lists and memory, here and below.
    entry::status(|| unsafe {
        let q = get::<Queue>(queue)?;
        let m = buffer(&q.context, memory)?;
        let region = region(size)?;
        let there = side(entry::three(origin)?, &region, row, slice)?;
        let here = side(entry::three(host_origin)?, &region, host_row, host_slice)?;
        if from.is_null() || there.end > m.size {
            return Err(CL_INVALID_VALUE);
        }
        m.host_may(true)?;
        let waits = event::waits(&q.context, n, list)?;
        let free = waits.is_empty();
        let out = Out::new(q, CL_COMMAND_WRITE_BUFFER_RECT, out);
        let packed = host_layout(&region, &here).gather(from.cast::<u8>().add(here.start));
        let copy = matches!(packed, Cow::Owned(_));
        let area = (there.origin, region);
        put_box(q, &packed, copy, area, (out.id(), waits), |p| {
            wire::WriteBufferRect {
                queue: q.id,
                buffer: m.id,
                event: p.event,
                waits: p.waits,
                origin: p.origin,
                region: p.region,
                pitch: there.pitch,
                blob: p.blob,
                data: p.data,
            }
        })?;
        written(q, blocking != 0, free, out)
    })
}

/// `clEnqueueCopyBufferRect`.
pub unsafe extern "C" fn enqueue_copy_buffer_rect(
    queue: Handle,
    from: Handle,
    to: Handle,
    from_origin: *const usize,
    to_origin: *const usize,
    size: *const usize,
    from_row: usize,
    from_slice: usize,
    to_row: usize,
    to_slice: usize,
    n: u32,
    list: *const Handle,
    out: *mut Handle,
) -> i32 {
    // SAFETY: the program's handles and lists, here and below.
    entry::status(|| unsafe {
        let q = get::<Queue>(queue)?;
        let (a, b) = (buffer(&q.context, from)?, buffer(&q.context, to)?);
        let region = region(size)?;
        let left = side(entry::three(from_origin)?, &region, from_row, from_slice)?;
        let right = side(entry::three(to_origin)?, &region, to_row, to_slice)?;
        if left.end > a.size || right.end > b.size {
            return Err(CL_INVALID_VALUE);
        }
        let same = root(a, 0).0 == root(b, 0).0;
        if same && std::ptr::eq(a, b) && left.pitch != right.pitch {
            return Err(CL_INVALID_VALUE);
        }
        let near = |i: usize| left.origin[i].abs_diff(right.origin[i]) < region[i];
        if same && std::ptr::eq(a, b) && (0..3).all(near) {
            return Err(CL_MEM_COPY_OVERLAP);
        }
        let waits = event::waits(&q.context, n, list)?;
        let out = Out::new(q, CL_COMMAND_COPY_BUFFER_RECT, out);
        q.server.queue(&wire::CopyBufferRect {
            queue: q.id,
            from: a.id,
            to: b.id,
            event: out.id(),
            waits,
            from_origin: left.origin,
            to_origin: right.origin,
            region,
            from_pitch: left.pitch,
            to_pitch: right.pitch,
        })?;
        out.give();
        Ok(())
    })
}
