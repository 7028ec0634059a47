//! The OpenCL driver: three symbols for the system's loader, and all that a loader exports, so that
//! it is the loader where a machine has none that would find it.

#![deny(clippy::print_stdout, clippy::print_stderr, clippy::exit)]

mod generated;

use busbar_abi::opencl::Handle;
use busbar_client::opencl::generated::platform;

/// The platforms, asked by a loader.
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
    unsafe { platform::clIcdGetPlatformIDsKHR(room, platforms, count) }
}
