//! The ends of a copy of a box: where they are, and whether the box is there.

use super::prelude::*;
use crate::cuda::engine::array;
use crate::cuda::state::rows::{ARRAY, End, Rows};

fn pitch(e: &End, r: &Rows) -> Result<()> {
    let narrow = e.memory != ARRAY && e.pitch < r.width;
    refuse_if(narrow, CUDA_ERROR_INVALID_VALUE)
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
        let shape = array::shape(cx, cx.handle(Kind::Array, e.array)?)?;
        let inside = shape.holds([e.x, e.y, e.z], [r.width, r.height, r.depth]);
        refuse_if(!inside, CUDA_ERROR_INVALID_VALUE)?;
    }
    Ok(())
}

/// One end, as the client knows it that has it.
pub fn known(cx: Cx, e: &End, r: &Rows) -> Result<End> {
    let e = cx.state().settled(&Rows { src: *e, ..*r }).src;
    pitch(&e, r)?;
    check(cx, &e, r)?;
    Ok(e)
}
