//! What is known of objects, by their ids.

use super::prelude::*;
use std::hash::Hash;

/// What is known of objects of one kind, by id.
#[derive(Debug)]
pub struct Bodies<K, T>(Mutex<HashMap<K, T>>);

impl<K, T> Default for Bodies<K, T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash, T> Bodies<K, T> {
    /// Makes an object known.
    pub fn insert(&self, id: K, body: T) {
        lock(&self.0).insert(id, body);
    }

    /// An object is gone.
    pub fn take(&self, id: &K) -> Option<T> {
        lock(&self.0).remove(id)
    }

    /// Looks at an object, or changes it.
    pub fn with<R>(&self, id: &K, f: impl FnOnce(&mut T) -> R) -> Option<R> {
        lock(&self.0).get_mut(id).map(f)
    }

    /// As [`Bodies::with`]; an object that is not known yet becomes known.
    pub fn with_new<R>(&self, id: K, f: impl FnOnce(&mut T) -> R) -> R
    where
        T: Default,
    {
        f(lock(&self.0).entry(id).or_default())
    }

    /// A copy of what is known of an object.
    pub fn get(&self, id: &K) -> Option<T>
    where
        T: Clone,
    {
        lock(&self.0).get(id).cloned()
    }

    /// Forgets all but those that `keep` says.
    pub fn retain(&self, keep: impl FnMut(&K, &mut T) -> bool) {
        lock(&self.0).retain(keep);
    }

    /// All of them, locked.
    pub fn all(&self) -> MutexGuard<'_, HashMap<K, T>> {
        lock(&self.0)
    }
}
