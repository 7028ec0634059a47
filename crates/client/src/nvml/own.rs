//! What a process keeps for itself. The child of a fork begins with nothing, whoever had the lock
//! when it was forked.

use busbar_transport::lock::lock;
use std::ptr::null_mut;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, Ordering};

struct Kept<T> {
    process: u32,
    value: Mutex<T>,
}

/// A value of each process. It is never freed: a parent's stays where a child found it.
pub struct Own<T>(AtomicPtr<Kept<T>>);

impl<T: Default + Send> Own<T> {
    /// Nothing yet.
    pub const fn new() -> Self {
        Self(AtomicPtr::new(null_mut()))
    }

    /// Does something with this process's value.
    pub fn with<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        let process = std::process::id();
        loop {
            let old = self.0.load(Ordering::Acquire);
            // SAFETY: what is stored there was leaked, and is never freed.
            let kept = unsafe { old.as_ref() };
            if let Some(kept) = kept.filter(|k| k.process == process) {
                return f(&mut lock(&kept.value));
            }
            let new = Box::into_raw(Box::new(Kept {
                process,
                value: Mutex::default(),
            }));
            let (order, fetch) = (Ordering::AcqRel, Ordering::Acquire);
            if self.0.compare_exchange(old, new, order, fetch).is_err() {
                // SAFETY: nobody else has seen it.
                drop(unsafe { Box::from_raw(new) });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_has_its_own_whoever_has_the_parents() {
        let own = Own::<u32>::new();
        own.with(|n| *n = 7);
        let child = own.with(|n| {
            assert_eq!(*n, 7);
            // SAFETY: the child does what is fine after a fork, and exits.
            let pid = unsafe { libc::fork() };
            if pid == 0 {
                let found = own.with(|n| std::mem::replace(n, 8));
                let kept = own.with(|n| *n);
                // SAFETY: no exit handlers run.
                unsafe { libc::_exit((found != 0 || kept != 8).into()) };
            }
            pid
        });
        let mut status = -1;
        // SAFETY: waits for the child just made.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0);
        assert_eq!(own.with(|n| *n), 7);
    }
}
