//! The log of errors: one line for each call that failed, for who asks and for who listens.

use super::{errors, stream};
use crate::ffi::*;
use std::collections::VecDeque;
use std::ffi::{CStr, c_char, c_void};
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

/// Lines that are kept, as the real driver's.
const KEPT: usize = 100;
/// At the head of a dump that had no room for all.
pub const CUT: &str = "Older messages are left out.\n";
const LEVEL_ERROR: u32 = 0;

/// What a listener is called by.
pub type Callback = unsafe extern "C" fn(*mut c_void, u32, *mut c_char, usize);

/// The log.
pub struct Log {
    /// The last lines.
    pub lines: VecDeque<String>,
    /// The number of the next line; that of the first kept follows.
    pub next: u32,
    /// Listeners, by the handles that programs know them by.
    pub listeners: Vec<(usize, Callback, usize)>,
    /// The handle of the last listener.
    pub handle: usize,
}

/// The log.
pub static LOG: Mutex<Log> = Mutex::new(Log {
    lines: VecDeque::new(),
    next: 0,
    listeners: Vec::new(),
    handle: 0,
});

/// As it was at first.
pub fn reset() {
    *LOG.lock().unwrap() = Log {
        lines: VecDeque::new(),
        next: 0,
        listeners: Vec::new(),
        handle: 0,
    };
}

/// A call has failed.
pub fn failed(function: &str, code: CUresult) {
    // Work that is still under way is no error.
    if code == NOT_READY {
        return;
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    // Without threads time stands still.
    let now = now.ok().filter(|_| !stream::alone());
    let ms = now.map_or(0, |t| t.as_millis() % 86_400_000);
    let (h, m, s) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
    // SAFETY: no preconditions.
    let tid = unsafe { libc::syscall(libc::SYS_gettid) };
    let name = errors::name(code).map_or_else(|_| "?".into(), CStr::to_string_lossy);
    let message = format!("Returning {code} ({name}) from {function}");
    let head = format!("[{h:02}:{m:02}:{s:02}.{:03}][{tid}][CUDA][E]", ms % 1000);
    let listeners = {
        let mut log = LOG.lock().unwrap();
        if log.lines.len() == KEPT {
            log.lines.pop_front();
        }
        log.lines.push_back(format!("{head} {message}\n"));
        log.next = log.next.wrapping_add(1);
        log.listeners.clone()
    };
    for (_, f, user) in listeners {
        let mut text = format!("{message}\0").into_bytes();
        let p = text.as_mut_ptr().cast();
        // SAFETY: the program gave this function to be called so; the text ends in a zero.
        unsafe { f(user as *mut c_void, LEVEL_ERROR, p, message.len()) };
    }
}

/// The lines from an iterator on, which is moved behind the last.
///
/// # Safety
/// The pointer is null or valid.
pub unsafe fn take(iterator: *mut u32) -> (Vec<String>, u32) {
    let log = LOG.lock().unwrap();
    let from = if iterator.is_null() {
        0
    } else {
        // SAFETY: not null, and valid by the caller's contract.
        let at = unsafe { iterator.read_unaligned() };
        let new = log.next.wrapping_sub(at) as usize;
        log.lines.len().saturating_sub(new)
    };
    (log.lines.iter().skip(from).cloned().collect(), log.next)
}
