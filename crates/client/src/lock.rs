//! The crate's one way to take a lock.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, whatever a thread that panicked has left behind: a call that fails must not make every
/// later one fail.
pub fn lock<T: ?Sized>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}
