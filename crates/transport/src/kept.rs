//! Memory that stays where it is, told ahead to connections, which may have an adapter read and
//! write it in place.
//!
//! What an adapter has to be told is made once for each piece of memory and connection, when bytes
//! of it are first moved, and dropped when the memory goes or the connection ends.

use crate::lock::lock;
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Where memory begins, and how many bytes it has.
#[derive(Debug, Clone, Copy)]
pub struct Memory {
    /// Its first byte.
    pub start: *mut u8,
    /// Its length.
    pub len: usize,
}

/// What somebody has made of memory; `None` if that cannot be done.
type Made = Option<Arc<dyn Any + Send + Sync>>;

struct Range {
    len: usize,
    /// By each who has made something.
    made: Vec<(Owner, Made)>,
}

/// Whoever makes something of memory.
pub type Owner = Arc<()>;

/// All such memory of a session's end, and how many bytes were moved in place.
#[derive(Default)]
pub struct Kept {
    ranges: Mutex<BTreeMap<usize, Range>>,
    sent: AtomicU64,
    received: AtomicU64,
}

impl Kept {
    /// Tells of memory.
    ///
    /// # Safety
    /// It stays mapped, to the same pages, until [`Kept::forget`]. What a connection is given to
    /// send from it stays as it is until the peer has said that it has received that, by words of
    /// its own; or until what came along to be held is dropped ([`crate::Connection::send_held`]).
    pub unsafe fn keep(&self, memory: Memory) {
        let (len, made) = (memory.len, Vec::new());
        lock(&self.ranges).insert(memory.start as usize, Range { len, made });
    }

    /// The memory that begins there is about to go.
    pub fn forget(&self, start: usize) {
        // Dropped without the lock: it takes a call of the kernel's.
        let _gone = lock(&self.ranges).remove(&start);
    }

    /// What `owner` has made of the memory that these bytes are all of, or part of. It is made the
    /// first time only, even if that fails. `None` of other memory.
    pub fn made<T: Send + Sync + 'static>(
        &self,
        bytes: Memory,
        owner: &Owner,
        make: impl FnOnce(Memory) -> Option<T>,
    ) -> Option<Arc<T>> {
        let at = bytes.start as usize;
        let mut ranges = lock(&self.ranges);
        let (start, range) = ranges.range_mut(..=at).next_back()?;
        let before = at - start;
        if before > range.len || bytes.len > range.len - before {
            return None;
        }
        let start = bytes.start.wrapping_sub(before);
        let theirs = range.made.iter().find(|(of, _)| Arc::ptr_eq(of, owner));
        let made = match theirs {
            Some((_, made)) => made.clone(),
            None => {
                let len = range.len;
                let made: Made = make(Memory { start, len }).map(|m| Arc::new(m) as _);
                range.made.push((owner.clone(), made.clone()));
                made
            }
        };
        made?.downcast().ok()
    }

    /// Drops all that `owner` has made.
    pub fn leave(&self, owner: &Owner) {
        for range in lock(&self.ranges).values_mut() {
            range.made.retain(|(of, _)| !Arc::ptr_eq(of, owner));
        }
    }

    /// Bytes that left this end, and that came to it, without a copy by a processor of it.
    pub fn moved(&self) -> [u64; 2] {
        [&self.sent, &self.received].map(|n| n.load(Ordering::Relaxed))
    }

    /// So many more left so.
    pub fn count_sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// So many more came so.
    pub fn count_received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(start: usize, len: usize) -> Memory {
        let start = start as *mut u8;
        Memory { start, len }
    }

    #[test]
    fn what_is_made_of_memory_is_made_once_for_each_owner_and_dropped_with_it() {
        let (kept, one, other) = (Kept::default(), Owner::default(), Owner::default());
        // SAFETY: nobody touches it.
        unsafe { kept.keep(part(0x1000, 0x100)) };
        let of = |at, len, owner: &Owner| {
            kept.made(part(at, len), owner, |m| Some((m.start as usize, m.len)))
        };
        for outside in [(0xfff, 2), (0x10ff, 2), (0x1101, 0), (0x1000, usize::MAX)] {
            assert!(of(outside.0, outside.1, &one).is_none(), "{outside:x?}");
        }
        let first = of(0x1080, 8, &one).unwrap();
        assert_eq!(*first, (0x1000, 0x100));
        assert!(Arc::ptr_eq(&first, &of(0x10f0, 0x10, &one).unwrap()));
        let second = of(0x1000, 1, &other).unwrap();
        assert!(!Arc::ptr_eq(&first, &second));
        // Two at a time, as of two connections, keep each their own.
        assert!(Arc::ptr_eq(&first, &of(0x1000, 1, &one).unwrap()));
        kept.leave(&one);
        assert_eq!(
            (Arc::strong_count(&first), Arc::strong_count(&second)),
            (1, 2)
        );
        kept.leave(&other);
        assert_eq!(Arc::strong_count(&second), 1);
        drop(of(0x1000, 1, &one));
        kept.forget(0x1000);
        assert!(of(0x1000, 1, &one).is_none());
    }

    #[test]
    fn what_has_failed_once_is_not_tried_again() {
        let (kept, owner) = (Kept::default(), Owner::default());
        // SAFETY: nobody touches it.
        unsafe { kept.keep(part(0x1000, 0x100)) };
        let mut tries = 0;
        for _ in 0..3 {
            let made = kept.made::<()>(part(0x1000, 1), &owner, |_| {
                tries += 1;
                None
            });
            assert!(made.is_none());
        }
        assert_eq!(tries, 1);
    }
}
