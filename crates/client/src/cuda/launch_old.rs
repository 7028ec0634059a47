//! Launches as before CUDA 4: block shape, parameters and shared memory are set on the function one
//! by one, and the launch finds them there.

use super::launch::{function, launch_packed};
use super::runtime::{enter, enter_local, guard};
use busbar_abi::cuda::*;
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};

/// What was set on a function.
#[derive(Clone)]
struct Setup {
    block: [u32; 3],
    shared: u32,
    params: Vec<u8>,
    /// How many bytes of parameters there are, as the program says.
    size: usize,
}

static SETUPS: Mutex<Option<HashMap<u32, Setup>>> = Mutex::new(None);

/// Bytes of parameters that a kernel may have.
const MOST: usize = 32764;

/// Changes what is set on a function.
fn change(f: CUfunction, how: impl FnOnce(&mut Setup)) -> Result<(), CUresult> {
    let (id, _) = function(enter_local()?, f)?;
    let mut setups = SETUPS.lock().unwrap_or_else(PoisonError::into_inner);
    let fresh = || Setup {
        block: [1; 3],
        shared: 0,
        params: Vec::new(),
        size: 0,
    };
    how(setups
        .get_or_insert_default()
        .entry(id)
        .or_insert_with(fresh));
    Ok(())
}

pub(super) unsafe fn cuFuncSetBlockShape(f: CUfunction, x: i32, y: i32, z: i32) -> CUresult {
    guard(|| {
        if [x, y, z].iter().any(|n| *n <= 0) {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        change(f, |s| s.block = [x as u32, y as u32, z as u32])
    })
}

pub(super) unsafe fn cuFuncSetSharedSize(f: CUfunction, bytes: u32) -> CUresult {
    guard(|| change(f, |s| s.shared = bytes))
}

pub(super) unsafe fn cuParamSetSize(f: CUfunction, bytes: u32) -> CUresult {
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

pub(super) unsafe fn cuParamSeti(f: CUfunction, offset: i32, value: u32) -> CUresult {
    guard(|| set(f, offset, &value.to_le_bytes()))
}

pub(super) unsafe fn cuParamSetf(f: CUfunction, offset: i32, value: f32) -> CUresult {
    guard(|| set(f, offset, &value.to_le_bytes()))
}

pub(super) unsafe fn cuParamSetv(
    f: CUfunction,
    offset: i32,
    p: *mut c_void,
    bytes: u32,
) -> CUresult {
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
pub(super) unsafe fn cuParamSetTexRef(f: CUfunction, unit: i32, _reference: CUtexref) -> CUresult {
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
        let (id, _) = function(cx, f)?;
        let setup = {
            let setups = SETUPS.lock().unwrap_or_else(PoisonError::into_inner);
            setups.as_ref().and_then(|s| s.get(&id)).cloned()
        };
        let mut s = setup.ok_or(CUDA_ERROR_INVALID_VALUE)?;
        s.params.resize(s.size, 0);
        let grid = [width as u32, height as u32, 1];
        launch_packed(cx, f, grid, s.block, s.shared, stream, &s.params)
    })
}

pub(super) unsafe fn cuLaunch(f: CUfunction) -> CUresult {
    start(f, 1, 1, std::ptr::null_mut())
}

pub(super) unsafe fn cuLaunchGrid(f: CUfunction, width: i32, height: i32) -> CUresult {
    start(f, width, height, std::ptr::null_mut())
}

pub(super) unsafe fn cuLaunchGridAsync(
    f: CUfunction,
    width: i32,
    height: i32,
    stream: CUstream,
) -> CUresult {
    start(f, width, height, stream)
}
