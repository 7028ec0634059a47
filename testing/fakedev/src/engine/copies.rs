//! Copies and fills, in all their forms.

use super::{reach, submit};
use crate::ffi::*;
use crate::state::stream::Flavour;
use crate::state::work::{Copy, Fill, Plane, Work};
use crate::state::{array, capture, context, memory};
use std::sync::Arc;

/// Whose device must reach what a copy touches.
#[derive(Clone, Copy)]
pub enum Who {
    /// The current context's, whichever stream it is put into.
    Current,
    /// Its stream's.
    Stream,
    /// Those of the contexts that are named for the destination and for the source.
    Each(CUcontext, CUcontext),
}

/// Checks a copy and hands it to its stream.
///
/// As with the real driver, a copy from pageable host memory has read it when the call returns, and
/// a copy to pageable host memory is done by then.
pub fn copy(copy: Copy, stream: CUstream, flavour: Flavour, wait: bool) -> Res {
    copy_by(Who::Current, copy, stream, flavour, wait)
}

/// The same, with word on whose device must reach its ends.
pub fn copy_by(who: Who, mut copy: Copy, stream: CUstream, flavour: Flavour, wait: bool) -> Res {
    let (stream, context) = submit::resolve(stream, flavour)?;
    if copy.is_empty() {
        return Ok(());
    }
    if (!copy.src.device && copy.src.addr == 0) || (!copy.dst.device && copy.dst.addr == 0) {
        return Err(INVALID_VALUE);
    }
    let device = |handle| context::by_handle(handle).map(|c| c.device);
    let current = context::current().map_or(context.device, |c| c.device);
    let (dst, src) = match who {
        Who::Current => (current, current),
        Who::Stream => (context.device, context.device),
        Who::Each(dst, src) => (device(dst)?, device(src)?),
    };
    let good = |device| move |at, n| reach::may_copy(at, n, device);
    if !copy.check_ends(good(dst), good(src))
        || !copy.ends_on_host().all(|(p, n)| memory::may_be_end(p, n))
    {
        return Err(INVALID_VALUE);
    }
    if wait {
        capture::refuse(&stream)?;
    }
    let capturing = capture::is_member(&stream);
    let to_pageable = copy.pageable(&copy.dst).is_some();
    if !capturing && !wait && copy.pageable(&copy.src).is_some() {
        copy.stage();
    }
    submit::submit_to(&stream, &context, Work::Copy(Arc::new(copy)))?;
    if wait || (to_pageable && !capturing) {
        stream.wait_done(stream.submitted());
        context.status()?;
    }
    Ok(())
}

/// Whether an address is the driver's, so that a copy must stay inside what is live there.
fn known(address: u64) -> bool {
    memory::find(address).is_some_and(|range| !range.is_host())
}

/// A copy between any two addresses: as a node of a graph it tells that nobody said what they are.
pub fn any(dst: CUdeviceptr, src: CUdeviceptr, n: usize) -> Copy {
    let params = Memcpy3D {
        src_type: MEMORYTYPE_UNIFIED,
        src_device: src,
        dst_type: MEMORYTYPE_UNIFIED,
        dst_device: dst,
        width: n,
        height: 1,
        depth: 1,
        ..Memcpy3D::default()
    };
    Copy {
        params: Some(params),
        ..Copy::flat(dst, known(dst), src, known(src), n)
    }
}

fn plane(kind: u32, host: usize, device: u64, pitch: usize, slice: usize) -> R<Plane> {
    let (addr, device) = match kind {
        MEMORYTYPE_HOST => (host as u64, false),
        MEMORYTYPE_DEVICE => (device, true),
        MEMORYTYPE_UNIFIED => (device, known(device)),
        _ => return Err(INVALID_VALUE),
    };
    Ok(Plane {
        addr,
        pitch,
        slice,
        device,
    })
}

