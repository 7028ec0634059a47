//! `cuGetProcAddress`: functions by base name, API version and default stream.

use crate::entry::api;
use crate::ffi::*;
use crate::state::device::DRIVER_VERSION;
use std::ffi::{c_char, c_void};

struct Entry {
    version: u32,
    thread: bool,
    f: unsafe extern "C" fn(),
}

include!(concat!(env!("OUT_DIR"), "/symbols.rs"));

const PER_THREAD: u64 = 2;
const FOUND: i32 = 0;
const NO_SYMBOL: i32 = 1;
const TOO_OLD: i32 = 2;

/// The function, and how the search went.
fn find(name: &str, version: i32, flags: u64) -> (*mut c_void, i32) {
    let Ok(place) = BASES.binary_search_by(|(base, _)| (*base).cmp(name)) else {
        return (std::ptr::null_mut(), NO_SYMBOL);
    };
    let newest = |thread: bool| {
        let fits = |entry: &&Entry| entry.thread == thread && entry.version as i32 <= version;
        BASES[place].1.iter().rev().find(fits)
    };
    let entry = if flags & PER_THREAD != 0 {
        newest(true)
    } else {
        None
    };
    match entry.or_else(|| newest(false)) {
        Some(entry) => (entry.f as *mut c_void, FOUND),
        None => (std::ptr::null_mut(), TOO_OLD),
    }
}

unsafe fn answer(
    name: *const c_char,
    out: *mut *mut c_void,
    version: i32,
    flags: u64,
    status: *mut i32,
) -> Res {
    // SAFETY: the caller gives a C string and pointers that are null or valid.
    unsafe {
        let name = text(name)?;
        if out.is_null() || flags > 3 || version > DRIVER_VERSION {
            return Err(INVALID_VALUE);
        }
        let (f, how) = find(name, version, flags);
        put_opt(status, how);
        put(out, f)
    }
}

api! {
    fn [cuGetProcAddress] (name: *const c_char, out: *mut *mut c_void, version: i32, flags: u64) {
        answer(name, out, version, flags, std::ptr::null_mut())?;
        if get(out)?.is_null() { Err(NOT_FOUND) } else { Ok(()) }
    }

    fn [cuGetProcAddress_v2] (
        name: *const c_char, out: *mut *mut c_void, version: i32, flags: u64, status: *mut i32,
    ) {
        answer(name, out, version, flags, status)
    }
}
