//! Which call of the program's a thread is in, where somebody watches: the records of the call
//! carry its mark, and what a device does for its sake is told with that.

use busbar_wire::record::{MARKED, RESERVED};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

/// Somebody watches calls.
static WATCHED: AtomicBool = AtomicBool::new(false);

/// The call that a thread is in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Inside {
    /// Its number; zero in none.
    pub mark: u64,
    /// The driver's function has begun: those that it calls itself are no calls of the program's.
    pub driver: bool,
}

thread_local! {
    static INSIDE: Cell<Inside> = const { Cell::new(Inside { mark: 0, driver: false }) };
}

/// Whether calls are watched.
#[inline]
pub fn is_on() -> bool {
    WATCHED.load(Ordering::Relaxed)
}

/// Has calls watched, or not any more.
pub fn watch(on: bool) {
    WATCHED.store(on, Ordering::Relaxed);
}

/// The call that the thread is in.
pub fn inside() -> Inside {
    INSIDE.get()
}

/// Puts the thread into a call, or out of it.
pub fn go(to: Inside) {
    INSIDE.set(to);
}

/// A record's op with the word that a mark comes, and the mark; none where nobody watches, and of
/// the session's own records.
#[cold]
pub fn marked(op: u32) -> (u32, Option<u64>) {
    match is_on() && inside().mark != 0 && (op as u16) < RESERVED {
        true => (op | u32::from(MARKED) << 16, Some(inside().mark)),
        false => (op, None),
    }
}

/// Writes a mark ahead of a record's payload.
#[inline]
pub fn write(mark: Option<u64>, out: &mut Vec<u8>) {
    if let Some(mark) = mark {
        out.extend_from_slice(&mark.to_le_bytes());
    }
}
