//! Devices, as the server described them.

use super::prelude::*;

pub fn cuDeviceGet(cx: Cx, ordinal: i32) -> Result<CUdevice> {
    cx.of_device(ordinal).device(ordinal)?;
    Ok(ordinal)
}

pub fn cuDeviceGetCount(cx: Cx) -> Result<i32> {
    Ok(cx.client.all().iter().map(|c| c.devices.len() as i32).sum())
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

/// What stands for another rank's device has a name that no server knows: a runtime holds the names
/// of all devices against the driver's.
fn name(cx: Cx, dev: CUdevice, ask: impl FnOnce() -> Result<[u8; 16]>) -> Result<CUuuid> {
    let d = cx.device(dev)?;
    let bytes = if d.stand_in { d.uuid } else { ask()? };
    Ok(busbar_abi::member(&bytes))
}

pub fn cuDeviceGetUuid(cx: Cx, dev: CUdevice) -> Result<CUuuid> {
    name(cx, dev, || {
        let reply = cx.cached(&msg::CuDeviceGetUuid { dev })?;
        Ok(decode::<msg::CuDeviceGetUuidReply>(&reply)?.uuid)
    })
}

pub fn cuDeviceGetUuid_v2(cx: Cx, dev: CUdevice) -> Result<CUuuid> {
    name(cx, dev, || {
        let reply = cx.cached(&msg::CuDeviceGetUuidV2 { dev })?;
        Ok(decode::<msg::CuDeviceGetUuidV2Reply>(&reply)?.uuid)
    })
}

pub fn cuDeviceGetAttribute(cx: Cx, attrib: CUdevice_attribute, dev: CUdevice) -> Result<i32> {
    let d = cx.device(dev)?;
    let v = d
        .attributes
        .get(&(attrib as i32))
        .ok_or(CUDA_ERROR_INVALID_VALUE)?;
    Ok(*v)
}

/// A place on the bus, as programs write it: `[DOMAIN:]BUS:DEVICE[.FUNCTION]`, all hexadecimal.
fn place(text: &str) -> Option<[i32; 3]> {
    let text = text.split_once('.').map_or(text, |(place, _)| place);
    let number = |s: &str| i32::from_str_radix(s, 16).ok();
    let numbers: Option<Vec<_>> = text.split(':').map(number).collect();
    match numbers?[..] {
        [bus, device] => Some([0, bus, device]),
        [domain, bus, device] => Some([domain, bus, device]),
        _ => None,
    }
}

pub fn cuDeviceGetByPCIBusId(cx: Cx, id: *const c_char) -> Result<CUdevice> {
    refuse_if(id.is_null(), CUDA_ERROR_INVALID_VALUE)?;
    // SAFETY: the program's text.
    let id = unsafe { CStr::from_ptr(id) };
    let all = cx.client.every_device();
    if !cx.client.many && !all.iter().any(|d| d.moved) {
        let pci_bus_id = id.to_bytes();
        let reply = cx.cached(&msg::CuDeviceGetByPCIBusId { pci_bus_id })?;
        return Ok(decode::<msg::CuDeviceGetByPCIBusIdReply>(&reply)?.dev);
    }
    let wanted = id.to_str().ok().and_then(place);
    let wanted = wanted.ok_or(CUDA_ERROR_INVALID_VALUE)?;
    let found = all.iter().find(|d| d.pci() == wanted);
    found.map(|d| d.ordinal).ok_or(CUDA_ERROR_INVALID_DEVICE)
}

pub unsafe fn cuDeviceGetPCIBusId(cx: Cx, out: *mut c_char, len: i32, dev: CUdevice) -> Result<()> {
    let n = usize::try_from(len).map_err(|_| CUDA_ERROR_INVALID_VALUE)?;
    refuse_if(out.is_null(), CUDA_ERROR_INVALID_VALUE)?;
    let d = cx.device(dev)?;
    let reply = cx.cached(&msg::CuDeviceGetPCIBusId { len, dev })?;
    let mut text = decode::<msg::CuDeviceGetPCIBusIdReply<'_>>(&reply)?
        .pci_bus_id
        .to_vec();
    refuse_if(text.len() != n, CUDA_ERROR_UNKNOWN)?;
    if d.moved {
        let shown = d.bus_id();
        let shown = shown.bytes().chain(std::iter::repeat(0));
        text.iter_mut().zip(shown).for_each(|(t, b)| *t = b);
        text.last_mut().into_iter().for_each(|end| *end = 0);
    }
    // SAFETY: the program says that `len` bytes lie there.
    unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), out.cast(), n) };
    Ok(())
}
