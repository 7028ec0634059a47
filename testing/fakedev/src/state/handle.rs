//! Handles: numbers that a table knows. A handle that is stale or made up is an error, never a
//! crash.

use crate::ffi::{INVALID_HANDLE, R};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, RwLock};

static NEXT: AtomicUsize = AtomicUsize::new(0x5fd0_0000_1000);

/// A handle value never used before, of any kind of object: so that one kind is never taken for
/// another.
pub fn fresh() -> usize {
    NEXT.fetch_add(0x40, Ordering::Relaxed)
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
