//! The library, the machine, and which devices there are.

use crate::nvml::life::{Cx, check_version, guard, put_text};
use crate::nvml::machine::{self, Gpu};
use crate::nvml::place;
use busbar_abi::nvml::*;
use busbar_control::gpu::plain_uuid;
use busbar_control::text::to_hex;
use std::ffi::{CStr, c_char, c_void};

/// `nvmlInitWithFlags`' flag that a machine without GPUs is fine.
const NO_GPUS: u32 = 1;

/// Starts the library.
///
/// # Safety
/// As the API says.
pub unsafe fn init(flags: u32) -> nvmlReturn_t {
    guard(|| machine::init(flags & NO_GPUS != 0))
}

/// Ends one use of the library.
///
/// # Safety
/// As the API says.
pub unsafe fn nvmlShutdown() -> nvmlReturn_t {
    guard(machine::shutdown)
}

/// A sentence for a return code.
///
/// # Safety
/// As the API says.
pub unsafe fn nvmlErrorString(rc: nvmlReturn_t) -> *const c_char {
    error_description(rc).unwrap_or(c"Unknown Error").as_ptr()
}

/// The NVIDIA driver's version on the server.
///
/// # Safety
/// As the API says.
pub unsafe fn nvmlSystemGetDriverVersion(cx: Cx, out: *mut c_char, room: u32) -> Result {
    match cx.0.driver.as_str() {
        "" => Err(NVML_ERROR_NOT_SUPPORTED),
        // SAFETY: passed on to the caller.
        v => unsafe { put_text(out, room, v) },
    }
}

/// NVML's version: the server's, or where that has none, the API's that this library follows. Needs
/// no `nvmlInit`.
///
/// # Safety
/// As the API says.
pub unsafe fn nvmlSystemGetNVMLVersion(out: *mut c_char, room: u32) -> nvmlReturn_t {
    guard(|| {
        let text = match machine::get() {
            Ok(m) if !m.nvml.is_empty() => m.nvml.clone(),
            Ok(m) if !m.driver.is_empty() => format!("13.{}", m.driver),
            _ => "13.0".into(),
        };
        // SAFETY: passed on to the caller.
        unsafe { put_text(out, room, &text) }
    })
}

/// The version of the CUDA driver's API on the server.
pub fn nvmlSystemGetCudaDriverVersion(cx: Cx) -> Result<i32> {
    match cx.0.cuda {
        0 => Err(NVML_ERROR_NOT_SUPPORTED),
        v => Ok(v as i32),
    }
}

/// How many GPUs there are.
pub fn nvmlDeviceGetCount(cx: Cx) -> Result<u32> {
    Ok(cx.0.gpus.len() as u32)
}

/// A count of things that there are none of: excluded devices, units.
pub fn none(_cx: Cx) -> Result<u32> {
    Ok(0)
}

fn find(cx: Cx, is_it: impl Fn(&Gpu) -> bool) -> Result<nvmlDevice_t> {
    let found = cx.0.gpus.iter().find(|g| is_it(g));
    found.map(Gpu::handle).ok_or(NVML_ERROR_NOT_FOUND)
}

unsafe fn text<'a>(p: *const c_char) -> Result<&'a str> {
    refuse_if(p.is_null(), NVML_ERROR_INVALID_ARGUMENT)?;
    // SAFETY: the caller's promise: a text that ends in NUL.
    let text = unsafe { CStr::from_ptr(p) };
    text.to_str().map_err(|_| NVML_ERROR_INVALID_ARGUMENT)
}

/// The GPU with a number.
pub fn nvmlDeviceGetHandleByIndex(cx: Cx, index: u32) -> Result<nvmlDevice_t> {
    let gpu = cx.0.gpus.get(index as usize);
    gpu.map(Gpu::handle).ok_or(NVML_ERROR_INVALID_ARGUMENT)
}

/// The GPU with a UUID (`GPU-...`).
///
/// # Safety
/// As the API says.
pub unsafe fn nvmlDeviceGetHandleByUUID(cx: Cx, uuid: *const c_char) -> Result<nvmlDevice_t> {
    // SAFETY: passed on to the caller.
    let wanted = match unsafe { text(uuid) }? {
        "" => return Err(NVML_ERROR_INVALID_ARGUMENT),
        text => plain_uuid(text).ok_or(NVML_ERROR_NOT_FOUND)?,
    };
    find(cx, |g| g.facts.uuid == wanted)
}

/// The GPU with a UUID as text or as bytes.
///
/// # Safety
/// As the API says.
pub unsafe fn nvmlDeviceGetHandleByUUIDV(cx: Cx, uuid: *const nvmlUUID_t) -> Result<nvmlDevice_t> {
    // SAFETY: the caller's promise: null or a live structure.
    let u = unsafe {
        check_version(uuid, 1)?;
        &*uuid
    };
    let wanted = match u.r#type {
        1 => {
            let text = CStr::from_bytes_until_nul(&u.value).ok();
            let text = text.and_then(|t| t.to_str().ok());
            text.and_then(plain_uuid).ok_or(NVML_ERROR_NOT_FOUND)?
        }
        2 => to_hex(&u.value[..16]),
        _ => return Err(NVML_ERROR_INVALID_ARGUMENT),
    };
    find(cx, |g| g.facts.uuid == wanted)
}

/// The GPU at a place on the PCI bus.
///
/// # Safety
/// As the API says.
pub unsafe fn nvmlDeviceGetHandleByPciBusId(cx: Cx, bus_id: *const c_char) -> Result<nvmlDevice_t> {
    // SAFETY: passed on to the caller.
    let wanted = place::parse(unsafe { text(bus_id) }?).ok_or(NVML_ERROR_INVALID_ARGUMENT)?;
    find(cx, |g| g.facts.pci == Some(wanted))
}

/// The GPU with a serial number.
///
/// # Safety
/// As the API says.
pub unsafe fn nvmlDeviceGetHandleBySerial(cx: Cx, serial: *const c_char) -> Result<nvmlDevice_t> {
    // SAFETY: passed on to the caller.
    let wanted = unsafe { text(serial) }?;
    find(cx, |g| {
        g.facts.texts.get("serial").is_some_and(|s| s == wanted)
    })
}

/// NVML's own tables of functions, which nothing here has. Success without a table would crash
/// those who ask.
///
/// # Safety
/// As the API says.
pub unsafe fn nvmlInternalGetExportTable(
    out: *mut *const c_void,
    _id: *const c_void,
) -> nvmlReturn_t {
    if !out.is_null() {
        // SAFETY: the caller's promise.
        unsafe { out.write(std::ptr::null()) };
    }
    NVML_ERROR_NOT_FOUND
}
