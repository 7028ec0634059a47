//! Calls about the machine and the library, and those that find devices.

use super::machine::{self, Gpu};
use super::place;
use super::types::{Uuid, version};
use super::*;
use busbar_control::gpu::plain_uuid;
use std::ffi::{CStr, c_void};

/// `nvmlInitWithFlags`' flag that a machine without GPUs is fine.
const NO_GPUS: u32 = 1;

/// Starts the library; `nvmlInit` and `nvmlInit_v2` pass no flags.
pub fn init(flags: u32) -> Return {
    code(machine::init(flags & NO_GPUS != 0))
}

/// Ends one use of the library.
pub fn shutdown() -> Return {
    code(machine::shutdown())
}

/// A sentence for a return code.
pub fn error_string(rc: Return) -> *const c_char {
    let text = match rc {
        0 => c"Success",
        1 => c"Uninitialized",
        2 => c"Invalid Argument",
        3 => c"Not Supported",
        4 => c"Insufficient Permissions",
        5 => c"Already Initialized",
        6 => c"Not Found",
        7 => c"Insufficient Size",
        8 => c"Insufficient External Power",
        9 => c"Driver Not Loaded",
        10 => c"Timeout",
        11 => c"Interrupt Request Issue",
        12 => c"NVML Shared Library Not Found",
        13 => c"Function Not Found",
        14 => c"Corrupted infoROM",
        15 => c"GPU is lost",
        16 => c"GPU requires reset",
        17 => c"The operating system has blocked the request",
        18 => c"RM has detected an NVML/RM version mismatch",
        19 => c"In use by another client",
        20 => c"Insufficient Memory",
        21 => c"No data",
        22 => c"The requested vgpu operation is not available on target device, because ECC is on",
        23 => c"Insufficient Resources",
        24 => c"Frequency Not Supported",
        25 => c"Argument Version Mismatch",
        26 => c"Deprecated",
        27 => c"Not Ready",
        28 => c"GPU Not Found",
        29 => c"Invalid State",
        30 => c"Reset Type Not Supported",
        _ => c"Unknown Error",
    };
    text.as_ptr()
}

/// The NVIDIA driver's version on the server.
///
/// # Safety
/// As the API says.
pub unsafe fn driver_version(out: *mut c_char, room: u32) -> Return {
    code(machine::get().and_then(|m| match m.driver.as_str() {
        "" => Err(NOT_SUPPORTED),
        // SAFETY: passed on to the caller.
        v => unsafe { put_text(out, room, v) },
    }))
}

/// NVML's version: the server's, or where that has none, the API's that this library follows. Needs
/// no `nvmlInit`.
///
/// # Safety
/// As the API says.
pub unsafe fn nvml_version(out: *mut c_char, room: u32) -> Return {
    let text = match machine::get() {
        Ok(m) if !m.nvml.is_empty() => m.nvml.clone(),
        Ok(m) if !m.driver.is_empty() => format!("13.{}", m.driver),
        _ => "13.0".into(),
    };
    // SAFETY: passed on to the caller.
    code(unsafe { put_text(out, room, &text) })
}

/// The version of the CUDA driver's API on the server.
///
/// # Safety
/// As the API says.
pub unsafe fn cuda_version(out: *mut i32) -> Return {
    code(machine::get().and_then(|m| match m.cuda {
        0 => Err(NOT_SUPPORTED),
        // SAFETY: passed on to the caller.
        v => unsafe { put(out, v as i32) },
    }))
}

/// How many GPUs there are.
///
/// # Safety
/// As the API says.
pub unsafe fn count(out: *mut u32) -> Return {
    // SAFETY: passed on to the caller.
    code(machine::get().and_then(|m| unsafe { put(out, m.gpus.len() as u32) }))
}

/// A count of things that there are none of: excluded devices, units.
///
/// # Safety
/// As the API says.
pub unsafe fn none(out: *mut u32) -> Return {
    // SAFETY: passed on to the caller.
    code(machine::get().and_then(|_| unsafe { put(out, 0) }))
}

