//! Parameters of launches that the worker has already.
//!
//! Kernels that work on many tensors at once take 4 KiB of parameters, and an optimizer gives them
//! the same at every step. Each thread has places for those at the worker, which its own records
//! alone fill and name: they run in the thread's order.

use super::prelude::*;
use busbar_wire::generated::cuda::contract::{KEPT_BYTES, KEPT_MOST, KEPT_PLACES};

/// Shorter parameters are sent each time.
pub const LONG: u32 = 512;
/// Places that a thread has.
const EACH: u32 = 8192;
const _: () = assert!(KEPT_PLACES.is_multiple_of(EACH));

/// The places of a session at its worker, of which threads take some.
#[derive(Default)]
pub struct Places {
    begun: AtomicU32,
    /// Those of threads that have ended, and how many bytes are kept there.
    free: Mutex<Vec<(u32, Vec<Place>)>>,
    /// Bytes that are kept at all of them.
    kept: AtomicUsize,
}

impl Places {
    /// Places for a thread, with what is kept there; `None` when others have all.
    fn take(&self) -> Option<(u32, Vec<Place>)> {
        lock(&self.free).pop().or_else(|| {
            let next = |n: u32| (n < KEPT_PLACES / EACH).then_some(n + 1);
            let begun = &self.begun;
            let number = begun.fetch_update(Ordering::AcqRel, Ordering::Relaxed, next);
            let empty = || (0..EACH).map(|_| Place::default()).collect();
            number.ok().map(|n| (n * EACH, empty()))
        })
    }

    /// Whether that many bytes more may be kept in the place of others.
    fn grow(&self, more: usize, less: usize) -> bool {
        let grown = |n: usize| (n + more - less <= KEPT_MOST as usize).then(|| n + more - less);
        let kept = &self.kept;
        kept.fetch_update(Ordering::AcqRel, Ordering::Relaxed, grown)
            .is_ok()
    }
}

/// One place.
#[derive(Default)]
struct Place {
    /// Of the bytes that were last looked up here.
    hash: u64,
    /// These bytes, once the worker has them.
    bytes: Box<[u8]>,
    /// How many bytes the worker has here: perhaps of others.
    held: usize,
    /// The thread's count of parameters when these were last looked up.
    used: u64,
}

/// How parameters are sent.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub enum Sent {
    /// As they are.
    Plain,
    /// As they are, to be kept in a place.
    Kept(u32),
    /// By the place that they are kept in.
    Again(u32),
}

/// A thread's places.
pub struct Repeats {
    first: u32,
    places: Vec<Place>,
    /// How many parameters have been looked up.
    count: u64,
    of: &'static Places,
}

impl Drop for Repeats {
    fn drop(&mut self) {
        // Whoever has them next fills them behind all that this thread has queued.
        let mut places = std::mem::take(&mut self.places);
        for p in &mut places {
            (p.hash, p.bytes) = (0, Box::default());
        }
        lock(&self.of.free).push((self.first, places));
    }
}

impl Repeats {
    /// Places of a thread's own, if there are any left.
    pub fn new(of: &'static Places) -> Option<Self> {
        let (first, places) = of.take()?;
        let count = 0;
        Some(Self {
            first,
            places,
            count,
            of,
        })
    }

    /// How these parameters are sent. What comes for the second time is kept: most that comes once
    /// never comes again.
    pub fn look(&mut self, params: &[u8]) -> Sent {
        let n = params.len();
        if n < LONG as usize || n > KEPT_BYTES as usize {
            return Sent::Plain;
        }
        self.count += 1;
        let hash = hash(params);
        // Each has two places where it may be.
        let at = (hash >> 32) as usize % (EACH as usize / 2) * 2;
        let Some(i) = (at..at + 2).find(|i| self.places[*i].hash == hash) else {
            self.note(at, hash);
            return Sent::Plain;
        };
        let p = &mut self.places[i];
        p.used = self.count;
        if *p.bytes == *params {
            return Sent::Again(self.first + i as u32);
        }
        // Of two with one hash the first stays.
        if !p.bytes.is_empty() || !self.of.grow(n, p.held) {
            return Sent::Plain;
        }
        (p.bytes, p.held) = (params.into(), n);
        Sent::Kept(self.first + i as u32)
    }

    /// Notes what came for the first time, where nothing is kept that came lately.
    fn note(&mut self, at: usize, hash: u64) {
        let oldest = self.count.saturating_sub(2 * u64::from(EACH));
        let places = &mut self.places[at..at + 2];
        let free = |p: &&mut Place| p.bytes.is_empty() || p.used < oldest;
        if let Some(p) = places.iter_mut().filter(free).min_by_key(|p| p.used) {
            (p.hash, p.bytes, p.used) = (hash, Box::default(), self.count);
        }
    }
}

