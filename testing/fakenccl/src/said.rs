//! What went wrong last.

use std::ffi::c_char;
use std::sync::{Mutex, PoisonError};

static SAID: Mutex<[u8; 256]> = Mutex::new([0; 256]);

/// Notes what went wrong.
pub fn say(why: &str) {
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    said.fill(0);
    said[..why.len()].copy_from_slice(why.as_bytes());
}

/// What went wrong last, as a C string.
pub fn last() -> *const c_char {
    let said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    said.as_ptr().cast()
}
