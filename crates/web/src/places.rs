//! Places, of which there are so many, and so many of one kind of caller.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

/// The places that are taken.
#[derive(Clone)]
pub(crate) struct Places<K> {
    most: usize,
    most_of_one: usize,
    taken: Arc<Mutex<HashMap<K, usize>>>,
}

/// One of them; it ends when this is dropped.
pub(crate) struct Place<K: Eq + Hash>(Places<K>, K);

impl<K: Eq + Hash + Clone> Places<K> {
    pub fn new(most: usize, most_of_one: usize) -> Self {
        let taken = Arc::default();
        Self {
            most,
            most_of_one,
            taken,
        }
    }

    /// Whether somebody has all the places that one may have.
    pub fn has_all_of_one(&self, of: &K) -> bool {
        let all = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(of).is_some_and(|n| *n >= self.most_of_one)
    }

    /// A place for somebody, if there is one.
    pub fn enter(&self, of: K) -> Option<Place<K>> {
        let mut all = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let there = all.values().sum::<usize>();
        let theirs = all.get(&of).copied().unwrap_or_default();
        if there >= self.most || theirs >= self.most_of_one {
            return None;
        }
        all.insert(of.clone(), theirs + 1);
        Some(Place(self.clone(), of))
    }
}

impl<K: Eq + Hash> Drop for Place<K> {
    fn drop(&mut self) {
        let mut all = self.0.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(n) = all.get_mut(&self.1) {
            *n -= 1;
            if *n == 0 {
                all.remove(&self.1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_does_not_take_all_places() {
        let places = Places::new(256, 64);
        let mut held: Vec<_> = (0..=255).filter_map(|_| places.enter(1)).collect();
        assert_eq!(held.len(), 64);
        for n in 2..=9 {
            held.extend((0..=255).filter_map(|_| places.enter(n)));
        }
        assert_eq!(held.len(), 256);
        assert!(places.enter(99).is_none());
        held.pop();
        assert!(places.enter(99).is_some());
        drop(held);
        assert!(places.taken.lock().expect("no panic").is_empty());
    }
}
