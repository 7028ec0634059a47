//! Addresses and objects that the driver gave to a session.

use std::collections::{BTreeMap, HashSet};

/// What the driver has given to the session.
#[derive(Default)]
pub struct Given {
    /// Addresses: where each stretch begins, and where it ends.
    pub stretches: BTreeMap<u64, u64>,
    /// Texture and surface objects: kernels get them by value, so they have no ids.
    pub objects: HashSet<u64>,
}

impl Given {
    /// Remembers `size` bytes at `va`. They are not forgotten when they are freed: the driver keeps
    /// such addresses for itself, and a graph may name them before they are anything's.
    pub fn memory(&mut self, va: u64, size: u64) {
        let Some(mut end) = va.checked_add(size.max(1)) else {
            return;
        };
        let mut start = va;
        let touching = |s: &BTreeMap<u64, u64>, end: u64| {
            let (from, to) = s.range(..=end).next_back()?;
            (*to >= va).then_some((*from, *to))
        };
        while let Some((from, to)) = touching(&self.stretches, end) {
            self.stretches.remove(&from);
            start = start.min(from);
            end = end.max(to);
        }
        self.stretches.insert(start, end);
    }

    pub fn has(&self, va: u64) -> bool {
        let before = self.stretches.range(..=va).next_back();
        before.is_some_and(|(_, end)| va < *end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_that_touch_become_one() {
        let mut g = Given::default();
        g.memory(0x1000, 0x100);
        g.memory(0x3000, 0x100);
        assert!(g.has(0x1000) && g.has(0x10ff) && !g.has(0x1100) && !g.has(0xfff));
        g.memory(0x1100, 0x1f00);
        assert_eq!(g.stretches.len(), 1);
        assert!(g.has(0x2fff) && g.has(0x30ff) && !g.has(0x3100));
        g.memory(0x1800, 0x10);
        g.memory(u64::MAX, 2);
        assert_eq!(g.stretches.len(), 1);
        g.memory(0x800, 0x10000);
        assert_eq!(g.stretches, BTreeMap::from([(0x800, 0x10800)]));
    }
}
