//! What a vendor's library hands back to functions of ours: numbers, which are looked up.
//!
//! A library may call a function later than its owner thinks, or say a node's data when its graph
//! is long gone. A number finds nothing then; an address would.

use crate::prelude::*;
use std::ffi::c_void;

/// Things by number; no number comes twice.
pub struct Named<T>(Mutex<(usize, BTreeMap<usize, T>)>);

impl<T: Clone> Named<T> {
    /// No things.
    pub const fn new() -> Self {
        Self(Mutex::new((0, BTreeMap::new())))
    }

    fn lock(&self) -> MutexGuard<'_, (usize, BTreeMap<usize, T>)> {
        lock(&self.0)
    }

    /// The number of a new thing.
    pub fn add(&self, thing: T) -> usize {
        let mut all = self.lock();
        all.0 += 1;
        let number = all.0;
        all.1.insert(number, thing);
        number
    }

    /// Whether there is any.
    pub fn any(&self) -> bool {
        !self.lock().1.is_empty()
    }

    /// What has this number, in the place of an address.
    pub fn get(&self, data: *mut c_void) -> Option<T> {
        self.lock().1.get(&data.addr()).cloned()
    }

    /// Nothing has this number any more.
    pub fn remove(&self, number: usize) {
        self.lock().1.remove(&number);
    }
}

impl<T: Clone> Default for Named<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// A number in the place of an address.
pub fn data(number: usize) -> *mut c_void {
    std::ptr::without_provenance_mut(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_gone_finds_nothing_ever() {
        let all = Named::new();
        let (a, b) = (all.add('a'), all.add('b'));
        assert_eq!((all.get(data(a)), all.get(data(b))), (Some('a'), Some('b')));
        all.remove(b);
        let c = all.add('c');
        assert!(all.get(data(b)).is_none() && c != b && c != 0);
        assert_eq!(all.get(std::ptr::from_ref(&c).cast_mut().cast()), None);
    }
}
