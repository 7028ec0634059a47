//! NVML, the library that monitoring tools and frameworks ask about GPUs, answered from the status
//! of a Busbar server. No session is opened.
//!
//! [`machine`] holds what the server said and asks again, [`device`] and [`system`] are the calls,
//! [`types`] the structures of `nvml.h`. What the server does not know is answered with
//! [`NOT_SUPPORTED`]; nothing is made up.

// Functions of the API keep their C names.
#![allow(non_snake_case)]

pub mod device;
pub mod machine;
mod place;
pub mod system;
pub mod types;

use std::ffi::c_char;

/// What NVML functions return.
pub type Return = u32;
/// A device's handle.
pub type Device = *const machine::Gpu;

/// Done.
pub const SUCCESS: Return = 0;
/// `nvmlInit` has not been called.
pub const UNINITIALIZED: Return = 1;
/// An argument is not valid.
pub const INVALID_ARGUMENT: Return = 2;
/// The device cannot do it, or the server does not know it.
pub const NOT_SUPPORTED: Return = 3;
/// There is no such device.
pub const NOT_FOUND: Return = 6;
/// The buffer is too small.
pub const INSUFFICIENT_SIZE: Return = 7;
/// No server can be reached, or it has no GPU.
pub const DRIVER_NOT_LOADED: Return = 9;
/// The server cannot be reached any more.
pub const GPU_IS_LOST: Return = 15;
/// The structure's version is not one that is known.
pub const ARGUMENT_VERSION_MISMATCH: Return = 25;

/// A call's outcome, before it becomes a code.
pub(crate) type Outcome = Result<(), Return>;

/// The code of an outcome.
pub(crate) fn code(o: Outcome) -> Return {
    o.err().unwrap_or(SUCCESS)
}

/// Stores `value` where the program wants it.
///
/// # Safety
/// `out` is null or points to room for a `T`.
pub(crate) unsafe fn put<T>(out: *mut T, value: T) -> Outcome {
    if out.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    // SAFETY: the caller's promise; C gives no more alignment than the type's own.
    unsafe { out.write(value) };
    Ok(())
}

/// Stores a text with its NUL.
///
/// # Safety
/// `out` is null or points to `room` bytes.
pub(crate) unsafe fn put_text(out: *mut c_char, room: u32, text: &str) -> Outcome {
    if out.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    if text.len() >= room as usize {
        return Err(INSUFFICIENT_SIZE);
    }
    // SAFETY: the caller's promise; text and NUL fit.
    unsafe {
        out.cast::<u8>()
            .copy_from_nonoverlapping(text.as_ptr(), text.len());
        out.add(text.len()).write(0);
    }
    Ok(())
}

/// Answers for a function that has nothing to offer here.
pub fn unsupported() -> Return {
    code(machine::get().and(Err(NOT_SUPPORTED)))
}
