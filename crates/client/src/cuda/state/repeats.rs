//! What the worker has already: parameters of launches, and bytes of page-locked memory.
//!
//! Kernels that work on many tensors at once take 4 KiB of parameters, or lists of addresses that
//! are copied to the device for them, and a training gives them the same at every step. Each thread
//! has places for those at the worker, which its own records alone fill and name: they run in the
//! thread's order.

use super::prelude::*;
use busbar_wire::generated::cuda::contract::{
    COPY_BYTES, COPY_MOST, COPY_PLACES, KEPT_BYTES, KEPT_MOST, KEPT_PLACES,
};

/// What is kept of one kind.
struct Rule {
    /// What is shorter or longer is sent each time.
    least: usize,
    longest: usize,
    /// Places that there are, and that a thread has.
    places: u32,
    each: u32,
    /// Bytes of all together.
    most: usize,
    /// So many words stand for all bytes, until these have come twice; all words where it is 0.
    sample: usize,
}

/// Parameters of launches, which are short: one look at each byte is cheap.
const PARAMETERS: Rule = Rule {
    least: LONG as usize,
    longest: KEPT_BYTES as usize,
    places: KEPT_PLACES,
    each: KEPT_PLACES / 8,
    most: KEPT_MOST as usize,
    sample: 0,
};

/// Bytes of page-locked memory that are copied to a device.
const COPIES: Rule = Rule {
    least: 4097,
    longest: COPY_BYTES as usize,
    places: COPY_PLACES,
    each: COPY_PLACES / 8,
    most: COPY_MOST as usize,
    sample: 96,
};

/// Parameters that are shorter are sent each time.
pub const LONG: u32 = 512;

/// How often the same few words may turn out to stand for other bytes.
const STRIKES: u32 = 3;

/// The places of a session at its worker, of which threads take some.
pub struct Places {
    rule: &'static Rule,
    begun: AtomicU32,
    /// Those of threads that have ended, and how many bytes are kept there.
    free: Mutex<Vec<(u32, Vec<Place>)>>,
    /// Bytes that are kept at all of them.
    kept: AtomicUsize,
}

impl Places {
    fn new(rule: &'static Rule) -> Self {
        Self {
            rule,
            begun: AtomicU32::new(0),
            free: Mutex::default(),
            kept: AtomicUsize::new(0),
        }
    }

    /// Places for a thread, with what is kept there; `None` when others have all.
    fn take(&self) -> Option<(u32, Vec<Place>)> {
        lock(&self.free).pop().or_else(|| {
            let Rule { places, each, .. } = *self.rule;
            let next = |n: u32| (n < places / each).then_some(n + 1);
            let begun = &self.begun;
            let number = begun.fetch_update(Ordering::AcqRel, Ordering::Relaxed, next);
            let empty = || (0..each).map(|_| Place::default()).collect();
            number.ok().map(|n| (n * each, empty()))
        })
    }

    /// Whether that many bytes more may be kept in the place of others.
    fn grow(&self, more: usize, less: usize) -> bool {
        let grown = |n: usize| (n + more - less <= self.rule.most).then(|| n + more - less);
        let kept = &self.kept;
        kept.fetch_update(Ordering::AcqRel, Ordering::Relaxed, grown)
            .is_ok()
    }
}

/// All that a session's worker keeps.
pub struct Kept {
    /// Parameters of launches.
    pub parameters: Places,
    /// Bytes that are copied to devices.
    pub copies: Places,
}

impl Default for Kept {
    fn default() -> Self {
        Self {
            parameters: Places::new(&PARAMETERS),
            copies: Places::new(&COPIES),
        }
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
    /// The thread's count of lookups when these were last looked up.
    used: u64,
    /// How often other bytes had the same hash.
    strikes: u32,
}

/// How bytes are sent.
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
    /// How often something has been looked up.
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

