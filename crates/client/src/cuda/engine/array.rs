//! What is known of arrays, so that a copy past an array's end fails at once, as CUDA's does.

use super::prelude::*;
use crate::cuda::state::rows::{Shape, shape_of};

/// The shape of an array, asked for once.
pub fn shape(cx: Cx, id: u32) -> Result<Shape> {
    let arrays = &cx.state().arrays;
    if let Some(s) = arrays.get(&id) {
        return Ok(s);
    }
    let bytes = cx
        .reply_to(&msg::CuArray3DGetDescriptorV2 { h_array: id })?
        .p_array_descriptor;
    let d: CUDA_ARRAY3D_DESCRIPTOR = busbar_abi::from_bytes(&bytes).ok_or(CUDA_ERROR_UNKNOWN)?;
    let s = shape_of(&d);
    arrays.insert(id, s);
    Ok(s)
}
