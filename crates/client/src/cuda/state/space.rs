//! Where device memory lies: addresses are chosen here, inside a range per device that the worker
//! maps exactly where it is told to.
//!
//! Large allocations have whole granules of 2 MiB of their own. Small ones share a granule, so that
//! a program with thousands of them neither wastes memory nor waits for the worker each time.

use std::collections::BTreeMap;

pub use busbar_wire::generated::cuda::contract::{
    DEVICES, GRANULE, HOST, MANAGED, RANGE, RESERVED, SHARED, WINDOW, number, span,
};

/// Whether an address lies in a range for device memory.
pub fn holds(p: u64) -> bool {
    number(p).is_some_and(|n| DEVICES.contains(&n) || RESERVED.contains(&n))
}

/// Where the numbers begin that name things of one of several servers for good.
pub fn first_serial(server: usize) -> u64 {
    (server as u64) << 48
}

/// Which of so many servers chose an address in a range that all of them have a share of.
pub fn server_of(p: u64, servers: usize) -> Option<usize> {
    let range = number(p).filter(|n| !DEVICES.contains(n))?;
    let (start, len) = Share {
        server: 0,
        of: servers,
    }
    .part(range);
    Some(((p - start) / len) as usize)
}

/// Whether page-locked memory at an address is shared with a worker on this host.
#[inline]
pub fn is_shared(p: u64) -> bool {
    number(p) == Some(SHARED)
}

/// What of the ranges that devices share belongs to one of several servers: a piece of each, so
/// that an address is that of one server's memory.
#[derive(Debug, Clone, Copy)]
pub struct Share {
    /// The server's number.
    pub server: usize,
    /// How many there are.
    pub of: usize,
}

impl Default for Share {
    fn default() -> Self {
        Self { server: 0, of: 1 }
    }
}

impl Share {
    /// Where that is in a range, and how long. A device's range is its server's alone.
    fn part(self, range: u32) -> (u64, u64) {
        let start = span(range).start;
        if DEVICES.contains(&range) {
            return (start, RANGE);
        }
        let len = RANGE / self.of as u64 / GRANULE * GRANULE;
        (start + self.server as u64 * len, len)
    }
}

/// Addresses that the program has reserved for mappings of its own.
#[derive(Debug)]
pub struct Reservations {
    free: Free,
    taken: BTreeMap<u64, u64>,
}

impl Default for Reservations {
    fn default() -> Self {
        Self::of(Share::default())
    }
}

impl Reservations {
    /// None, of a share.
    pub fn of(share: Share) -> Self {
        // The worker reserves range by range, and a mapping cannot lie in two.
        let mut free = Free::default();
        for range in RESERVED {
            // The last granule stays free, or the ranges would join.
            let (start, len) = share.part(range);
            free.give(start, len - GRANULE);
        }
        Self {
            free,
            taken: BTreeMap::new(),
        }
    }

    /// Reserves `size` bytes at a multiple of `align`.
    pub fn take(&mut self, size: u64, align: u64) -> Option<u64> {
        let align = align.max(GRANULE);
        let wanted = size.checked_add(align - GRANULE)?;
        let got = self.free.take(wanted)?;
        let at = up(got, align);
        if at > got {
            self.free.give(got, at - got);
        }
        if got + wanted > at + size {
            self.free.give(at + size, got + wanted - at - size);
        }
        self.taken.insert(at, size);
        Some(at)
    }

    /// Gives a whole reservation back; false when there is none like it.
    pub fn give(&mut self, at: u64, size: u64) -> bool {
        if self.taken.get(&at) != Some(&size) {
            return false;
        }
        self.taken.remove(&at);
        self.free.give(at, size);
        true
    }

    /// The reservation that an address lies in: where it begins, and its length.
    pub fn around(&self, at: u64) -> Option<(u64, u64)> {
        let (base, len) = self.taken.range(..=at).next_back()?;
        (at - base < *len).then_some((*base, *len))
    }

    /// Whether all of these bytes are in one reservation.
    pub fn holds(&self, at: u64, size: u64) -> bool {
        let found = self.taken.range(..=at).next_back();
        found.is_some_and(|(base, len)| at - base <= *len && size <= len - (at - base))
    }
}

/// Requests from this size on have granules of their own.
pub const LARGE: u64 = 1 << 20;
/// Alignment of small allocations.
const ALIGN: u64 = 512;
/// The same where pages are protected one by one.
const PAGE: u64 = 4096;

/// Free pieces of a range, by address, neighbours joined.
#[derive(Debug, Default, Clone)]
struct Free {
    pieces: BTreeMap<u64, u64>,
}

