//! Copies, as programs ask for them.

use crate::cuda::call::Cx;
use crate::cuda::engine::copy;
use busbar_abi::cuda::*;
use std::ffi::c_void;

pub unsafe fn cuMemcpy(
    cx: Cx,
    dst: CUdeviceptr,
    src: CUdeviceptr,
    len: usize,
    per_thread: bool,
) -> Result<(), CUresult> {
    let s = cx.stream(std::ptr::null_mut(), per_thread)?;
    // SAFETY: the program's addresses.
    unsafe { copy::any(cx, dst, src, len, s, false) }
}

pub unsafe fn cuMemcpyAsync(
    cx: Cx,
    dst: CUdeviceptr,
    src: CUdeviceptr,
    len: usize,
    s: u32,
) -> Result<(), CUresult> {
    // SAFETY: the program's addresses.
    unsafe { copy::any(cx, dst, src, len, s, true) }
}

pub unsafe fn cuMemcpyHtoD_v2(
    cx: Cx,
    dst: CUdeviceptr,
    src: *const c_void,
    len: usize,
    per_thread: bool,
) -> Result<(), CUresult> {
    let s = cx.stream(std::ptr::null_mut(), per_thread)?;
    // SAFETY: the program's pointer.
    unsafe { copy::to_device(cx, dst, src.cast(), len, s, false) }
}

pub unsafe fn cuMemcpyHtoDAsync_v2(
    cx: Cx,
    dst: CUdeviceptr,
    src: *const c_void,
    len: usize,
    s: u32,
) -> Result<(), CUresult> {
    // SAFETY: the program's pointer.
    unsafe { copy::to_device(cx, dst, src.cast(), len, s, true) }
}

pub unsafe fn cuMemcpyDtoH_v2(
    cx: Cx,
    dst: *mut c_void,
    src: CUdeviceptr,
    len: usize,
    per_thread: bool,
) -> Result<(), CUresult> {
    let s = cx.stream(std::ptr::null_mut(), per_thread)?;
    // SAFETY: the program's pointer.
    unsafe { copy::to_host(cx, dst.cast(), src, len, s, false) }
}

pub unsafe fn cuMemcpyDtoHAsync_v2(
    cx: Cx,
    dst: *mut c_void,
    src: CUdeviceptr,
    len: usize,
    s: u32,
) -> Result<(), CUresult> {
    // SAFETY: the program's pointer.
    unsafe { copy::to_host(cx, dst.cast(), src, len, s, true) }
}

pub unsafe fn cuMemcpyDtoDAsync_v2(
    cx: Cx,
    dst: CUdeviceptr,
    src: CUdeviceptr,
    len: usize,
    s: u32,
) -> Result<(), CUresult> {
    // Page-locked memory of the host is an address of the device's, too; other memory is not.
    let mapped = |p| cx.state().ranges.is_pinned(p, len);
    if !mapped(dst) && len > 0 {
        cx.state().must_be_on_device(dst, len)?;
    }
    if !mapped(src) && len > 0 {
        cx.state().must_be_on_device(src, len)?;
    }
    // SAFETY: memory that CUDA knows, checked above.
    unsafe { copy::any(cx, dst, src, len, s, true) }
}

// The family's functions on rows, and on batches, have files of their own.
pub use super::copy_batch::*;
pub use super::copy_rows::*;