    /// How these bytes are sent. What comes for the second time is kept: most that comes once
    /// never comes again.
    pub fn look(&mut self, bytes: &[u8]) -> Sent {
        let rule = self.of.rule;
        let n = bytes.len();
        if n < rule.least || n > rule.longest {
            return Sent::Plain;
        }
        self.count += 1;
        let hash = match rule.sample {
            0 => hash(bytes),
            words => sample(bytes, words),
        };
        // Each has two places where it may be.
        let at = (hash >> 32) as usize % (rule.each as usize / 2) * 2;
        let Some(i) = (at..at + 2).find(|i| self.places[*i].hash == hash) else {
            self.note(at, hash);
            return Sent::Plain;
        };
        let p = &mut self.places[i];
        p.used = self.count;
        if *p.bytes == *bytes {
            p.strikes = 0;
            return Sent::Again(self.first + i as u32);
        }
        // What changes each time, but for the words that stand for it, is not worth a place.
        if !p.bytes.is_empty() {
            p.strikes += 1;
        }
        if p.strikes > STRIKES || !self.of.grow(n, p.held) {
            return Sent::Plain;
        }
        (p.bytes, p.held) = (bytes.into(), n);
        Sent::Kept(self.first + i as u32)
    }

    /// Notes what came for the first time, where nothing is kept that came lately.
    fn note(&mut self, at: usize, hash: u64) {
        let oldest = self.count.saturating_sub(2 * u64::from(self.of.rule.each));
        let places = &mut self.places[at..at + 2];
        let free = |p: &&mut Place| p.bytes.is_empty() || p.used < oldest;
        if let Some(p) = places.iter_mut().filter(free).min_by_key(|p| p.used) {
            (p.hash, p.bytes, p.used) = (hash, Box::default(), self.count);
            p.strikes = 0;
        }
    }
}

const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

#[inline]
fn mix(h: u64, word: u64) -> u64 {
    (h ^ word).wrapping_mul(ODD).rotate_left(29)
}

/// A hash of so many words, of which a third are the first, a third the last, and the others lie
/// evenly between them, and of the length: lists differ in the addresses at one of their ends.
fn sample(bytes: &[u8], words: usize) -> u64 {
    let (all, _) = bytes.as_chunks::<8>();
    let third = words / 3;
    let between = all.iter().step_by(all.len().div_ceil(third).max(1));
    let ends = all.iter().take(third).chain(all.iter().rev().take(third));
    let each = ends.chain(between).map(|w| u64::from_ne_bytes(*w));
    mix(each.fold(bytes.len() as u64, mix), ODD) | 1
}

/// A hash of all bytes. It decides nothing alone: what is sent by its place is compared.
fn hash(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let (fours, left) = words.as_chunks::<4>();
    let [mut a, mut b, mut c, mut d] = [1u64, 2, 3, 4];
    for [e, f, g, h] in fours {
        a = mix(a, u64::from_ne_bytes(*e));
        b = mix(b, u64::from_ne_bytes(*f));
        c = mix(c, u64::from_ne_bytes(*g));
        d = mix(d, u64::from_ne_bytes(*h));
    }
    for w in left {
        a = mix(a, u64::from_ne_bytes(*w));
    }
    for byte in rest {
        b = mix(b, u64::from(*byte));
    }
    let all = [a, b, c, d].into_iter().fold(bytes.len() as u64, mix);
    // Not 0, which stands for nothing.
    mix(all, ODD) | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const EACH: u32 = PARAMETERS.each;

    fn places() -> &'static Places {
        Box::leak(Box::new(Places::new(&PARAMETERS)))
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

    #[test]
    fn of_bytes_that_are_copied_a_few_words_are_looked_at_first() {
        let of = Box::leak(Box::new(Places::new(&COPIES)));
        let mut r = Repeats::new(of).unwrap();
        let a = params(100_000, 1);
        assert_eq!(r.look(&a), Sent::Plain);
        let Sent::Kept(place) = r.look(&a) else {
            panic!("it has come twice")
        };
        assert_eq!(r.look(&a), Sent::Again(place));
        // A byte that none of the words has, so that other bytes are taken for these: they are kept
        // in their stead, and never taken for them.
        let mut near = a.clone();
        near[321] ^= 1;
        assert_eq!(r.look(&near), Sent::Kept(place));
        assert_eq!(r.look(&near), Sent::Again(place));
        // What changes so each time is soon sent each time.
        let changing = (0..20u8).map(|i| {
            near[321] = i;
            r.look(&near)
        });
        let kept = changing.filter(|s| matches!(s, Sent::Kept(_))).count();
        assert!(kept <= STRIKES as usize, "{kept}");
        assert_eq!(r.look(&a[..4096]), Sent::Plain);
    }
}
