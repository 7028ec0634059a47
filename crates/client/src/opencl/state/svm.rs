//! Which addresses are shared virtual memory.
#![forbid(unsafe_code)]

use super::prelude::*;

/// One allocation of shared virtual memory.
pub struct Allocation<C> {
    /// Bytes that the program asked for.
    pub size: usize,
    /// Bytes of the pages that it has here.
    pub pages: usize,
    /// The worker's own pointer, from which the program's is rounded up.
    pub theirs: u64,
    /// The context that it belongs to.
    pub context: C,
    /// Regions that are mapped: place, bytes, flags.
    pub maps: Vec<(usize, usize, u64)>,
}

/// All allocations of a server, by the program's pointers.
pub struct Allocations<C>(Mutex<BTreeMap<usize, Allocation<C>>>);

impl<C> Default for Allocations<C> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<C> Allocations<C> {
    fn with<T>(
        &self,
        at: usize,
        size: usize,
        f: impl FnOnce(usize, &mut Allocation<C>) -> T,
    ) -> Option<T> {
        let mut all = lock(&self.0);
        let (start, a) = all.range_mut(..=at).next_back()?;
        let inside = size <= a.size && at - start <= a.size - size;
        inside.then(|| f(*start, a))
    }

    /// Adds one.
    pub fn add(&self, at: usize, a: Allocation<C>) {
        lock(&self.0).insert(at, a);
    }

    /// Takes one out that begins at `at`.
    pub fn remove(&self, at: usize) -> Option<Allocation<C>> {
        lock(&self.0).remove(&at)
    }

    /// A range as a command means it whose size may be 0: all of the allocation then that has it.
    pub fn whole(&self, at: usize, size: usize) -> Option<(usize, usize)> {
        self.with(at, size, |start, a| match size {
            0 => (start, a.size),
            _ => (at, size),
        })
    }

    /// Whether a range lies in one.
    pub fn holds(&self, at: usize, size: usize) -> bool {
        self.whole(at, size).is_some()
    }

    /// Notes a mapped region; false when it does not lie in one.
    pub fn map(&self, at: usize, size: usize, flags: u64) -> bool {
        let add = |_, a: &mut Allocation<C>| a.maps.push((at, size, flags));
        self.with(at, size, add).is_some()
    }

    /// The bytes and flags of the region that was mapped last at this place; it is mapped no more.
    pub fn unmap(&self, at: usize) -> Option<(usize, u64)> {
        let take = |_, a: &mut Allocation<C>| {
            let i = a.maps.iter().rposition(|m| m.0 == at)?;
            let (_, size, flags) = a.maps.remove(i);
            Some((size, flags))
        };
        self.with(at, 1, take).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one() -> Allocations<()> {
        let all = Allocations::default();
        let a = Allocation {
            size: 100,
            pages: 4096,
            theirs: 9,
            context: (),
            maps: Vec::new(),
        };
        all.add(0x1000, a);
        all
    }

    #[test]
    fn a_range_is_shared_if_all_of_it_is() {
        let all = one();
        assert!(all.holds(0x1000, 100) && all.holds(0x1010, 84) && all.holds(0x1064, 0));
        assert!(!all.holds(0x1010, 85) && !all.holds(0xfff, 1) && !all.holds(0x1010, usize::MAX));
        assert_eq!(all.whole(0x1010, 0), Some((0x1000, 100)));
        assert_eq!(all.whole(0x1010, 4), Some((0x1010, 4)));
        assert_eq!(all.whole(0x1010, 85), None);
        assert_eq!(all.remove(0x1000).unwrap().theirs, 9);
        assert!(!all.holds(0x1000, 1) && all.remove(0x1000).is_none());
    }

    #[test]
    fn mapped_regions_end_where_they_began() {
        let all = one();
        assert!(all.map(0x1004, 8, 1) && all.map(0x1004, 4, 2));
        assert!(!all.map(0x1004, 100, 1));
        assert_eq!(all.unmap(0x1004), Some((4, 2)));
        assert_eq!(all.unmap(0x1004), Some((8, 1)));
        assert_eq!(all.unmap(0x1004), None);
    }
}
