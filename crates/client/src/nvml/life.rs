//! What every call goes through: it begins, its outcome becomes a code, and no panic passes into
//! the program.

use super::machine::{self, Gpu, Machine};
use busbar_abi::nvml::*;
use std::ffi::c_char;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A call in progress: what the server said.
#[derive(Clone, Copy)]
pub struct Cx(pub &'static Machine);

/// What handles name.
pub enum Kind {
    /// A GPU.
    Device,
}

/// Begins a call. Fails before `nvmlInit`.
pub fn enter() -> Result<Cx> {
    machine::get().map(Cx)
}

impl Cx {
    /// The GPU behind a handle.
    pub fn handle(self, _kind: Kind, raw: u64) -> Result<&'static Gpu> {
        self.0.device(raw as nvmlDevice_t)
    }

    /// The answer of a call that only whoever administers the device may make.
    pub fn forbidden(self, name: &'static str, reason: &'static str) -> nvmlReturn_t {
        crate::log!(Info, "{name} is not permitted: {reason}");
        NVML_ERROR_NO_PERMISSION
    }
}

/// Runs a call's body.
pub fn guard(f: impl FnOnce() -> Result) -> nvmlReturn_t {
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(done) => done.err().unwrap_or(NVML_SUCCESS),
        Err(_) => {
            crate::log!(Error, "a bug in Busbar: a call of NVML panicked");
            NVML_ERROR_UNKNOWN
        }
    }
}

/// The answer of a call that is refused. What cannot be answered is asked again and again by
/// programs that monitor, so that only who looks for it finds it in the log.
pub fn unsupported(name: &'static str, reason: &'static str) -> nvmlReturn_t {
    guard(|| {
        enter()?;
        crate::log!(Info, "{name} is not supported: {reason}");
        Err(NVML_ERROR_NOT_SUPPORTED)
    })
}

/// Stores a text with its NUL.
///
/// # Safety
/// `out` is null or points to `room` bytes.
pub unsafe fn put_text(out: *mut c_char, room: u32, text: &str) -> Result {
    refuse_if(out.is_null(), NVML_ERROR_INVALID_ARGUMENT)?;
    refuse_if(text.len() >= room as usize, NVML_ERROR_INSUFFICIENT_SIZE)?;
    // SAFETY: the caller's promise; text and NUL fit.
    unsafe {
        out.cast::<u8>()
            .copy_from_nonoverlapping(text.as_ptr(), text.len());
        out.add(text.len()).write(0);
    }
    Ok(())
}

/// Stores a list where there is room for `*count`; that says how many there are.
///
/// # Safety
/// `count` is null or valid, and `out` is null or has room for so many.
pub unsafe fn put_list<T: Copy>(list: &[T], count: *mut u32, out: *mut T) -> Result {
    refuse_if(count.is_null(), NVML_ERROR_INVALID_ARGUMENT)?;
    // SAFETY: the caller's promise.
    unsafe {
        let room = count.replace(list.len() as u32);
        if (room as usize) < list.len() {
            return Err(NVML_ERROR_INSUFFICIENT_SIZE);
        }
        refuse_if(
            out.is_null() && !list.is_empty(),
            NVML_ERROR_INVALID_ARGUMENT,
        )?;
        out.copy_from(list.as_ptr(), list.len());
    }
    Ok(())
}

/// Checks that a structure of the program is of the version that it should be.
///
/// # Safety
/// `p` is null or points to a word, behind which there is a `T` if it is that one's version.
pub unsafe fn check_version<T>(p: *const T, number: u32) -> Result {
    refuse_if(p.is_null(), NVML_ERROR_INVALID_ARGUMENT)?;
    // SAFETY: the caller's promise: the version comes first.
    let version = unsafe { p.cast::<u32>().read() };
    let expected = size_of::<T>() as u32 | number << 24;
    refuse_if(version != expected, NVML_ERROR_ARGUMENT_VERSION_MISMATCH)
}

/// A structure of the program's that is to be filled, if it is of that version.
///
/// # Safety
/// As for [`check_version`], and nobody else uses the structure meanwhile.
pub unsafe fn versioned<'a, T>(p: *mut T, number: u32) -> Result<&'a mut T> {
    // SAFETY: passed on to the caller.
    unsafe {
        check_version(p, number)?;
        Ok(&mut *p)
    }
}
