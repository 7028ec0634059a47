//! Initialization, versions, error texts and entry points.

use super::prelude::*;
use crate::cuda::generated::procs::PROC_TABLE;
use crate::cuda::life;
use crate::cuda::life::{enter_local_in_functions, guard};
use std::ffi::CString;

pub unsafe fn cuInit(flags: u32) -> CUresult {
    guard(|| {
        refuse_if(flags != 0, CUDA_ERROR_INVALID_VALUE)?;
        life::init()
    })
}

/// What is answered before a server has told its version: the newest that this client knows.
const DRIVER_VERSION: i32 = 13000;

pub unsafe fn cuDriverGetVersion(version: *mut i32) -> CUresult {
    guard(|| {
        let v = enter_local_in_functions().map_or(DRIVER_VERSION, |cx| cx.client.driver_version);
        // SAFETY: the program's pointer.
        unsafe { put(version, v) }
    })
}

/// What the server's driver calls an error that this client does not know, and its text.
fn told(error: CUresult) -> Option<&'static (CString, CString)> {
    // Codes of CUDA's are small: a program that tries them all asks for no more than these.
    if !(1..1000).contains(&error) {
        return None;
    }
    let cx = enter_local_in_functions().ok()?;
    let known = || lock(&cx.state().error_texts);
    if let Some(t) = known().get(&error) {
        return Some(t);
    }
    let reply = cx.cached(&msg::ErrorText { error }).ok()?;
    let r = decode::<msg::ErrorTextReply>(&reply).ok()?;
    let name = CString::new(r.name).ok().filter(|n| !n.is_empty())?;
    let text = CString::new(r.text).ok()?;
    // They live as long as the process, as the program may take for granted.
    Some(
        *known()
            .entry(error)
            .or_insert_with(|| Box::leak(Box::new((name, text)))),
    )
}

fn text(
    error: CUresult,
    out: *mut *const c_char,
    of: fn(CUresult) -> Option<&'static CStr>,
    of_told: fn(&(CString, CString)) -> &CStr,
) -> CUresult {
    guard(|| {
        let found = of(error).or_else(|| told(error).map(of_told));
        let p = found.map_or(std::ptr::null(), CStr::as_ptr);
        // SAFETY: the program's pointer.
        unsafe { put(out, p) }?;
        found.map(drop).ok_or(CUDA_ERROR_INVALID_VALUE)
    })
}

pub unsafe fn cuGetErrorName(error: CUresult, out: *mut *const c_char) -> CUresult {
    text(error, out, error_name, |t| &t.0)
}

pub unsafe fn cuGetErrorString(error: CUresult, out: *mut *const c_char) -> CUresult {
    text(error, out, error_description, |t| &t.1)
}

/// `CU_GET_PROC_ADDRESS_LEGACY_STREAM`.
const LEGACY: u64 = 1;
/// `CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM`.
const PER_THREAD: u64 = 2;

/// The entry point of `name` as a program built against CUDA `version` knows it: of all signatures
/// that the name has had, the newest that is not newer than the program.
fn find(name: &CStr, version: i32, flags: u64) -> Result<*const (), bool> {
    let Ok(name) = name.to_str() else {
        return Err(false);
    };
    let from = PROC_TABLE.partition_point(|p| p.name < name);
    let to = PROC_TABLE.partition_point(|p| p.name <= name);
    let all = &PROC_TABLE[from..to];
    let known = !all.is_empty();
    let best = all
        .iter()
        .rev()
        .find(|p| i64::from(p.version) <= i64::from(version));
    match best {
        Some(p) if flags & PER_THREAD != 0 => Ok(p.per_thread),
        Some(p) => Ok(p.plain),
        None => Err(known),
    }
}

/// Looks a function up, and tells how that went.
unsafe fn lookup(
    symbol: *const c_char,
    pfn: *mut *mut c_void,
    version: i32,
    flags: u64,
) -> Result<u32> {
    if symbol.is_null() || pfn.is_null() || flags & !(LEGACY | PER_THREAD) != 0 {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    // What is asked before there is a server may be for one that is newer than this client.
    if enter_local_in_functions().is_ok_and(|cx| version > cx.client.driver_version) {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: the program's C string.
    let name = unsafe { CStr::from_ptr(symbol) };
    let (found, how) = match find(name, version, flags) {
        Ok(p) => (p, CU_GET_PROC_ADDRESS_SUCCESS),
        Err(true) => (std::ptr::null(), CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT),
        Err(false) => (std::ptr::null(), CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND),
    };
    if found.is_null() {
        crate::log!(Debug, "no entry point {name:?} for CUDA {version}");
    }
    // SAFETY: the program's pointer.
    unsafe { put(pfn, found.cast_mut().cast())? };
    Ok(how)
}

pub unsafe fn cuGetProcAddress(
    symbol: *const c_char,
    pfn: *mut *mut c_void,
    version: i32,
    flags: u64,
) -> CUresult {
    // SAFETY: passed on to the caller.
    guard(|| match unsafe { lookup(symbol, pfn, version, flags)? } {
        CU_GET_PROC_ADDRESS_SUCCESS => Ok(()),
        _ => Err(CUDA_ERROR_NOT_FOUND),
    })
}

pub unsafe fn cuGetProcAddress_v2(
    symbol: *const c_char,
    pfn: *mut *mut c_void,
    version: i32,
    flags: u64,
    status: *mut CUdriverProcAddressQueryResult,
) -> CUresult {
    guard(|| {
        // The status says what the first version of this function says with its result.
        // SAFETY: passed on to the caller.
        let how = unsafe { lookup(symbol, pfn, version, flags)? };
        // SAFETY: the program's pointer, which it need not give.
        unsafe { put_opt(status, how as CUdriverProcAddressQueryResult) };
        Ok(())
    })
}
