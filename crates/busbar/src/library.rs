//! A library whose functions are called as a program calls them, by their names.

use anyhow::{Result, bail};
use std::ffi::{CStr, CString, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// See the module.
pub struct Library(*mut c_void);

impl Library {
    /// Opens one: what a path names, or what the loader finds by its name alone.
    pub fn open(path: &Path) -> Result<Self> {
        let name = CString::new(path.as_os_str().as_bytes())?;
        // SAFETY: a C string; the library is this tree's own.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW) };
        if handle.is_null() {
            // SAFETY: the loader's own text, right behind its failure.
            let why = unsafe { CStr::from_ptr(libc::dlerror()) };
            bail!("cannot load {}: {}", path.display(), why.to_string_lossy());
        }
        Ok(Self(handle))
    }

    /// A function by its name.
    ///
    /// # Safety
    /// `F` is the type of a pointer to a function with the signature of that name.
    pub unsafe fn function<F: Copy>(&self, name: &CStr) -> Result<F> {
        // SAFETY: a library that is open, and a C string.
        let at = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        if at.is_null() {
            bail!("the library has no {}", name.to_string_lossy());
        }
        // SAFETY: passed on to the caller; a pointer to a function is as long as any.
        Ok(unsafe { std::mem::transmute_copy(&at) })
    }
}
