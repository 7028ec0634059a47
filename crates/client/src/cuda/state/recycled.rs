//! Memory that the program has freed in a stream's order, and that waits here for its next
//! allocation of the same size in the same stream. The driver's pools say where memory lies, so an
//! allocation has to ask the worker; but what a stream gives back it may have again at once, and
//! programs that allocate in stream order do little else. Nothing needs to be said of such a pair.
//!
//! The worker takes the memory for used meanwhile. So it hears of all frees before any call whose
//! outcome they could change: see [`Outcome`].

use super::prelude::*;
use std::collections::HashSet;
use std::collections::hash_map::Entry;

/// The most pieces that are kept, and the most bytes.
const MOST: (usize, u64) = (8192, 8 << 30);

/// Where a piece may be used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Home {
    pub scope: u32,
    /// The stream that it was freed in.
    pub stream: u32,
    pub pool: Pool,
    /// Its length, as it was asked for.
    pub size: u64,
}

/// A pool: its device, and the program's number for it, 0 for the default one.
pub type Pool = (CUdevice, u32);

/// What a call that the worker answers depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// On nothing that is freed. A wait, too, gives back what its pool does not hold on to: a
    /// driver's does no more.
    OfWaiting,
    /// It may find less memory, or another number of pieces, than it would.
    OfMemory,
}

#[derive(Default)]
struct Kept {
    pieces: HashMap<Home, Vec<u64>>,
    count: usize,
    bytes: u64,
    /// Pools whose release threshold is not 0.
    hold: HashSet<Pool>,
    /// Pools that other processes may take part in.
    shared: HashSet<Pool>,
}

impl Kept {
    fn note(&mut self, home: &Home, pieces: usize) {
        self.count -= pieces;
        self.bytes -= home.size * pieces as u64;
    }
}

/// What is kept. Most programs have none, and find that out without a lock.
#[derive(Default)]
pub struct Recycled {
    any: AtomicBool,
    kept: Mutex<Kept>,
}

impl Recycled {
    #[inline]
    pub fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Keeps a piece that was just freed, unless there are too many, or others know its pool.
    pub fn keep(&self, home: Home, va: u64) -> bool {
        let mut kept = lock(&self.kept);
        let full = kept.count >= MOST.0 || kept.bytes.saturating_add(home.size) > MOST.1;
        if full || kept.shared.contains(&home.pool) {
            return false;
        }
        kept.count += 1;
        kept.bytes += home.size;
        kept.pieces.entry(home).or_default().push(va);
        self.any.store(true, Ordering::Release);
        true
    }

    /// Takes the piece that was freed last in the same place, for an allocation.
    pub fn take(&self, home: Home) -> Option<u64> {
        if !self.any() {
            return None;
        }
        let mut kept = lock(&self.kept);
        let Entry::Occupied(mut e) = kept.pieces.entry(home) else {
            return None;
        };
        let va = e.get_mut().pop();
        if e.get().is_empty() {
            e.remove();
        }
        kept.note(&home, usize::from(va.is_some()));
        self.any.store(kept.count > 0, Ordering::Release);
        va
    }

    /// Takes what the worker has to hear of before a call is made, and has it told. Until all is
    /// told, other threads take it for kept, and wait for that before they make such a call: one
    /// may end a stream, in which nothing can be freed after that.
    pub fn give_back(&self, before: Outcome, mut tell: impl FnMut(&Home, u64)) -> Vec<Home> {
        let kept = &mut *lock(&self.kept);
        let stays = |home: &Home| before == Outcome::OfWaiting && kept.hold.contains(&home.pool);
        let mut gone = Vec::new();
        kept.pieces.retain(|home, pieces| {
            let stay = stays(home);
            if !stay {
                gone.extend(pieces.iter().map(|_| *home));
                pieces.iter().for_each(|va| tell(home, *va));
            }
            stay
        });
        gone.iter().for_each(|home| kept.note(home, 1));
        self.any.store(kept.count > 0, Ordering::Release);
        gone
    }

    /// What a pool holds on to when the program waits has changed.
    pub fn set_threshold(&self, pool: Pool, bytes: u64) {
        let mut kept = lock(&self.kept);
        if bytes > 0 {
            kept.hold.insert(pool);
        } else {
            kept.hold.remove(&pool);
        }
    }

