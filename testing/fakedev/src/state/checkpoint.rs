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

/// It cannot be restored any more.
static LOST: AtomicBool = AtomicBool::new(false);

struct Calls {
    state: AtomicU32,
    held: Mutex<()>,
    changed: Condvar,
}

static CALLS: Calls = Calls {
    state: AtomicU32::new(RUNNING),
    held: Mutex::new(()),
    changed: Condvar::new(),
};

/// The state.
pub fn state() -> u32 {
    CALLS.state.load(Ordering::Acquire)
}

/// Whether this process has what it has of its devices.
pub fn is_here() -> bool {
    state() != CHECKPOINTED
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
    if LOST.load(Ordering::Acquire) {
        return Err(OPERATING_SYSTEM);
    }
    let fits = neighbours::alone(|others| {
        let used = device::all_used();
        let room = |(i, used): (usize, &usize)| used + others(i) <= device::get(i).memory();
        let fits = is_here() || used.iter().enumerate().all(room);
        let taken = fits.then(|| step(CHECKPOINTED, LOCKED));
        taken.unwrap_or(Err(OUT_OF_MEMORY))
    });
    LOST.store(fits == Err(OUT_OF_MEMORY), Ordering::Release);
    fits
}

/// Checkpoints: what this process has of its devices is others' to have.
pub fn leave() -> Res {
    neighbours::alone(|_| step(LOCKED, CHECKPOINTED))
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
