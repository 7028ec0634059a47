//! Functions of the client's program that something here waits for.

use crate::outbox::Outbox;
use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

#[derive(Default)]
struct Shared {
    open: Mutex<HashSet<u32>>,
    changed: Condvar,
    next: AtomicU32,
}

/// The callbacks that are under way. Cheap to clone.
#[derive(Clone, Default)]
pub struct Callbacks {
    shared: Arc<Shared>,
}

impl Callbacks {
    /// Numbers a callback that is about to be asked for.
    pub fn begin(&self) -> u32 {
        let n = self
            .shared
            .next
            .fetch_add(1, Ordering::Relaxed)
            .wrapping_add(1)
            .max(1);
        self.shared
            .open
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(n);
        n
    }

    /// The client says that callback `n` has returned. One that is not under way is ignored.
    pub fn done(&self, n: u32) {
        self.shared
            .open
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&n);
        self.shared.changed.notify_all();
    }

    /// Waits until callback `n` has returned, or the session is over.
    pub fn wait(&self, n: u32, outbox: &Outbox) {
        let mut open = self
            .shared
            .open
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        while open.contains(&n) && !outbox.closed() {
            let patience = Duration::from_millis(200);
            open = self
                .shared
                .changed
                .wait_timeout(open, patience)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        open.remove(&n);
    }
}
