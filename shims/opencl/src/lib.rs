//! The OpenCL driver that the system's loader loads: three exported symbols, nothing else.

#![deny(clippy::print_stdout, clippy::print_stderr, clippy::exit)]

use busbar_abi::opencl::Handle;
use busbar_client::opencl::{dispatch, platform};
use std::ffi::{c_char, c_void};

/// How the loader finds everything else.
///
/// # Safety
/// As the API says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clGetExtensionFunctionAddress(name: *const c_char) -> *const c_void {
    // SAFETY: passed on to the caller.
    unsafe { dispatch::get_extension_function_address(name) }
}

/// The platforms, asked by the loader.
///
/// # Safety
/// As the API says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clIcdGetPlatformIDsKHR(
    room: u32,
    platforms: *mut Handle,
    count: *mut u32,
) -> i32 {
    // SAFETY: passed on to the caller.
    unsafe { platform::get_platform_ids(room, platforms, count) }
}

/// A query that some loaders make before they know a platform.
///
/// # Safety
/// As the API says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clGetPlatformInfo(
    platform: Handle,
    param: u32,
    size: usize,
    value: Handle,
    ret: *mut usize,
) -> i32 {
    // SAFETY: passed on to the caller.
    unsafe { platform::get_platform_info(platform, param, size, value, ret) }
}