unsafe fn found(out: *mut Device, matches: impl Fn(&Gpu) -> bool) -> Outcome {
    let gpu = machine::get()?.gpus.iter().find(|g| matches(g));
    // SAFETY: passed on to the caller.
    unsafe { put(out, std::ptr::from_ref(gpu.ok_or(NOT_FOUND)?)) }
}

unsafe fn text<'a>(p: *const c_char) -> Result<&'a str, Return> {
    if p.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    // SAFETY: the caller's promise: a text that ends in NUL.
    let text = unsafe { CStr::from_ptr(p) };
    text.to_str().map_err(|_| INVALID_ARGUMENT)
}

/// The GPU with a number.
///
/// # Safety
/// As the API says.
pub unsafe fn by_index(index: u32, out: *mut Device) -> Return {
    code(machine::get().and_then(|m| {
        let gpu = m.gpus.get(index as usize).ok_or(INVALID_ARGUMENT)?;
        // SAFETY: passed on to the caller.
        unsafe { put(out, std::ptr::from_ref(gpu)) }
    }))
}

/// The GPU with a UUID (`GPU-...`).
///
/// # Safety
/// As the API says.
pub unsafe fn by_uuid(uuid: *const c_char, out: *mut Device) -> Return {
    // SAFETY: passed on to the caller.
    let look = || unsafe {
        let text = text(uuid)?;
        if text.is_empty() {
            return Err(INVALID_ARGUMENT);
        }
        let wanted = plain_uuid(text).ok_or(NOT_FOUND)?;
        found(out, |g| g.facts.uuid == wanted)
    };
    code(machine::get().and_then(|_| look()))
}

/// The GPU with a UUID as text or as bytes.
///
/// # Safety
/// As the API says.
pub unsafe fn by_uuid_v(uuid: *const Uuid, out: *mut Device) -> Return {
    let look = || {
        // SAFETY: the caller's promise: null or a live structure.
        let u = unsafe { uuid.as_ref() }.ok_or(INVALID_ARGUMENT)?;
        if u.version != version::<Uuid>(1) {
            return Err(ARGUMENT_VERSION_MISMATCH);
        }
        let wanted = match u.kind {
            1 => {
                let end = u.value.iter().position(|b| *b == 0);
                let text = std::str::from_utf8(&u.value[..end.unwrap_or(u.value.len())]);
                text.ok().and_then(plain_uuid).ok_or(NOT_FOUND)?
            }
            2 => u.value[..16].iter().map(|b| format!("{b:02x}")).collect(),
            _ => return Err(INVALID_ARGUMENT),
        };
        // SAFETY: passed on to the caller.
        unsafe { found(out, |g| g.facts.uuid == wanted) }
    };
    code(machine::get().and_then(|_| look()))
}

/// The GPU at a place on the PCI bus.
///
/// # Safety
/// As the API says.
pub unsafe fn by_pci(bus_id: *const c_char, out: *mut Device) -> Return {
    // SAFETY: passed on to the caller.
    let look = || unsafe {
        let wanted = place::parse(text(bus_id)?).ok_or(INVALID_ARGUMENT)?;
        found(out, |g| g.facts.pci == Some(wanted))
    };
    code(machine::get().and_then(|_| look()))
}

/// The GPU with a serial number.
///
/// # Safety
/// As the API says.
pub unsafe fn by_serial(serial: *const c_char, out: *mut Device) -> Return {
    // SAFETY: passed on to the caller.
    let look = || unsafe {
        let wanted = text(serial)?;
        found(out, |g| {
            g.facts.texts.get("serial").is_some_and(|s| s == wanted)
        })
    };
    code(machine::get().and_then(|_| look()))
}

/// NVML's own tables of functions, which nothing here has. Success without a table would crash
/// those who ask.
///
/// # Safety
/// As the API says.
pub unsafe fn export_table(out: *mut *const c_void) -> Return {
    if !out.is_null() {
        // SAFETY: the caller's promise.
        unsafe { out.write(std::ptr::null()) };
    }
    NOT_FOUND
}
