//! The edge between C and Rust: results become codes here, and nowhere else.

use busbar_abi::opencl::*;
use std::ffi::CStr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

/// What a call comes to.
pub type Result<T> = std::result::Result<T, i32>;

static FORKED: AtomicBool = AtomicBool::new(false);

/// This process is the child of a fork: the session and its threads stayed with the parent.
pub fn forked() {
    FORKED.store(true, Ordering::Relaxed);
}

/// Whether this process is the child of a fork.
pub fn is_forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}

fn guarded<T>(f: impl FnOnce() -> Result<T>) -> Result<T> {
    if is_forked() {
        return Err(CL_OUT_OF_RESOURCES);
    }
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|_| {
        crate::log!(Error, "a call failed inside the client; this is a bug");
        Err(CL_OUT_OF_HOST_MEMORY)
    })
}

/// Runs a call that returns a code.
#[inline]
pub fn status(f: impl FnOnce() -> Result<()>) -> i32 {
    guarded(f).err().unwrap_or(CL_SUCCESS)
}

/// Runs a call that returns a pointer and stores its code.
///
/// # Safety
/// `code` is null or writable.
pub unsafe fn object<T>(code: *mut i32, f: impl FnOnce() -> Result<*mut T>) -> *mut T {
    let (result, value) = match guarded(f) {
        Ok(p) => (CL_SUCCESS, p),
        Err(e) => (e, std::ptr::null_mut()),
    };
    // SAFETY: passed on to the caller.
    unsafe { put(code, result) };
    value
}

/// Stores through a pointer that may be null.
///
/// # Safety
/// `to` is null or writable.
#[inline]
pub unsafe fn put<T>(to: *mut T, value: T) {
    if !to.is_null() {
        // SAFETY: passed on to the caller.
        unsafe { to.write_unaligned(value) };
    }
}

/// Answers a query with bytes.
///
/// # Safety
/// `value` is null or has `size` writable bytes; `ret` is null or writable.
pub unsafe fn answer(bytes: &[u8], size: usize, value: Handle, ret: *mut usize) -> Result<()> {
    if !value.is_null() {
        if size < bytes.len() {
            return Err(CL_INVALID_VALUE);
        }
        // SAFETY: the caller vouches for `size` writable bytes.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), value.cast(), bytes.len()) };
    }
    // SAFETY: passed on to the caller.
    unsafe { put(ret, bytes.len()) };
    Ok(())
}

/// Values as their bytes, for [`answer`].
pub trait Plain {
    /// The bytes, as C would lay them out.
    fn plain(&self) -> Vec<u8>;
}

macro_rules! plain {
    ($($t:ty),*) => {$(
        impl Plain for $t {
            fn plain(&self) -> Vec<u8> {
                self.to_ne_bytes().to_vec()
            }
        }
    )*};
}

plain!(u8, u32, i32, u64, usize);

impl Plain for bool {
    fn plain(&self) -> Vec<u8> {
        u32::from(*self).plain()
    }
}

impl Plain for Handle {
    fn plain(&self) -> Vec<u8> {
        (*self as usize).plain()
    }
}

impl Plain for str {
    fn plain(&self) -> Vec<u8> {
        let mut v = self.as_bytes().to_vec();
        v.push(0);
        v
    }
}

impl<T: Plain> Plain for [T] {
    fn plain(&self) -> Vec<u8> {
        self.iter().flat_map(Plain::plain).collect()
    }
}

/// A list that a program passes as count and pointer; empty when the pointer is null.
///
/// # Safety
/// `list` is null or has `n` readable items that outlive `'a`.
pub unsafe fn list<'a, T>(n: u32, list: *const T) -> &'a [T] {
    if list.is_null() {
        return &[];
    }
    // SAFETY: passed on to the caller.
    unsafe { std::slice::from_raw_parts(list, n as usize) }
}

/// Three sizes behind a pointer, or the error for a null pointer.
///
/// # Safety
/// `p` is null or has three readable items.
pub unsafe fn three(p: *const usize) -> Result<[u64; 3]> {
    if p.is_null() {
        return Err(CL_INVALID_VALUE);
    }
    // SAFETY: passed on to the caller.
    let v = unsafe { std::slice::from_raw_parts(p, 3) };
    Ok([v[0] as u64, v[1] as u64, v[2] as u64])
}

/// A C string, lossily; empty for null.
///
/// # Safety
/// `p` is null or a C string.
pub unsafe fn text(p: *const libc::c_char) -> String {
    if p.is_null() {
        return String::new();
    }
    // SAFETY: passed on to the caller.
    unsafe { CStr::from_ptr(p) }.to_string_lossy().into_owned()
}

/// A list of properties that ends in zero, with the zero; empty for null.
///
/// # Safety
/// `p` is null or a list of pairs that ends in a zero.
pub unsafe fn properties(p: *const u64) -> Result<Vec<u64>> {
    let mut v = Vec::new();
    if p.is_null() {
        return Ok(v);
    }
    for i in 0.. {
        // SAFETY: the list goes on until its zero.
        unsafe {
            let key = p.add(2 * i).read_unaligned();
            v.push(key);
            if key == 0 {
                break;
            }
            v.push(p.add(2 * i + 1).read_unaligned());
        }
        if i > 64 {
            return Err(CL_INVALID_PROPERTY);
        }
    }
    Ok(v)
}