/// Turns a three-dimensional description into a copy.
pub fn from_3d(p: &Memcpy3D) -> R<Copy> {
    let inside = |at: (usize, usize, usize), array: usize| {
        let (addr, row, height, depth) = array::bytes(array)?;
        let fits = |at: usize, n: usize, size: usize| at.checked_add(n).is_some_and(|e| e <= size);
        if !fits(at.0, p.width, row) || !fits(at.1, p.height, height) || !fits(at.2, p.depth, depth)
        {
            return Err(INVALID_VALUE);
        }
        let (pitch, slice) = (row, row * height);
        Ok(Plane {
            addr: addr + (at.2 * slice + at.1 * pitch + at.0) as u64,
            pitch,
            slice,
            device: true,
        })
    };
    let end = |kind, host, device, at: (usize, usize, usize), pitch: usize, height: usize| {
        let (x, y, z) = at;
        let row = x.checked_add(p.width).ok_or(INVALID_VALUE)?;
        let pitch = if pitch == 0 { row } else { pitch };
        let height = if height == 0 { p.height } else { height };
        let slice = pitch.checked_mul(height).ok_or(INVALID_VALUE)?;
        if p.height > 1 && pitch < p.width {
            return Err(INVALID_VALUE);
        }
        let mut plane = plane(kind, host, device, pitch, slice)?;
        let rows = y.checked_mul(pitch).and_then(|y| y.checked_add(x));
        let offset = z
            .checked_mul(slice)
            .and_then(|z| z.checked_add(rows?))
            .ok_or(INVALID_VALUE)?;
        plane.addr = plane.addr.checked_add(offset as u64).ok_or(INVALID_VALUE)?;
        Ok(plane)
    };
    let src_at = (p.src_x, p.src_y, p.src_z);
    let dst_at = (p.dst_x, p.dst_y, p.dst_z);
    Ok(Copy {
        src: match p.src_type {
            MEMORYTYPE_ARRAY => inside(src_at, p.src_array)?,
            kind => end(
                kind,
                p.src_host,
                p.src_device,
                src_at,
                p.src_pitch,
                p.src_height,
            )?,
        },
        dst: match p.dst_type {
            MEMORYTYPE_ARRAY => inside(dst_at, p.dst_array)?,
            kind => end(
                kind,
                p.dst_host,
                p.dst_device,
                dst_at,
                p.dst_pitch,
                p.dst_height,
            )?,
        },
        width: p.width,
        height: p.height,
        depth: p.depth,
        staged: None,
        params: Some(*p),
    })
}

/// Turns a description into a copy: none of the rows of its ends may be left.
pub fn within_rows(p: &Memcpy3D) -> R<Copy> {
    let crosses = |kind: u32, x: usize, pitch: usize| {
        let end = x.checked_add(p.width);
        kind != MEMORYTYPE_ARRAY && pitch != 0 && end.is_none_or(|end| pitch < end)
    };
    let any =
        crosses(p.src_type, p.src_x, p.src_pitch) || crosses(p.dst_type, p.dst_x, p.dst_pitch);
    if any && p.width > 0 && p.height > 0 && p.depth > 0 {
        return Err(INVALID_VALUE);
    }
    from_3d(p)
}

/// Turns a two-dimensional description into a copy.
pub fn from_2d(p: &Memcpy2D) -> R<Copy> {
    within_rows(&Memcpy3D {
        src_x: p.src_x,
        src_y: p.src_y,
        src_type: p.src_type,
        src_host: p.src_host,
        src_device: p.src_device,
        src_array: p.src_array,
        src_pitch: p.src_pitch,
        dst_x: p.dst_x,
        dst_y: p.dst_y,
        dst_type: p.dst_type,
        dst_host: p.dst_host,
        dst_device: p.dst_device,
        dst_array: p.dst_array,
        dst_pitch: p.dst_pitch,
        width: p.width,
        height: p.height,
        depth: 1,
        ..Memcpy3D::default()
    })
}

/// Checks a fill, and that its memory is there.
pub fn checked_fill(fill: Fill) -> R<Fill> {
    let fill = shaped_fill(fill)?;
    if fill
        .span()
        .is_some_and(|n| n == 0 || memory::usable(fill.dst, n))
    {
        Ok(fill)
    } else {
        Err(INVALID_VALUE)
    }
}

/// Checks a fill without its memory.
fn shaped_fill(fill: Fill) -> R<Fill> {
    fill.span().ok_or(INVALID_VALUE)?;
    let narrow = fill.height > 1 && fill.pitch < fill.width * fill.element;
    let element = fill.element as u64;
    let odd = !fill.dst.is_multiple_of(element)
        || (fill.height > 1 && !(fill.pitch as u64).is_multiple_of(element));
    if narrow || odd {
        return Err(INVALID_VALUE);
    }
    Ok(fill)
}

/// Checks a fill and hands it to its stream.
pub fn fill(
    dst: u64,
    pitch: usize,
    (value, element): (u32, usize),
    (width, height): (usize, usize),
    (stream, flavour): (CUstream, Flavour),
) -> Res {
    let (stream, context) = submit::resolve(stream, flavour)?;
    if width == 0 || height == 0 {
        return Ok(());
    }
    let fill = Fill {
        dst,
        pitch,
        value,
        element,
        width,
        height,
        context: context.handle,
    };
    // As with the real driver, a capture makes a node of it whether its memory is there or not, but
    // not of memory that is out of reach.
    let captures = capture::of(&stream)?.is_some();
    let check = if captures { shaped_fill } else { checked_fill };
    let fill = check(fill)?;
    let n = fill.span().unwrap_or(0);
    let there = n > 0 && memory::find(dst).is_some();
    if there && !reach::may_write(dst, n, &context) {
        return Err(INVALID_VALUE);
    }
    submit::submit_to(&stream, &context, Work::Fill(fill))
}
