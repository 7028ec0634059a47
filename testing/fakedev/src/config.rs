//! Settings: environment variables, or set by a test before the first driver call.

use std::collections::HashMap;
use std::ffi::{CStr, c_char};
use std::sync::Mutex;

static SET: Mutex<Option<HashMap<String, String>>> = Mutex::new(None);

/// The value of a setting: what [`fakedev_set`] gave, else the environment's.
pub fn get(name: &str) -> Option<String> {
    let set = SET.lock().unwrap();
    set.as_ref()
        .and_then(|set| set.get(name).cloned())
        .or_else(|| std::env::var(name).ok())
}

/// A setting that is a number.
pub fn number(name: &str) -> Option<u64> {
    get(name)?.trim().parse().ok()
}

/// Sets a setting as if it were in the environment, for this loaded copy of the library only.
/// Settings are read at the first use, so a program calls this before its first driver call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fakedev_set(name: *const c_char, value: *const c_char) {
    if name.is_null() || value.is_null() {
        return;
    }
    // SAFETY: the caller gives two C strings.
    let (name, value) = unsafe { (CStr::from_ptr(name), CStr::from_ptr(value)) };
    SET.lock().unwrap().get_or_insert_default().insert(
        name.to_string_lossy().into_owned(),
        value.to_string_lossy().into_owned(),
    );
}
