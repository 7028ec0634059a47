//! Launches as before CUDA 4: block shape, parameters and shared memory are set on the function one
//! by one, and the launch finds them there.

use crate::cuda::engine::launch;
use crate::cuda::life::{enter, enter_local, guard};
use crate::cuda::state::functions::Setup;
use busbar_abi::cuda::*;
use std::ffi::c_void;

/// Bytes of parameters that a kernel may have.
const MOST: usize = 32764;

/// Changes what is set on a function.
fn change(f: CUfunction, how: impl FnOnce(&mut Setup)) -> Result<(), CUresult> {
    let cx = enter_local()?;
    let (id, _) = launch::function(cx, f)?;
    cx.state().setups.with_new(id, how);
    Ok(())
}

pub unsafe fn cuFuncSetBlockShape(f: CUfunction, x: i32, y: i32, z: i32) -> CUresult {
    guard(|| {
        if [x, y, z].iter().any(|n| *n <= 0) {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        change(f, |s| s.block = [x as u32, y as u32, z as u32])
    })
}

pub unsafe fn cuFuncSetSharedSize(f: CUfunction, bytes: u32) -> CUresult {
    guard(|| change(f, |s| s.shared = bytes))
}

pub unsafe fn cuParamSetSize(f: CUfunction, bytes: u32) -> CUresult {
    guard(|| {
        if bytes as usize > MOST {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        change(f, |s| s.size = bytes as usize)
    })
}

/// Writes part of a function's parameters.
fn set(f: CUfunction, offset: i32, bytes: &[u8]) -> Result<(), CUresult> {
    let at = usize::try_from(offset).map_err(|_| CUDA_ERROR_INVALID_VALUE)?;
    let end = at + bytes.len();
    if end > MOST {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    change(f, |s| {
        if s.params.len() < end {
            s.params.resize(end, 0);
        }
        s.params[at..end].copy_from_slice(bytes);
    })
}

pub unsafe fn cuParamSeti(f: CUfunction, offset: i32, value: u32) -> CUresult {
    guard(|| set(f, offset, &value.to_le_bytes()))
}

pub unsafe fn cuParamSetf(f: CUfunction, offset: i32, value: f32) -> CUresult {
    guard(|| set(f, offset, &value.to_le_bytes()))
}

pub unsafe fn cuParamSetv(f: CUfunction, offset: i32, p: *mut c_void, bytes: u32) -> CUresult {
    guard(|| {
        if p.is_null() || bytes as usize > MOST {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        // SAFETY: the program says that so many bytes lie there.
        set(f, offset, unsafe {
            std::slice::from_raw_parts(p.cast(), bytes as usize)
        })
    })
}

/// A texture reference is found by its name in the module: this call has long had nothing to do.
pub unsafe fn cuParamSetTexRef(f: CUfunction, unit: i32, _reference: CUtexref) -> CUresult {
    const DEFAULT: i32 = -1;
    guard(|| {
        if unit != DEFAULT {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        change(f, |_| {})
    })
}

fn start(f: CUfunction, width: i32, height: i32, stream: CUstream) -> CUresult {
    guard(|| {
        let cx = enter()?;
        if width <= 0 || height <= 0 {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let (id, _) = launch::function(cx, f)?;
        let setup = cx.state().setups.get(&id);
        let mut s = setup.ok_or(CUDA_ERROR_INVALID_VALUE)?;
        s.params.resize(s.size, 0);
        let grid = [width as u32, height as u32, 1];
        launch::launch_packed(cx, f, grid, s.block, s.shared, stream, &s.params)
    })
}

pub unsafe fn cuLaunchGridAsync(
    f: CUfunction,
    width: i32,
    height: i32,
    stream: CUstream,
) -> CUresult {
    start(f, width, height, stream)
}
