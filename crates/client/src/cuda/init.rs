//! Initialization, versions, error texts and entry points.

use super::generated::procs::PROC_TABLE;
use super::runtime::{self, enter_local, guard, put, put_opt};
use busbar_abi::cuda::*;
use std::ffi::{CStr, c_char, c_void};

pub(super) unsafe fn cuInit(flags: u32) -> CUresult {
    guard(|| {
        if flags != 0 {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        runtime::init()
    })
}

/// What is answered before a server has told its version: the newest that this client knows.
const DRIVER_VERSION: i32 = 13000;

pub(super) unsafe fn cuDriverGetVersion(version: *mut i32) -> CUresult {
    guard(|| {
        let v = enter_local().map_or(DRIVER_VERSION, |cx| cx.rt.driver_version);
        // SAFETY: the program's pointer.
        unsafe { put(version, v) }
    })
}

fn text(
    error: CUresult,
    out: *mut *const c_char,
    of: fn(CUresult) -> Option<&'static CStr>,
) -> CUresult {
    guard(|| {
        let found = of(error);
        let p = found.map_or(std::ptr::null(), CStr::as_ptr);
        // SAFETY: the program's pointer.
        unsafe { put(out, p) }?;
        found.map(drop).ok_or(CUDA_ERROR_INVALID_VALUE)
    })
}

pub(super) unsafe fn cuGetErrorName(error: CUresult, out: *mut *const c_char) -> CUresult {
    text(error, out, error_name)
}

pub(super) unsafe fn cuGetErrorString(error: CUresult, out: *mut *const c_char) -> CUresult {
    text(error, out, error_description)
}

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

unsafe fn lookup(
    symbol: *const c_char,
    pfn: *mut *mut c_void,
    version: i32,
    flags: u64,
    status: *mut CUdriverProcAddressQueryResult,
) -> CUresult {
    guard(|| {
        if symbol.is_null() || pfn.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        // SAFETY: the program's C string.
        let name = unsafe { CStr::from_ptr(symbol) };
        let (found, how) = match find(name, version, flags) {
            Ok(p) => (p, CU_GET_PROC_ADDRESS_SUCCESS),
            Err(true) => (std::ptr::null(), CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT),
            Err(false) => (std::ptr::null(), CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND),
        };
        // SAFETY: the program's pointers.
        unsafe {
            put_opt(status, how as CUdriverProcAddressQueryResult);
            put(pfn, found.cast_mut().cast())?;
        }
        if found.is_null() {
            crate::log!(Debug, "no entry point {name:?} for CUDA {version}");
        }
        // The second version says in `status` what the first says with its result.
        if found.is_null() && status.is_null() {
            Err(CUDA_ERROR_NOT_FOUND)
        } else {
            Ok(())
        }
    })
}

pub(super) unsafe fn cuGetProcAddress(
    symbol: *const c_char,
    pfn: *mut *mut c_void,
    version: i32,
    flags: u64,
) -> CUresult {
    // SAFETY: passed on to the caller.
    unsafe { lookup(symbol, pfn, version, flags, std::ptr::null_mut()) }
}

pub(super) unsafe fn cuGetProcAddress_v2(
    symbol: *const c_char,
    pfn: *mut *mut c_void,
    version: i32,
    flags: u64,
    status: *mut CUdriverProcAddressQueryResult,
) -> CUresult {
    // SAFETY: passed on to the caller.
    unsafe { lookup(symbol, pfn, version, flags, status) }
}
