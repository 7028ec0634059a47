//! Launches as before CUDA 4: block shape, parameters and shared memory are set on the function one
//! by one, and the launch finds them there.

use super::prelude::*;
use crate::cuda::engine::launch;
use crate::cuda::state::functions::Setup;

/// Bytes of parameters that a kernel may have.
const MOST: usize = 32764;

/// Changes what is set on a function.
pub fn change(cx: Cx, f: CUfunction, how: impl FnOnce(&mut Setup)) -> Result<()> {
    let (id, _) = launch::function(cx, f)?;
    cx.state().setups.with_new(id, how);
    Ok(())
}

pub fn cuFuncSetBlockShape(cx: Cx, f: CUfunction, x: i32, y: i32, z: i32) -> Result<()> {
    refuse_if([x, y, z].iter().any(|n| *n <= 0), CUDA_ERROR_INVALID_VALUE)?;
    change(cx, f, |s| s.block = [x as u32, y as u32, z as u32])
}

pub fn cuParamSetSize(cx: Cx, f: CUfunction, bytes: u32) -> Result<()> {
    refuse_if(bytes as usize > MOST, CUDA_ERROR_INVALID_VALUE)?;
    change(cx, f, |s| s.size = bytes as usize)
}

/// Writes part of a function's parameters.
pub fn set_parameter(cx: Cx, f: CUfunction, offset: i32, bytes: &[u8]) -> Result<()> {
    let at = usize::try_from(offset).map_err(|_| CUDA_ERROR_INVALID_VALUE)?;
    let end = at + bytes.len();
    refuse_if(end > MOST, CUDA_ERROR_INVALID_VALUE)?;
    change(cx, f, |s| {
        if s.params.len() < end {
            s.params.resize(end, 0);
        }
        s.params[at..end].copy_from_slice(bytes);
    })
}

pub unsafe fn cuParamSetv(
    cx: Cx,
    f: CUfunction,
    offset: i32,
    p: *mut c_void,
    bytes: u32,
) -> Result<()> {
    refuse_if(p.is_null(), CUDA_ERROR_INVALID_VALUE)?;
    refuse_if(bytes as usize > MOST, CUDA_ERROR_INVALID_VALUE)?;
    // SAFETY: the program says that so many bytes lie there.
    set_parameter(cx, f, offset, unsafe {
        std::slice::from_raw_parts(p.cast(), bytes as usize)
    })
}

/// A texture reference is found by its name in the module: this call has long had nothing to do.
pub fn cuParamSetTexRef(cx: Cx, f: CUfunction, unit: i32, _reference: CUtexref) -> Result<()> {
    const DEFAULT: i32 = -1;
    refuse_if(unit != DEFAULT, CUDA_ERROR_INVALID_VALUE)?;
    change(cx, f, |_| {})
}
