//! Handles: numbers that a table knows. A handle that is stale or made up is an error, never a
//! crash.

use crate::ffi::{INVALID_HANDLE, R};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, RwLock};

const FIRST: usize = 0x5fd0_0000_1000;
static NEXT: AtomicUsize = AtomicUsize::new(FIRST);

/// A handle value never used before, of any kind of object: so that one kind is never taken for
/// another.
pub fn fresh() -> usize {
    NEXT.fetch_add(0x40, Ordering::Relaxed)
}

/// Begins with the first one again.
pub fn begin_again() {
    NEXT.store(FIRST, Ordering::Relaxed);
}

/// The handle of what a device comes with, once that is asked for.
#[derive(Default)]
pub struct Given(Mutex<Option<usize>>);

impl Given {
    /// Not asked for yet.
    pub const fn new() -> Given {
        Given(Mutex::new(None))
    }

    /// It, made if it is not there.
    pub fn get(&self, make: impl FnOnce() -> usize) -> usize {
        *self.0.lock().unwrap().get_or_insert_with(make)
    }

    /// It is gone.
    pub fn forget(&self) {
        *self.0.lock().unwrap() = None;
    }
}

/// The live objects of one kind.
pub struct Table<T>(LazyLock<RwLock<HashMap<usize, Arc<T>>>>);

impl<T> Table<T> {
    /// An empty table.
    pub const fn new() -> Table<T> {
        Table(LazyLock::new(RwLock::default))
    }

    /// Makes an object live under the handle that it was built for.
    pub fn insert(&self, handle: usize, object: Arc<T>) {
        self.0.write().unwrap().insert(handle, object);
    }

    /// The object of a handle.
    pub fn get(&self, handle: usize) -> R<Arc<T>> {
        self.0
            .read()
            .unwrap()
            .get(&handle)
            .cloned()
            .ok_or(INVALID_HANDLE)
    }

    /// Ends a handle's life.
    pub fn remove(&self, handle: usize) -> R<Arc<T>> {
        self.0
            .write()
            .unwrap()
            .remove(&handle)
            .ok_or(INVALID_HANDLE)
    }

    /// Forgets all, and ends what nobody else has.
    pub fn clear(&self) {
        // Ends of some look at the table.
        let all = std::mem::take(&mut *self.0.write().unwrap());
        drop(all);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.read().unwrap().len()
    }

    /// All objects.
    pub fn all(&self) -> Vec<Arc<T>> {
        self.0.read().unwrap().values().cloned().collect()
    }

    /// Takes out each object that the test picks.
    pub fn drain(&self, pick: impl Fn(&T) -> bool) -> Vec<Arc<T>> {
        let mut table = self.0.write().unwrap();
        let handles: Vec<usize> = table
            .iter()
            .filter(|(_, object)| pick(object))
            .map(|(handle, _)| *handle)
            .collect();
        handles
            .iter()
            .filter_map(|handle| table.remove(handle))
            .collect()
    }
}