/// A hash of all bytes. It decides nothing alone: what is sent by its place is compared.
fn hash(bytes: &[u8]) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |h: u64, word: u64| (h ^ word).wrapping_mul(ODD).rotate_left(29);
    let (words, rest) = bytes.as_chunks::<8>();
    let mut each = [1u64, 2, 3, 4];
    let (fours, left) = words.as_chunks::<4>();
    for four in fours {
        for (h, w) in each.iter_mut().zip(four) {
            *h = mix(*h, u64::from_ne_bytes(*w));
        }
    }
    for w in left {
        each[0] = mix(each[0], u64::from_ne_bytes(*w));
    }
    for b in rest {
        each[1] = mix(each[1], u64::from(*b));
    }
    let all = each.into_iter().fold(bytes.len() as u64, mix);
    // Not 0, which stands for nothing.
    mix(all, ODD) | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places() -> &'static Places {
        Box::leak(Box::default())
    }

    fn params(n: usize, seed: u64) -> Vec<u8> {
        (0..n).map(|i| (i as u64 * 31 + seed * 7) as u8).collect()
    }

    #[test]
    fn what_comes_again_is_sent_once_more_and_then_by_its_place() {
        let mut r = Repeats::new(places()).unwrap();
        let (a, b) = (params(4000, 1), params(4000, 2));
        assert_eq!((r.look(&a), r.look(&b)), (Sent::Plain, Sent::Plain));
        let Sent::Kept(first) = r.look(&a) else {
            panic!("it has come twice")
        };
        assert_eq!(r.look(&a), Sent::Again(first));
        let Sent::Kept(other) = r.look(&b) else {
            panic!("so has this one")
        };
        assert_ne!(first, other);
        assert_eq!(
            (r.look(&b), r.look(&a)),
            (Sent::Again(other), Sent::Again(first))
        );
        // Every byte counts, the last one, too, and so does the length.
        for at in [0, 1999, 3999] {
            let mut near = a.clone();
            near[at] ^= 1;
            assert_eq!(r.look(&near), Sent::Plain, "byte {at}");
        }
        assert_eq!(r.look(&a[..3999]), Sent::Plain);
    }

    #[test]
    fn short_and_very_long_ones_are_always_sent() {
        let mut r = Repeats::new(places()).unwrap();
        for n in [0, 8, LONG as usize - 1, KEPT_BYTES as usize + 1] {
            for _ in 0..4 {
                assert_eq!(r.look(&params(n, 3)), Sent::Plain, "{n} bytes");
            }
        }
    }

    #[test]
    fn what_never_comes_again_does_not_push_out_what_does() {
        let mut r = Repeats::new(places()).unwrap();
        let a = params(600, 1);
        r.look(&a);
        let kept = r.look(&a);
        let Sent::Kept(place) = kept else {
            panic!("{kept:?}")
        };
        for seed in 0..3 * u64::from(EACH) {
            let mut once = params(600, 0);
            once[..8].copy_from_slice(&seed.to_ne_bytes());
            assert_eq!(r.look(&once), Sent::Plain);
            if seed % 1000 == 0 {
                assert_eq!(r.look(&a), Sent::Again(place));
            }
        }
    }

    #[test]
    fn threads_have_places_of_their_own_as_long_as_there_are_any() {
        let of = places();
        let mut all: Vec<_> = std::iter::from_fn(|| Repeats::new(of)).collect();
        assert_eq!(all.len(), (KEPT_PLACES / EACH) as usize);
        let a = params(1000, 5);
        let mut found = Vec::new();
        for r in &mut all {
            r.look(&a);
            match r.look(&a) {
                Sent::Kept(place) if place < KEPT_PLACES => found.push(place),
                other => panic!("{other:?}"),
            }
        }
        found.dedup();
        assert_eq!(found.len(), all.len(), "each has one of its own");
        // Who gets those of a thread that has ended knows nothing of what is kept there.
        drop(all.pop());
        let mut next = Repeats::new(of).unwrap();
        assert_eq!(next.look(&a), Sent::Plain);
        assert!(matches!(next.look(&a), Sent::Kept(_)));
    }

    #[test]
    fn no_more_is_kept_than_the_worker_keeps() {
        let of = places();
        let mut r = Repeats::new(of).unwrap();
        let n = KEPT_BYTES as usize;
        let mut kept = 0;
        for seed in 0..2 * u64::from(KEPT_MOST / KEPT_BYTES) {
            let mut one = params(n, 0);
            one[..8].copy_from_slice(&seed.to_ne_bytes());
            for _ in 0..2 {
                kept += n * usize::from(matches!(r.look(&one), Sent::Kept(_)));
            }
        }
        assert_eq!(kept, of.kept.load(Ordering::Relaxed));
        assert!(
            kept <= KEPT_MOST as usize && kept > KEPT_MOST as usize * 9 / 10,
            "{kept}"
        );
    }
}
