//! The names of a server's objects, and which handles are alive.
#![forbid(unsafe_code)]

use super::prelude::*;

#[derive(Default)]
struct Numbers {
    next: u32,
    free: Vec<u32>,
    blobs: u32,
}

/// Ids of objects, and the listed handles.
#[derive(Default)]
pub struct Ids {
    numbers: Mutex<Numbers>,
    listed: Mutex<BTreeMap<usize, (u32, u32)>>,
}

impl Ids {
    /// Keeps ids up to `last` from being given out.
    pub fn reserve(&self, last: u32) {
        let mut n = lock(&self.numbers);
        n.next = n.next.max(last);
    }

    /// An id for a new object.
    pub fn take(&self) -> u32 {
        let mut n = lock(&self.numbers);
        n.free.pop().unwrap_or_else(|| {
            n.next += 1;
            n.next
        })
    }

    /// The first of `count` ids in a row.
    pub fn range(&self, count: u32) -> u32 {
        let mut n = lock(&self.numbers);
        let first = n.next + 1;
        n.next += count;
        first
    }

    /// An id that nothing uses any more.
    pub fn give_back(&self, id: u32) {
        lock(&self.numbers).free.push(id);
    }

    /// A name for data that travels ahead of its message.
    pub fn blob(&self) -> u32 {
        let mut n = lock(&self.numbers);
        n.blobs = n.blobs.wrapping_add(1);
        n.blobs | 1 << 31
    }

    /// Lists a handle with its kind and id.
    pub fn list(&self, handle: usize, kind: u32, id: u32) {
        lock(&self.listed).insert(handle, (kind, id));
    }

    /// A listed handle is gone.
    pub fn unlist(&self, handle: usize) {
        lock(&self.listed).remove(&handle);
    }

    /// The kind and the id of a listed object, when `value` is the handle of one. Nothing is read
    /// through the value, so it may be any number.
    pub fn find(&self, value: usize) -> Option<(u32, u32)> {
        lock(&self.listed).get(&value).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_given_out_again_only_once_it_is_given_back() {
        let ids = Ids::default();
        ids.reserve(3);
        assert_eq!((ids.take(), ids.take()), (4, 5));
        assert_eq!(ids.range(10), 6);
        ids.give_back(4);
        assert_eq!((ids.take(), ids.take()), (4, 16));
        ids.reserve(2);
        assert_eq!(ids.take(), 17);
        assert_ne!(ids.blob(), ids.blob());
    }

    #[test]
    fn a_handle_is_found_for_as_long_as_it_is_listed() {
        let ids = Ids::default();
        ids.list(0x1000, 7, 3);
        assert_eq!(ids.find(0x1000), Some((7, 3)));
        assert_eq!(ids.find(0x1008), None);
        ids.unlist(0x1000);
        assert_eq!(ids.find(0x1000), None);
    }
}
