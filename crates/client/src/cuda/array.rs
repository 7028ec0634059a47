//! What is known of arrays, so that a copy past an array's end fails at once, as CUDA's does.

use super::handles;
use super::runtime::{Cx, decode, enter, guard};
use busbar_abi::cuda::*;
use busbar_wire::generated::cuda::{self as msg, Kind};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// An array's extent.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// Bytes of an element; 0 for formats that have no single one.
    pub element: usize,
    /// Bytes of a row.
    row: usize,
    height: usize,
    depth: usize,
}

/// Shapes of arrays that were copied to or from, by id.
static SHAPES: Mutex<Option<HashMap<u32, Shape>>> = Mutex::new(None);

/// Bytes of one channel of a format.
fn channel(format: CUarray_format) -> usize {
    match format {
        0x01 | 0x08 | 0xc0 | 0xc3 => 1,
        0x02 | 0x09 | 0x10 | 0xc1 | 0xc4 => 2,
        0x03 | 0x0a | 0x20 => 4,
        _ => 0,
    }
}

/// The shape of an array, asked for once.
pub fn shape(cx: Cx, id: u32) -> Result<Shape, CUresult> {
    let known = |shapes: &Option<HashMap<u32, Shape>>| shapes.as_ref()?.get(&id).copied();
    if let Some(s) = known(&SHAPES.lock().unwrap_or_else(PoisonError::into_inner)) {
        return Ok(s);
    }
    let reply = cx.call(&msg::CuArray3DGetDescriptorV2 { h_array: id })?;
    let bytes = decode::<msg::CuArray3DGetDescriptorV2Reply>(&reply)?.p_array_descriptor;
    let d: CUDA_ARRAY3D_DESCRIPTOR = busbar_abi::from_bytes(&bytes).ok_or(CUDA_ERROR_UNKNOWN)?;
    let element = channel(d.Format) * d.NumChannels as usize;
    let s = Shape {
        element,
        row: d.Width * element,
        height: d.Height.max(1),
        depth: d.Depth.max(1),
    };
    let mut shapes = SHAPES.lock().unwrap_or_else(PoisonError::into_inner);
    shapes.get_or_insert_default().insert(id, s);
    Ok(s)
}

impl Shape {
    /// Whether a box of bytes lies inside: places and sizes along each side.
    pub fn holds(&self, at: [usize; 3], size: [usize; 3]) -> bool {
        let ends = [self.row, self.height, self.depth];
        let inside = |i: usize| at[i].checked_add(size[i]).is_some_and(|end| end <= ends[i]);
        self.element == 0 || (0..3).all(inside)
    }
}

fn forget(id: u32) {
    let mut shapes = SHAPES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(s) = shapes.as_mut() {
        s.remove(&id);
    }
}

/// A context is gone, and every array in it. Called while its handles are still known.
pub fn forget_context(id: u32) {
    for array in handles::living(Kind::Array, id) {
        forget(array);
    }
}

pub(super) unsafe fn cuArrayDestroy(array: CUarray) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let id = cx.handle(Kind::Array, array as u64)?;
        forget(id);
        cx.send(&msg::CuArrayDestroy { h_array: id })?;
        cx.destroy(Kind::Array, id);
        Ok(())
    })
}
