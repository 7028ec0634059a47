//! The time of day as people here read it.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::time::{SystemTime, UNIX_EPOCH};

/// Now, as `strftime` writes it, and the milliseconds.
fn now(format: &CStr) -> (String, u32) {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let since = since.unwrap_or_default();
    let seconds = since.as_secs() as libc::time_t;
    let (mut out, mut local) = ([0u8; 64], MaybeUninit::<libc::tm>::zeroed());
    // SAFETY: a time, and a place for what it is here; zeros are good there.
    let local = unsafe {
        libc::localtime_r(&seconds, local.as_mut_ptr());
        local.assume_init()
    };
    // SAFETY: as many bytes as are said, and a text with its end.
    let n = unsafe { libc::strftime(out.as_mut_ptr().cast(), out.len(), format.as_ptr(), &local) };
    let text = String::from_utf8_lossy(&out[..n.min(out.len())]).into_owned();
    (text, since.subsec_millis())
}

/// `Tue Nov 24 12:27:16 2026`.
pub fn long() -> String {
    now(c"%a %b %e %H:%M:%S %Y").0
}

/// `2026/11/24 12:27:16.042`.
pub fn short() -> String {
    let (text, ms) = now(c"%Y/%m/%d %H:%M:%S");
    format!("{text}.{ms:03}")
}

/// `20261124` and `12:27:16`.
pub fn stamps() -> (String, String) {
    let (text, _) = now(c"%Y%m%d %H:%M:%S");
    let (date, time) = text.split_once(' ').unwrap_or_default();
    (date.into(), time.into())
}
