//! What the library has in a process, and what all functions go by.

use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

/// A handle is the device's number and one: never null.
pub type Device = usize;

pub const SUCCESS: u32 = 0;
pub const INVALID_ARGUMENT: u32 = 2;
pub const NOT_SUPPORTED: u32 = 3;
pub const INSUFFICIENT_SIZE: u32 = 7;

/// A device, the type of an event of it, and its data.
pub type Event = (Device, u64, u64);

pub fn count() -> usize {
    let set = std::env::var("FAKEDEV_DEVICES").ok();
    set.and_then(|n| n.parse().ok()).unwrap_or(1)
}

pub fn valid(d: Device) -> bool {
    (1..=count()).contains(&d)
}

/// Stores `value`.
///
/// # Safety
/// `out` is null or points to room for a `T`.
pub unsafe fn put<T>(out: *mut T, value: T) -> u32 {
    if out.is_null() {
        return INVALID_ARGUMENT;
    }
    // SAFETY: the caller's promise.
    unsafe { out.write(value) };
    SUCCESS
}

/// What a process has of the library.
pub struct Process {
    pub looked: AtomicU64,
    pub energy: AtomicU64,
    pub replays: AtomicU64,
    /// What happened, the oldest first.
    pub events: Mutex<Vec<Event>>,
}

pub static PROCESS: Process = Process {
    looked: AtomicU64::new(0),
    energy: AtomicU64::new(1_000_000),
    replays: AtomicU64::new(0),
    events: Mutex::new(Vec::new()),
};
