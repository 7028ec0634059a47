//! The server's OpenCL library, loaded at run time.

use super::generated::library::Library;
use super::prelude::*;
use std::ops::Deref;

/// A code as a result.
pub fn ok(code: i32) -> Result<(), i32> {
    match code {
        CL_SUCCESS => Ok(()),
        e => Err(e),
    }
}

// SAFETY: platforms are handles that any thread may use, and live as long as the library.
unsafe impl Send for Cl {}
// SAFETY: as above.
unsafe impl Sync for Cl {}

/// The library: its functions, of which one that it lacks answers `CL_INVALID_OPERATION`.
pub struct Cl {
    /// All platforms that there are.
    pub platforms: Vec<Handle>,
    library: Library,
}

impl Deref for Cl {
    type Target = Library;

    fn deref(&self) -> &Library {
        &self.library
    }
}

/// Stands for a function that the library lacks. As a pointer its answer is never used: callers
/// look at the code first, which is an error from the start.
unsafe extern "C" fn missing() -> isize {
    CL_INVALID_OPERATION as isize
}

/// A C string; empty for null.
///
/// # Safety
/// `p` is null or a C string.
pub unsafe fn text(p: *const c_char) -> String {
    if p.is_null() {
        return String::new();
    }
    // SAFETY: passed on to the caller.
    unsafe { CStr::from_ptr(p) }.to_string_lossy().into_owned()
}

/// Asks in two steps: for the size, then for the value.
pub fn ask(most: usize, f: impl Fn(usize, *mut c_void, *mut usize) -> i32) -> Result<Vec<u8>, i32> {
    let mut n = 0;
    match f(0, std::ptr::null_mut(), &raw mut n) {
        CL_SUCCESS if n <= most => {}
        CL_SUCCESS => return Err(CL_OUT_OF_HOST_MEMORY),
        e => return Err(e),
    }
    let mut v = vec![0u8; n];
    if n == 0 {
        return Ok(v);
    }
    match f(n, v.as_mut_ptr().cast(), &raw mut n) {
        CL_SUCCESS => {
            v.truncate(n);
            Ok(v)
        }
        e => Err(e),
    }
}

/// A function that answers questions about an object.
pub type Info = unsafe extern "C" fn(Handle, u32, usize, *mut c_void, *mut usize) -> i32;

/// The answer to one question about an object, unless it is longer than `most`.
pub fn info(f: Info, object: Handle, param: u32, most: usize) -> Result<Vec<u8>, i32> {
    // SAFETY: an object of the library, of the function's kind; `ask` gives matching sizes.
    ask(most, |n, v, r| unsafe { f(object, param, n, v, r) })
}

impl Cl {
    /// The functions that `find` finds by their names, and `platforms`.
    pub fn new(find: impl Fn(&CStr) -> *const c_void, platforms: Vec<Handle>) -> Self {
        let get = |name: &CStr| match find(name) {
            f if f.is_null() => missing as *const c_void,
            f => f,
        };
        // SAFETY: a function of the API has the type that the standard gives it; the stand-in takes
        // any arguments and leaves them alone.
        let library = unsafe { Library::load(get) };
        Self { platforms, library }
    }

    /// How far an event has come; an event that cannot be asked counts as failed.
    pub fn status(&self, event: Handle) -> i32 {
        let mut s = 0i32;
        let (param, at) = (CL_EVENT_COMMAND_EXECUTION_STATUS, (&raw mut s).cast());
        // SAFETY: the caller holds the event.
        let code = unsafe { (self.clGetEventInfo)(event, param, 4, at, std::ptr::null_mut()) };
        match code {
            CL_SUCCESS => s,
            e => e,
        }
    }

    /// When a command was queued, submitted, started, ended, and all that it started had ended.
    pub fn times(&self, event: Handle) -> Result<[u64; 5], i32> {
        let mut times = [0u64; 5];
        for (i, t) in times.iter_mut().enumerate() {
            let param = CL_PROFILING_COMMAND_QUEUED + i as u32;
            let at = std::ptr::from_mut(t).cast();
            // SAFETY: the caller holds the event; the place is ours.
            let code = unsafe {
                (self.clGetEventProfilingInfo)(event, param, 8, at, std::ptr::null_mut())
            };
            // The last one came with OpenCL 2.0.
            if i < 4 && code != CL_SUCCESS {
                return Err(code);
            }
        }
        if times[4] == 0 {
            times[4] = times[3];
        }
        Ok(times)
    }
}

/// Makes an object, unless the library says why not.
pub fn make(f: impl FnOnce(*mut i32) -> Handle) -> Result<Handle, i32> {
    let mut code = CL_INVALID_OPERATION;
    let made = f(&raw mut code);
    ok(code).map(|()| made)
}
