//! Whether the driver takes calls: a process that is locked has all but these functions wait.

use super::{device, neighbours};
use crate::ffi::{ILLEGAL_STATE, NOT_READY, OPERATING_SYSTEM, OUT_OF_MEMORY, R, Res};
use crate::state::context::CONTEXTS;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// What a process begins as.
pub const RUNNING: u32 = 0;
/// Its calls wait.
pub const LOCKED: u32 = 1;
/// And it has nothing of any device.
pub const CHECKPOINTED: u32 = 2;

/// How often it is looked whether all work is done.
const LOOK: Duration = Duration::from_millis(1);

struct Calls {
    state: AtomicU32,
    /// It cannot be restored any more.
    lost: AtomicBool,
    held: Mutex<()>,
    changed: Condvar,
}

static CALLS: Calls = Calls {
    state: AtomicU32::new(RUNNING),
    lost: AtomicBool::new(false),
    held: Mutex::new(()),
    changed: Condvar::new(),
};

/// The state.
pub fn state() -> u32 {
    CALLS.state.load(Ordering::Acquire)
}

fn set(to: u32) {
    let _held = CALLS.held.lock().unwrap();
    CALLS.state.store(to, Ordering::Release);
    CALLS.changed.notify_all();
}

/// Waits until a function may be called.
pub fn enter(name: &str) {
    if state() == RUNNING || name.starts_with("cuCheckpoint") {
        return;
    }
    let mut held = CALLS.held.lock().unwrap();
    while state() != RUNNING {
        held = CALLS.changed.wait(held).unwrap();
    }
}

/// From one state to the next.
pub fn step(from: u32, to: u32) -> Res {
    if state() != from {
        return Err(ILLEGAL_STATE);
    }
    set(to);
    Ok(())
}

/// Restores, if there is room for what this process had. One for which there was none is lost, as
/// with a driver.
pub fn restore() -> Res {
    if CALLS.lost.load(Ordering::Acquire) {
        return Err(OPERATING_SYSTEM);
    }
    let done = neighbours::alone(device::all_used, |others| {
        let used = device::all_used();
        let room = |(i, used): (usize, &usize)| used + others(i) <= device::get(i).memory();
        if state() == CHECKPOINTED && !used.iter().enumerate().all(room) {
            return Err(OUT_OF_MEMORY);
        }
        step(CHECKPOINTED, LOCKED)?;
        neighbours::be_away(false);
        Ok(())
    });
    CALLS
        .lost
        .store(done == Err(OUT_OF_MEMORY), Ordering::Release);
    done
}

/// Checkpoints: what this process has of its devices is others' to have.
pub fn leave() -> Res {
    neighbours::alone(device::all_used, |_| {
        step(LOCKED, CHECKPOINTED)?;
        neighbours::be_away(true);
        Ok(())
    })
}

/// Locks once all that was submitted is done.
pub fn lock(timeout_ms: u32) -> R<()> {
    step(RUNNING, LOCKED)?;
    let limit = Duration::from_millis(timeout_ms.into());
    let began = Instant::now();
    while !CONTEXTS.all().iter().all(|c| c.idle()) {
        if timeout_ms > 0 && began.elapsed() >= limit {
            set(RUNNING);
            return Err(NOT_READY);
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}
