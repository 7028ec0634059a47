//! What is in the store, how much of the disk it takes, and what was used last.

use busbar_control::store::Name;
use std::collections::{BTreeMap, HashMap};

/// The most files.
const MOST: usize = 1 << 17;

struct Entry {
    size: u64,
    used: u64,
}

pub(crate) struct Index {
    limit: u64,
    total: u64,
    next: u64,
    entries: HashMap<Name, Entry>,
    /// By when they were last used.
    by_use: BTreeMap<u64, Name>,
}

impl Index {
    pub(crate) fn new(limit: u64) -> Self {
        Self {
            limit,
            total: 0,
            next: 0,
            entries: HashMap::new(),
            by_use: BTreeMap::new(),
        }
    }

    /// Whether something of this size could be kept at all.
    pub(crate) fn has_place_for(&self, size: u64) -> bool {
        size <= self.limit
    }

    /// A file is there, used later than all others.
    pub(crate) fn add(&mut self, name: Name, size: u64) {
        self.forget(name);
        let used = self.next;
        self.next += 1;
        self.total += size;
        self.by_use.insert(used, name);
        self.entries.insert(name, Entry { size, used });
    }

    /// The same; which files must go for it.
    pub(crate) fn used(&mut self, name: Name, size: u64) -> Vec<Name> {
        self.add(name, size);
        self.make_room(0)
    }

    /// A file is gone.
    pub(crate) fn forget(&mut self, name: Name) {
        if let Some(e) = self.entries.remove(&name) {
            self.by_use.remove(&e.used);
            self.total -= e.size;
        }
    }

    /// Forgets the files used longest ago, until there is room for one more of this size. They are
    /// to be removed.
    pub(crate) fn make_room(&mut self, size: u64) -> Vec<Name> {
        let mut goes = Vec::new();
        let files = usize::from(size > 0);
        while self.total + size > self.limit || self.entries.len() + files > MOST {
            let Some((_, name)) = self.by_use.pop_first() else {
                break;
            };
            self.forget(name);
            goes.push(name);
        }
        goes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(n: usize) -> Name {
        let mut hash = [0; 32];
        hash[..8].copy_from_slice(&n.to_le_bytes());
        Name { hash, made: false }
    }

    #[test]
    fn whatever_was_used_longest_ago_goes_first() {
        let mut i = Index::new(100);
        for n in 0..3 {
            assert!(i.used(name(n), 30).is_empty());
        }
        assert!(i.used(name(0), 30).is_empty(), "it is there already");
        assert_eq!(i.make_room(40), [name(1)]);
        i.forget(name(2));
        assert_eq!(i.total, 30);
        assert_eq!(i.used(name(3), 90), [name(0)]);
        assert!(!i.has_place_for(101));
        assert_eq!(i.make_room(100), [name(3)]);
        assert!(i.entries.is_empty() && i.by_use.is_empty() && i.total == 0);
    }

    #[test]
    fn files_are_counted_however_small_they_are() {
        let mut i = Index::new(u64::MAX);
        let gone: usize = (0..MOST + 3).map(|n| i.used(name(n), 1).len()).sum();
        assert_eq!((gone, i.entries.len()), (3, MOST));
    }
}
