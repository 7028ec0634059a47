//! Checkpoints of this process; there are none of others.

use crate::entry::api;
use crate::ffi::*;
use crate::state::checkpoint::{self, LOCKED, RUNNING};

/// What a driver refuses in arguments that mean nothing.
fn plain(args: *const u64, from: usize) -> Res {
    if args.is_null() {
        return Ok(());
    }
    // SAFETY: eight words, as the header says.
    let words = unsafe { std::slice::from_raw_parts(args, 8) };
    match words[from..].iter().all(|w| *w == 0) {
        true => Ok(()),
        false => Err(INVALID_VALUE),
    }
}

fn own(pid: i32) -> Res {
    match u32::try_from(pid) == Ok(std::process::id()) {
        true => Ok(()),
        false => Err(NOT_SUPPORTED),
    }
}

api! {
    fn [cuCheckpointProcessGetState] (pid: i32, out: *mut u32) {
        own(pid)?;
        put(out, checkpoint::state())
    }

    fn [cuCheckpointProcessGetRestoreThreadId] (pid: i32, out: *mut i32) {
        own(pid)?;
        put(out, pid)
    }

    fn [cuCheckpointProcessLock] (pid: i32, args: *const u64) {
        own(pid)?;
        plain(args, 1)?;
        // SAFETY: as above.
        let timeout = unsafe { args.as_ref() }.map_or(0, |w| *w);
        checkpoint::lock(u32::try_from(timeout).map_err(|_| INVALID_VALUE)?)
    }

    fn [cuCheckpointProcessCheckpoint] (pid: i32, args: *const u64) {
        own(pid)?;
        plain(args, 0)?;
        checkpoint::leave()
    }

    fn [cuCheckpointProcessRestore] (pid: i32, args: *const u64) {
        own(pid)?;
        plain(args, 0)?;
        checkpoint::restore()
    }

    fn [cuCheckpointProcessUnlock] (pid: i32, args: *const u64) {
        own(pid)?;
        plain(args, 0)?;
        checkpoint::step(LOCKED, RUNNING)
    }
}
