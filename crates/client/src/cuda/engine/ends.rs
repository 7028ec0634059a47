//! The ends of copies of boxes, and of fills: where they are, and whether the bytes are there.

use super::prelude::*;
use crate::cuda::engine::array;
use crate::cuda::state::rows::{ARRAY, DEVICE, End, HOST, Rows};

fn pitch(e: &End, r: &Rows) -> Result<()> {
    let narrow = e.memory != ARRAY && e.pitch < r.width;
    refuse_if(narrow, CUDA_ERROR_INVALID_VALUE)
}

/// Whether a box begins within the rows of an end and ends outside of them. Without a pitch they
/// are as long as it takes.
pub fn crosses(e: &End, r: &Rows) -> bool {
    let end = e.x.checked_add(r.width);
    e.memory != ARRAY && e.pitch != 0 && end.is_none_or(|end| e.pitch < end)
}

/// Refuses rows that overlap.
pub fn pitches(r: &Rows) -> Result<()> {
    pitch(&r.src, r)?;
    pitch(&r.dst, r)
}

/// Refuses an end that the box is not in.
pub fn check(cx: Cx, e: &End, r: &Rows) -> Result<()> {
    cx.state().check_end(e, r)?;
    if e.memory == ARRAY {
        refuse_if(e.array == 0, CUDA_ERROR_INVALID_VALUE)?;
        let shape = array::shape(cx, cx.handle(Kind::Array, e.array)?)?;
        let inside = shape.holds([e.x, e.y, e.z], [r.width, r.height, r.depth]);
        refuse_if(!inside, CUDA_ERROR_INVALID_VALUE)?;
    }
    Ok(())
}

/// One end, as the client knows it that has it.
pub fn known(cx: Cx, e: &End, r: &Rows) -> Result<End> {
    let e = cx.state().resolved(&Rows { src: *e, ..*r }).src;
    pitch(&e, r)?;
    check(cx, &e, r)?;
    Ok(e)
}

/// What a fill fills.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Filled {
    Nothing,
    /// Memory that takes it, as far as is known here.
    Known,
    /// Something else, of which a stream that captures makes a node nevertheless: cuDNN asks for
    /// the nodes of a plan before it has any memory for it.
    Unknown,
}

/// Checks a fill of `height` rows of `width` elements of `element` bytes.
pub fn fill(
    cx: Cx,
    dst: u64,
    pitch: usize,
    element: usize,
    width: usize,
    height: usize,
) -> Result<Filled> {
    if width == 0 || height == 0 {
        return Ok(Filled::Nothing);
    }
    let row = width.checked_mul(element).ok_or(CUDA_ERROR_INVALID_VALUE)?;
    let odd = |n: u64| !n.is_multiple_of(element as u64);
    let rows = height > 1;
    if odd(dst) || rows && (pitch < row || odd(pitch as u64)) {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let len = pitch
        .checked_mul(height - 1)
        .and_then(|n| n.checked_add(row))
        .ok_or(CUDA_ERROR_INVALID_VALUE)?;
    // Page-locked memory of the host may be filled, too.
    let there = if cx.state().ranges.is_pinned(dst, len) {
        Ok(())
    } else {
        cx.state().must_be_on_device(dst, len)
    };
    match there {
        Err(_) if cx.state().captures.any() => Ok(Filled::Unknown),
        there => there.map(|()| Filled::Known),
    }
}

/// Whether a copy with these ends is one that no driver refuses, as far as is known here.
pub fn is_usual(cx: Cx, r: &Rows) -> bool {
    let r = cx.state().resolved(r);
    let good = |e: &End| {
        let known = matches!(e.memory, HOST | DEVICE | ARRAY);
        known && pitch(e, &r).is_ok() && check(cx, e, &r).is_ok()
    };
    good(&r.src) && good(&r.dst)
}
