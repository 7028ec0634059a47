//! Devices, as the server described them.

use super::prelude::*;

pub fn cuDeviceGet(cx: Cx, ordinal: i32) -> Result<CUdevice> {
    cx.device(ordinal)?;
    Ok(ordinal)
}

pub fn cuDeviceGetCount(cx: Cx) -> Result<i32> {
    Ok(cx.client.devices.len() as i32)
}

pub unsafe fn cuDeviceGetName(cx: Cx, name: *mut c_char, len: i32, dev: CUdevice) -> Result<()> {
    let d = cx.device(dev)?;
    refuse_if(name.is_null() || len <= 0, CUDA_ERROR_INVALID_VALUE)?;
    let n = d.name.len().min(len as usize - 1);
    // SAFETY: the program says that `len` bytes lie there.
    unsafe {
        std::ptr::copy_nonoverlapping(d.name.as_ptr(), name.cast(), n);
        put(name.add(n), 0)
    }
}

pub fn cuDeviceGetAttribute(cx: Cx, attrib: CUdevice_attribute, dev: CUdevice) -> Result<i32> {
    let d = cx.device(dev)?;
    let v = d
        .attributes
        .get(&(attrib as i32))
        .ok_or(CUDA_ERROR_INVALID_VALUE)?;
    Ok(*v)
}