impl Free {
    /// First piece that is long enough.
    fn take(&mut self, size: u64) -> Option<u64> {
        let (at, len) = self
            .pieces
            .iter()
            .find(|(_, len)| **len >= size)
            .map(|(a, l)| (*a, *l))?;
        self.pieces.remove(&at);
        if len > size {
            self.pieces.insert(at + size, len - size);
        }
        Some(at)
    }

    fn give(&mut self, mut at: u64, mut size: u64) {
        if let Some((&before, &len)) = self.pieces.range(..at).next_back()
            && before + len == at
        {
            self.pieces.remove(&before);
            (at, size) = (before, size + len);
        }
        if let Some(len) = self.pieces.remove(&(at + size)) {
            size += len;
        }
        self.pieces.insert(at, size);
    }
}

/// A granule that small allocations share.
#[derive(Debug)]
struct Slab {
    free: Free,
    live: usize,
}

/// One device's range.
#[derive(Debug)]
pub struct Space {
    free: Free,
    slabs: BTreeMap<u64, Slab>,
    /// Alignment of small allocations.
    align: u64,
}

/// What has to be done for an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alloc {
    /// The memory is mapped already.
    Ready(u64),
    /// These bytes must be mapped first; then [`Space::mapped`] is told.
    Map {
        /// The allocation's address.
        at: u64,
        /// Bytes to map there.
        bytes: u64,
    },
}

/// What has to be done after a free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// The memory stays mapped for the next small allocation.
    Keep,
    /// These bytes go back to the device. Their addresses are nobody's until [`Space::vacant`] is
    /// told that whatever is mapped there next comes after that.
    Unmap {
        /// Where they begin.
        at: u64,
        /// How many there are.
        bytes: u64,
    },
}

fn up(n: u64, to: u64) -> u64 {
    n.div_ceil(to) * to
}

impl Space {
    /// The range of a number: the program's device of that ordinal, or a share of one of those
    /// above.
    pub fn new(range: u32, share: Share) -> Self {
        let mut free = Free::default();
        let (start, len) = share.part(range);
        free.give(start, len);
        Self {
            free,
            slabs: BTreeMap::new(),
            align: if range < MANAGED { ALIGN } else { PAGE },
        }
    }

    /// Finds room for `size` bytes; `None` when the range is full.
    pub fn alloc(&mut self, size: u64) -> Option<Alloc> {
        if size > RANGE {
            return None;
        }
        if size >= LARGE {
            let bytes = up(size, GRANULE);
            let at = self.free.take(bytes)?;
            return Some(Alloc::Map { at, bytes });
        }
        let size = up(size.max(1), self.align);
        for slab in self.slabs.values_mut() {
            if let Some(at) = slab.free.take(size) {
                slab.live += 1;
                return Some(Alloc::Ready(at));
            }
        }
        let at = self.free.take(GRANULE)?;
        // The slab serves others only once its memory is there.
        let held = Slab {
            free: Free::default(),
            live: 1,
        };
        self.slabs.insert(at, held);
        Some(Alloc::Map { at, bytes: GRANULE })
    }

    /// The memory for an allocation of `size` bytes at `at` was mapped.
    pub fn mapped(&mut self, at: u64, size: u64) {
        if size < LARGE
            && let Some(slab) = self.slabs.get_mut(&at)
        {
            let used = up(size.max(1), self.align);
            slab.free.give(at + used, GRANULE - used);
        }
    }

    /// The memory for an allocation at `at` could not be mapped.
    pub fn failed(&mut self, at: u64, bytes: u64) {
        self.slabs.remove(&at);
        self.free.give(at, bytes);
    }

    /// Takes an allocation of `size` bytes back.
    pub fn free(&mut self, at: u64, size: u64) -> Release {
        if size >= LARGE {
            let bytes = up(size, GRANULE);
            return Release::Unmap { at, bytes };
        }
        let Some((&base, slab)) = self.slabs.range_mut(..=at).next_back() else {
            return Release::Keep;
        };
        slab.free.give(at, up(size.max(1), self.align));
        slab.live -= 1;
        // One empty slab is kept: a program that frees its last small buffer allocates another
        // soon.
        let empty = slab.live == 0;
        if empty && self.slabs.values().filter(|s| s.live == 0).count() > 1 {
            self.slabs.remove(&base);
            return Release::Unmap {
                at: base,
                bytes: GRANULE,
            };
        }
        Release::Keep
    }

