//! NVML's library.

use std::ffi::{CStr, c_void};

/// What NVML knows a device by.
pub(super) type Handle = *mut c_void;

/// NVML, loaded and initialized.
pub(super) struct Nvml {
    library: libloading::Library,
}

impl Nvml {
    pub fn load(path: Option<&str>) -> Result<Self, String> {
        let name = path.unwrap_or("libnvidia-ml.so.1");
        // SAFETY: loading NVML runs its initializers, as any monitoring program does.
        let library =
            unsafe { libloading::Library::new(name) }.map_err(|e| format!("no NVML here ({e})"))?;
        let me = Self { library };
        type Init = unsafe extern "C" fn() -> u32;
        let init: Option<Init> = me.find(c"nvmlInit_v2");
        // SAFETY: the first call of the API, which takes nothing.
        match init.map(|f| unsafe { f() }) {
            Some(0) => Ok(me),
            Some(rc) => Err(format!("NVML does not start: error {rc}")),
            None => Err(format!("{name} is no NVML")),
        }
    }

    /// A function by name. `F` is the type that `nvml.h` gives it.
    pub fn find<F: Copy>(&self, name: &CStr) -> Option<F> {
        // SAFETY: the type is the caller's business; all of them are private to the folder.
        unsafe { self.library.get::<F>(name.to_bytes_with_nul()) }
            .ok()
            .map(|s| *s)
    }
}
