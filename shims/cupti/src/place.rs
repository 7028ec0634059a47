//! Where the functions are that answer: in Busbar's `libcuda.so.1`.

use busbar_abi::cupti::{CUPTI_ERROR_NOT_INITIALIZED, CUPTI_ERROR_NOT_SUPPORTED, CUptiResult};
use busbar_abi::cupti::{Find, UUID};
use std::ffi::{CStr, c_int, c_void};
use std::mem::transmute;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering};

/// The driver's function that gives tables of functions by their UUIDs.
type GetExportTable = unsafe extern "C" fn(*mut *const c_void, *const [u8; 16]) -> c_int;

/// The session's [`Find`], once it is known; null before that.
static FIND: AtomicPtr<c_void> = AtomicPtr::new(null_mut());

/// Looks for [`Find`]. A process without our driver has none: it may be a child that has left our
/// folders. The program may load the driver later, so that is not kept.
fn find() -> Option<Find> {
    let mut known = FIND.load(Ordering::Acquire);
    if known.is_null() {
        known = table()?.cast_mut();
        FIND.store(known, Ordering::Release);
    }
    // SAFETY: the table of this UUID is a function of this type.
    Some(unsafe { transmute::<*mut c_void, Find>(known) })
}

/// What the driver has for our UUID. NVIDIA's refuses it.
fn table() -> Option<*const c_void> {
    let name = c"libcuda.so.1".as_ptr();
    // SAFETY: C strings. The driver is ours or the machine's own; either may be loaded, and is
    // never unloaded by us. The one that the program has comes first.
    let get = unsafe {
        let mut driver = libc::dlopen(name, libc::RTLD_NOW | libc::RTLD_NOLOAD);
        if driver.is_null() {
            driver = libc::dlopen(name, libc::RTLD_NOW);
        }
        if driver.is_null() {
            return None;
        }
        libc::dlsym(driver, c"cuGetExportTable".as_ptr())
    };
    if get.is_null() {
        return None;
    }
    let mut table = null();
    // SAFETY: the driver's function has this signature.
    let said = unsafe { transmute::<*mut c_void, GetExportTable>(get)(&raw mut table, &UUID) };
    (said == 0 && !table.is_null()).then_some(table)
}

/// A function that is looked for when it is first called.
pub struct Place(AtomicPtr<c_void>);

impl Place {
    pub const fn new() -> Self {
        Self(AtomicPtr::new(null_mut()))
    }

    /// Its address, or what to return instead.
    pub fn find(&self, name: &CStr) -> Result<*const c_void, CUptiResult> {
        let known = self.0.load(Ordering::Acquire);
        if !known.is_null() {
            return Ok(known);
        }
        let find = find().ok_or(CUPTI_ERROR_NOT_INITIALIZED)?;
        // SAFETY: a C string.
        let found = unsafe { find(name.as_ptr()) };
        if found.is_null() {
            return Err(CUPTI_ERROR_NOT_SUPPORTED);
        }
        self.0.store(found.cast_mut(), Ordering::Release);
        Ok(found)
    }
}