    /// What was to be unmapped is, or will be before anything is mapped there.
    pub fn vacant(&mut self, at: u64, bytes: u64) {
        self.free.give(at, bytes);
    }

    /// A context is gone: granules that nothing lives in go back to the device, as with
    /// [`Release::Unmap`].
    pub fn trim(&mut self) -> Vec<(u64, u64)> {
        let empty = self.slabs.iter().filter(|(_, s)| s.live == 0);
        let gone: Vec<_> = empty.map(|(at, _)| (*at, GRANULE)).collect();
        for (at, _) in &gone {
            self.slabs.remove(at);
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_allocations_share_a_granule_and_large_ones_do_not() {
        let mut s = Space::new(0, Share::default());
        let Some(Alloc::Map { at, bytes: GRANULE }) = s.alloc(100) else {
            panic!()
        };
        // Until the first is mapped, a second gets a granule of its own.
        let Some(Alloc::Map { at: other, .. }) = s.alloc(100) else {
            panic!()
        };
        assert_ne!(at, other);
        s.mapped(at, 100);
        s.mapped(other, 100);
        assert_eq!(s.alloc(600), Some(Alloc::Ready(at + 512)));
        assert_eq!(s.alloc(1), Some(Alloc::Ready(at + 512 + 1024)));
        let Some(Alloc::Map { at: large, bytes }) = s.alloc(3 << 20) else {
            panic!()
        };
        assert_eq!(bytes, 4 << 20);
        assert_eq!(s.free(large, 3 << 20), Release::Unmap { at: large, bytes });
        assert_eq!(s.free(other, 100), Release::Keep, "one empty slab is kept");
        assert_eq!(s.free(at + 512, 600), Release::Keep);
        assert_eq!(s.free(at + 1536, 1), Release::Keep);
        assert_eq!(s.free(at, 100), Release::Unmap { at, bytes: GRANULE });
    }

    #[test]
    fn what_is_given_back_joins_its_neighbours() {
        let mut f = Free::default();
        f.give(0, 100);
        let (a, b, c) = (
            f.take(10).unwrap(),
            f.take(10).unwrap(),
            f.take(10).unwrap(),
        );
        f.give(a, 10);
        f.give(c, 10);
        f.give(b, 10);
        assert_eq!(f.pieces.len(), 1);
        assert_eq!(f.take(101), None);
        assert_eq!(f.take(100), Some(0));
    }

    #[test]
    fn a_program_and_its_heap_are_not_in_a_devices_range() {
        for range in DEVICES.chain(RESERVED) {
            assert!(holds(span(range).start) && holds(span(range).end - 1));
        }
        assert!(!holds(span(MANAGED).start));
        assert!(!holds(0x5555_5555_4000));
        assert!(!holds(0x7fff_ffff_f000));
    }

    #[test]
    fn what_is_still_mapped_is_given_to_nobody() {
        let mut s = Space::new(2, Share::default());
        let Some(Alloc::Map { at, bytes }) = s.alloc(LARGE) else {
            panic!()
        };
        assert_eq!(s.free(at, LARGE), Release::Unmap { at, bytes });
        let Some(Alloc::Map { at: other, .. }) = s.alloc(LARGE) else {
            panic!()
        };
        assert_ne!(at, other);
        s.vacant(at, bytes);
        assert_eq!(s.alloc(LARGE), Some(Alloc::Map { at, bytes }));
        assert_eq!(number(at), Some(2));
    }

    #[test]
    fn a_mapping_that_failed_leaves_no_trace() {
        let mut s = Space::new(1, Share::default());
        let Some(Alloc::Map { at, bytes }) = s.alloc(8) else {
            panic!()
        };
        s.failed(at, bytes);
        assert_eq!(s.alloc(8), Some(Alloc::Map { at, bytes }));
        assert_eq!(s.alloc(RANGE), None);
        assert_eq!(s.alloc(u64::MAX), None);
    }

    #[test]
    fn servers_have_pieces_of_the_ranges_that_devices_share() {
        let end = |r: u32, server, of| {
            let (start, len) = Share { server, of }.part(r);
            (start, start + len)
        };
        for of in [1, 2, 3, 16] {
            for range in [MANAGED, HOST, WINDOW, SHARED, RESERVED.start] {
                let mut from = span(range).start;
                for server in 0..of {
                    let (start, to) = end(range, server, of);
                    assert_eq!(start, from, "one behind the other");
                    from = to;
                }
                assert!(from <= span(range).end && from > span(range).end - 16 * GRANULE);
            }
            assert_eq!(end(3, of - 1, of), (span(3).start, span(3).end));
        }
    }
}
