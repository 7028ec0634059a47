//! Devices, as the server described them.

use crate::cuda::call::put;
use crate::cuda::life::{enter_local, guard};
use busbar_abi::cuda::*;
use std::ffi::c_char;

pub unsafe fn cuDeviceGet(device: *mut CUdevice, ordinal: i32) -> CUresult {
    guard(|| {
        let cx = enter_local()?;
        cx.device(ordinal)?;
        // SAFETY: the program's pointer.
        unsafe { put(device, ordinal) }
    })
}

pub unsafe fn cuDeviceGetCount(count: *mut i32) -> CUresult {
    guard(|| {
        let cx = enter_local()?;
        // SAFETY: the program's pointer.
        unsafe { put(count, cx.client.devices.len() as i32) }
    })
}

pub unsafe fn cuDeviceGetName(name: *mut c_char, len: i32, dev: CUdevice) -> CUresult {
    guard(|| {
        let cx = enter_local()?;
        let d = cx.device(dev)?;
        if name.is_null() || len <= 0 {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let n = d.name.len().min(len as usize - 1);
        // SAFETY: the program says that `len` bytes lie there.
        unsafe {
            std::ptr::copy_nonoverlapping(d.name.as_ptr(), name.cast(), n);
            put(name.add(n), 0)
        }
    })
}

pub unsafe fn cuDeviceGetAttribute(
    pi: *mut i32,
    attrib: CUdevice_attribute,
    dev: CUdevice,
) -> CUresult {
    guard(|| {
        let cx = enter_local()?;
        let d = cx.device(dev)?;
        let v = d
            .attributes
            .get(&(attrib as i32))
            .ok_or(CUDA_ERROR_INVALID_VALUE)?;
        // SAFETY: the program's pointer.
        unsafe { put(pi, *v) }
    })
}
