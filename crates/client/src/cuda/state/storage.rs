//! Values that libraries store beside contexts.

use super::prelude::*;
use crate::lock::{read, write};
use std::ffi::c_void;
use std::sync::RwLock;

/// What a library gives to have its value beside a context destroyed.
pub type Destructor = unsafe extern "C" fn(CUcontext, *mut c_void, *mut c_void);

/// A value that a library has stored beside a context.
#[derive(Debug, Clone, Copy)]
pub struct Stored {
    /// The value.
    pub value: u64,
    /// What to hand it to when the context is reset.
    pub destructor: Option<Destructor>,
}

/// Values that libraries have stored beside contexts, by context and key.
#[derive(Debug, Default)]
pub struct Storage {
    all: RwLock<HashMap<(u32, u64), Stored>>,
    /// Changes with every change: makes the threads' caches stale.
    changes: AtomicU64,
}

impl Storage {
    /// Which change was the last; never 0.
    pub fn change(&self) -> u64 {
        self.changes.load(Ordering::Acquire) + 1
    }

    /// The value of a key.
    pub fn get(&self, context: u32, key: u64) -> Option<u64> {
        let all = read(&self.all);
        all.get(&(context, key)).map(|s| s.value)
    }

    fn changed<R>(&self, f: impl FnOnce(&mut HashMap<(u32, u64), Stored>) -> R) -> R {
        let r = f(&mut write(&self.all));
        self.changes.fetch_add(1, Ordering::AcqRel);
        r
    }

    /// Sets the value of a key.
    pub fn put(&self, context: u32, key: u64, s: Stored) {
        self.changed(|all| all.insert((context, key), s));
    }

    /// Forgets a key; what it had.
    pub fn take(&self, context: u32, key: u64) -> Option<Stored> {
        self.changed(|all| all.remove(&(context, key)))
    }

    /// Forgets all keys of a context; what they had.
    pub fn take_context(&self, context: u32) -> Vec<(u64, Stored)> {
        self.changed(|all| {
            let keys: Vec<_> = all.keys().filter(|k| k.0 == context).copied().collect();
            let had = |k: (u32, u64)| all.remove(&k).map(|s| (k.1, s));
            keys.into_iter().filter_map(had).collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storage_changes_with_every_change() {
        let s = Storage::default();
        let value = Stored {
            value: 5,
            destructor: None,
        };
        let first = s.change();
        s.put(1, 10, value);
        s.put(2, 10, value);
        assert_ne!(s.change(), first);
        assert_eq!((s.get(1, 10), s.get(1, 11)), (Some(5), None));
        let gone: Vec<_> = s.take_context(1).iter().map(|(k, _)| *k).collect();
        assert_eq!(
            (gone, s.get(1, 10), s.get(2, 10)),
            (vec![10], None, Some(5))
        );
    }
}
