//! What this process has of a device: the simulated driver knows, if it is here.

use super::state::Device;
use std::ffi::{CString, c_void};

type Taken = unsafe extern "C" fn(u32) -> u64;

/// The simulated driver's function, if this process has the driver.
fn function() -> Option<Taken> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let paths = maps
        .lines()
        .filter_map(|line| line.split_whitespace().nth(5));
    let mut libraries: Vec<_> = paths.filter(|p| p.contains("fakedev")).collect();
    libraries.dedup();
    let in_it = |path: &str| {
        let path = CString::new(path).ok()?;
        // SAFETY: C strings; nothing is loaded that is not there.
        let f = unsafe {
            let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD);
            if library.is_null() {
                return None;
            }
            libc::dlsym(library, c"fakedev_taken".as_ptr())
        };
        // SAFETY: the function has this type.
        (!f.is_null()).then(|| unsafe { std::mem::transmute::<*mut c_void, Taken>(f) })
    };
    libraries.into_iter().find_map(in_it)
}

/// How many bytes of a device it has.
pub fn taken(d: Device) -> Option<u64> {
    // SAFETY: a number.
    Some(unsafe { function()?(d as u32 - 1) })
}
