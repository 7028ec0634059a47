//! The log of errors: one line for each call that failed, for who asks and for who listens.

use crate::entry::api;
use crate::errors;
use crate::ffi::*;
use std::collections::VecDeque;
use std::ffi::{CStr, c_char, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Lines that are kept, as the real driver's.
const KEPT: usize = 100;
/// At the head of a dump that had no room for all.
const CUT: &str = "Older messages are left out.\n";
const LEVEL_ERROR: u32 = 0;

type Callback = unsafe extern "C" fn(*mut c_void, u32, *mut c_char, usize);

struct Log {
    lines: VecDeque<String>,
    /// The number of the next line; that of the first kept follows.
    next: u32,
    listeners: Vec<(usize, Callback, usize)>,
}

static LOG: Mutex<Log> = Mutex::new(Log {
    lines: VecDeque::new(),
    next: 0,
    listeners: Vec::new(),
});
static HANDLE: AtomicUsize = AtomicUsize::new(0x10);

/// A call has failed.
pub fn failed(function: &str, code: CUresult) {
    // Work that is still under way is no error.
    if code == NOT_READY {
        return;
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
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
unsafe fn take(iterator: *mut u32) -> (Vec<String>, u32) {
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

api! {
    fn [cuLogsRegisterCallback] (f: Option<Callback>, user: *mut c_void, out: *mut usize) {
        let f = f.ok_or(INVALID_VALUE)?;
        let handle = HANDLE.fetch_add(0x10, Ordering::Relaxed);
        LOG.lock().unwrap().listeners.push((handle, f, user as usize));
        put_opt(out, handle);
        Ok(())
    }

    fn [cuLogsUnregisterCallback] (handle: usize) {
        let mut log = LOG.lock().unwrap();
        let place = log.listeners.iter().position(|(known, ..)| *known == handle);
        log.listeners.remove(place.ok_or(INVALID_VALUE)?);
        Ok(())
    }

    fn [cuLogsCurrent] (out: *mut u32, flags: u32) {
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        put(out, LOG.lock().unwrap().next)
    }

    fn [cuLogsDumpToFile] (iterator: *mut u32, path: *const c_char, flags: u32) {
        let path = text(path)?;
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        let (lines, next) = take(iterator);
        std::fs::write(path, lines.concat()).map_err(|_| INVALID_VALUE)?;
        put_opt(iterator, next);
        Ok(())
    }

    fn [cuLogsDumpToMemory] (
        iterator: *mut u32, buffer: *mut c_char, size: *mut usize, flags: u32,
    ) {
        let room = get(size)?;
        if buffer.is_null() || flags != 0 {
            return Err(INVALID_VALUE);
        }
        let (mut lines, next) = take(iterator);
        let any = !lines.is_empty();
        let length = |lines: &[String]| lines.iter().map(String::len).sum::<usize>();
        if length(&lines) >= room {
            while !lines.is_empty() && CUT.len() + length(&lines) >= room {
                lines.remove(0);
            }
            if !lines.is_empty() {
                lines.insert(0, CUT.to_owned());
            }
        }
        let all = lines.concat();
        put(size, all.len())?;
        if any && all.is_empty() {
            return Err(INVALID_VALUE);
        }
        if room > 0 {
            std::ptr::copy_nonoverlapping(all.as_ptr(), buffer.cast(), all.len());
            buffer.add(all.len()).write(0);
        }
        put_opt(iterator, next);
        Ok(())
    }
}
