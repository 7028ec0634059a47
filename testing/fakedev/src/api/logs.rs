//! The functions on the log of errors.

use crate::entry::api;
use crate::ffi::*;
use crate::state::logs::{CUT, Callback, LOG, take};
use std::ffi::{c_char, c_void};

api! {
    fn [cuLogsRegisterCallback] (f: Option<Callback>, user: *mut c_void, out: *mut usize) {
        let f = f.ok_or(INVALID_VALUE)?;
        let mut log = LOG.lock().unwrap();
        log.handle += 0x10;
        let handle = log.handle;
        log.listeners.push((handle, f, user as usize));
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
