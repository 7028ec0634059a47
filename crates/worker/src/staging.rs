//! Memory that bulk bytes land in and leave from, without another copy on the host.
//!
//! Slabs are page-aligned and long-lived, so that an API can register them with its driver once
//! ([`Slab::mark`]) and copy from them asynchronously ever after.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Bytes of a slab: a bulk record with its fields.
pub const SLAB: usize = busbar_wire::limits::BULK_CHUNK + 4096;

/// A piece of long-lived memory.
pub struct Slab {
    ptr: *mut u8,
    mark: AtomicU64,
}

// SAFETY: a slab is plain memory with one owner at a time; the owner hands it on whole.
unsafe impl Send for Slab {}
// SAFETY: shared access only reads the pointer and the atomic mark.
unsafe impl Sync for Slab {}

fn layout() -> Layout {
    Layout::from_size_align(SLAB, 4096).expect("a constant layout")
}

impl Slab {
    fn new() -> Self {
        // SAFETY: the layout has a size.
        let ptr = unsafe { alloc_zeroed(layout()) };
        if ptr.is_null() {
            handle_alloc_error(layout());
        }
        Self {
            ptr,
            mark: AtomicU64::new(0),
        }
    }

    /// The slab's memory, [`SLAB`] bytes.
    pub fn ptr(&self) -> *mut u8 {
        self.ptr
    }

    /// Sets the API's note about this slab (0 at first) and returns the former one.
    pub fn mark(&self, v: u64) -> u64 {
        self.mark.swap(v, Ordering::Relaxed)
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with the same layout.
        unsafe { dealloc(self.ptr, layout()) };
    }
}

#[derive(Default)]
struct Shared {
    state: Mutex<(Vec<Slab>, usize)>,
    freed: Condvar,
    /// Set at the end of a session: slabs are not kept any more.
    closed: AtomicBool,
}

/// A bounded set of slabs.
#[derive(Clone)]
pub struct Arena {
    shared: Arc<Shared>,
    most: usize,
}

/// A slab in use; it goes back to its arena when dropped.
pub struct Lent {
    slab: Option<Slab>,
    home: Arc<Shared>,
}

impl std::ops::Deref for Lent {
    type Target = Slab;
    fn deref(&self) -> &Slab {
        self.slab
            .as_ref()
            .expect("a lent slab is there until it is dropped")
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(slab) = self.slab.take() {
            let mut s = self
                .home
                .state
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            s.0.push(slab);
            drop(s);
            self.home.freed.notify_one();
        }
    }
}

impl Arena {
    /// An arena of at most `most` slabs, made when they are first needed.
    pub fn new(most: usize) -> Self {
        Self {
            shared: Arc::default(),
            most,
        }
    }

    /// A slab, if one is free or may be made.
    pub fn try_take(&self) -> Option<Lent> {
        let mut s = self
            .shared
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let slab = match s.0.pop() {
            Some(slab) => slab,
            None if s.1 < self.most => {
                s.1 += 1;
                Slab::new()
            }
            None => return None,
        };
        Some(Lent {
            slab: Some(slab),
            home: self.shared.clone(),
        })
    }

    /// A slab, waiting up to `patience` for one to come back.
    pub fn take(&self, patience: Duration) -> Option<Lent> {
        if let Some(l) = self.try_take() {
            return Some(l);
        }
        let s = self
            .shared
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if s.0.is_empty() && !self.shared.closed.load(Ordering::Relaxed) {
            drop(self.shared.freed.wait_timeout(s, patience));
        } else {
            drop(s);
        }
        self.try_take()
    }
}

/// Lets an API keep the memory that a record came in.
pub struct Hold<'a> {
    pub(crate) slab: &'a mut Option<Lent>,
}

impl Hold<'_> {
    /// Takes the slab that holds the record's payload, if it came in one.
    pub fn take(&mut self) -> Option<Lent> {
        self.slab.take()
    }

    /// The slab that holds the record's payload, if it came in one.
    pub fn slab(&self) -> Option<&Slab> {
        self.slab.as_deref()
    }
}
