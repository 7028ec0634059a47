//! The driver that is loaded in this process, which is simulated, too: its device memory is memory.

use std::ffi::{CStr, c_void};

fn function(name: &CStr) -> *mut c_void {
    // SAFETY: the library is loaded already, and stays.
    unsafe {
        let lib = libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW);
        if lib.is_null() {
            return lib;
        }
        libc::dlsym(lib, name.as_ptr())
    }
}

/// The current device.
pub fn device() -> Option<i32> {
    let f = function(c"cuCtxGetDevice");
    let mut device = 0;
    // SAFETY: the function with its type, and a pointer to a live number.
    let rc = unsafe {
        std::mem::transmute::<*mut c_void, Option<extern "C" fn(*mut i32) -> i32>>(f)?(&mut device)
    };
    (rc == 0).then_some(device)
}

type Launch = extern "C" fn(*mut c_void, unsafe extern "C" fn(*mut c_void), *mut c_void) -> i32;

/// Has a stream run a function.
pub fn launch(
    stream: *mut c_void,
    run: unsafe extern "C" fn(*mut c_void),
    data: *mut c_void,
) -> Option<()> {
    let f = function(c"cuLaunchHostFunc");
    // SAFETY: the function with its type.
    let rc = unsafe { std::mem::transmute::<*mut c_void, Option<Launch>>(f)?(stream, run, data) };
    (rc == 0).then_some(())
}

type Allocate = extern "C" fn(*mut u64, usize) -> i32;

/// Device memory.
pub fn allocate(size: usize) -> Option<u64> {
    let f = function(c"cuMemAlloc_v2");
    let mut at = 0;
    // SAFETY: the function with its type, and a pointer to a live address.
    let rc = unsafe { std::mem::transmute::<*mut c_void, Option<Allocate>>(f)?(&mut at, size) };
    (rc == 0).then_some(at)
}

/// Gives that back.
pub fn free(at: u64) -> Option<()> {
    let f = function(c"cuMemFree_v2");
    // SAFETY: the function with its type.
    let rc =
        unsafe { std::mem::transmute::<*mut c_void, Option<extern "C" fn(u64) -> i32>>(f)?(at) };
    (rc == 0).then_some(())
}