    /// Other processes may take part in a pool: what is freed there is freed at once.
    pub fn is_shared(&self, pool: Pool) {
        lock(&self.kept).shared.insert(pool);
    }

    /// A pool of the program's is gone; its number may come again.
    pub fn forget(&self, pool: Pool) {
        let mut kept = lock(&self.kept);
        kept.hold.remove(&pool);
        kept.shared.remove(&pool);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given_back(r: &Recycled, before: Outcome) -> Vec<(Home, u64)> {
        let mut told = Vec::new();
        let gone = r.give_back(before, |home, va| told.push((*home, va)));
        assert_eq!(gone.len(), told.len());
        told
    }

    const DEFAULT: Pool = (0, 0);
    const OWN: Pool = (0, 7);

    fn home(stream: u32, pool: Pool, size: u64) -> Home {
        Home {
            scope: 1,
            stream,
            pool,
            size,
        }
    }

    #[test]
    fn a_piece_is_for_the_same_stream_pool_and_size_alone() {
        let r = Recycled::default();
        let a = home(3, DEFAULT, 64);
        assert!(!r.any() && r.take(a).is_none());
        assert!(r.keep(a, 0x100) && r.keep(a, 0x200) && r.any());
        let others = [home(4, DEFAULT, 64), home(3, OWN, 64), home(3, DEFAULT, 65)];
        let elsewhere = Home { scope: 2, ..a };
        for other in others.into_iter().chain([elsewhere]) {
            assert_eq!(r.take(other), None);
        }
        assert_eq!(
            (r.take(a), r.take(a), r.take(a)),
            (Some(0x200), Some(0x100), None)
        );
        assert!(!r.any());
    }

    #[test]
    fn a_wait_leaves_what_its_pool_holds_on_to() {
        let r = Recycled::default();
        let (a, b) = (home(3, DEFAULT, 64), home(3, OWN, 64));
        r.set_threshold(OWN, 1);
        assert!(r.keep(a, 0x100) && r.keep(b, 0x200));
        assert_eq!(given_back(&r, Outcome::OfWaiting), [(a, 0x100)]);
        assert_eq!(given_back(&r, Outcome::OfWaiting), []);
        assert!(r.any());
        assert_eq!(given_back(&r, Outcome::OfMemory), [(b, 0x200)]);
        assert!(!r.any());
        r.set_threshold(OWN, 0);
        assert!(r.keep(b, 0x200));
        assert_eq!(given_back(&r, Outcome::OfWaiting), [(b, 0x200)]);
    }

    #[test]
    fn who_ends_a_stream_comes_behind_what_another_thread_is_telling_of() {
        let (r, said) = (Recycled::default(), Mutex::new(Vec::new()));
        let over = AtomicBool::new(false);
        let tell = |h: &Home, _| {
            std::thread::yield_now();
            lock(&said).push((h.stream, true));
        };
        std::thread::scope(|s| {
            s.spawn(|| {
                while !over.load(Ordering::Acquire) {
                    r.give_back(Outcome::OfMemory, tell);
                }
            });
            for stream in 0..2000 {
                assert!(r.keep(home(stream, DEFAULT, 64), 0x100));
                if r.any() {
                    r.give_back(Outcome::OfMemory, tell);
                }
                lock(&said).push((stream, false));
            }
            over.store(true, Ordering::Release);
        });
        let said = lock(&said);
        let place = |what| said.iter().position(|s| *s == what).expect("said");
        assert!((0..2000).all(|stream| place((stream, true)) < place((stream, false))));
    }

    #[test]
    fn nothing_is_kept_of_a_shared_pool_or_without_end() {
        let r = Recycled::default();
        r.is_shared(OWN);
        assert!(!r.keep(home(3, OWN, 64), 0x100));
        r.forget(OWN);
        assert!(r.keep(home(3, OWN, 64), 0x100));
        assert!(!r.keep(home(3, DEFAULT, MOST.1), 0x200), "too much");
        assert!(r.keep(home(3, DEFAULT, MOST.1 - 64), 0x200));
        assert!(!r.keep(home(3, DEFAULT, 1), 0x300));
        assert_eq!(given_back(&r, Outcome::OfMemory).len(), 2);
        for i in 0..MOST.0 as u64 {
            assert!(r.keep(home(3, DEFAULT, 1), i));
        }
        assert!(!r.keep(home(3, DEFAULT, 1), 1 << 40), "too many");
    }
}
