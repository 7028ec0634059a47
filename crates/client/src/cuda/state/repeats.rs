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
    /// What is shorter is only known as the last of its kind.
    own: usize,
    /// Places that there are, and that a thread has.
    places: u32,
    each: u32,
    /// Bytes of all together.
    most: usize,
    /// So many words stand for all bytes, until these have come twice. Where it is 0, what is
    /// lasting of all words does.
    sample: usize,
}

/// Parameters of launches, which are short: one look at each byte is cheap.
const PARAMETERS: Rule = Rule {
    least: LONG as usize,
    longest: KEPT_BYTES as usize,
    own: 512,
    places: KEPT_PLACES,
    each: KEPT_PLACES / 8,
    most: KEPT_MOST as usize,
    sample: 0,
};

/// Bytes of a word of parameters that may change.
const WORD: usize = 4;

/// Bytes of page-locked memory that are copied to a device.
const COPIES: Rule = Rule {
    least: 4097,
    longest: COPY_BYTES as usize,
    own: 0,
    places: COPY_PLACES,
    each: COPY_PLACES / 8,
    most: COPY_MOST as usize,
    sample: 96,
};

/// Parameters that are shorter are sent each time: they take no longer than a look at them.
pub const LONG: u32 = 192;

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
    /// Likewise, with words that have changed there.
    Changed(u32),
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

    /// How these bytes, of something with that number, are sent. What comes for the second time is
    /// kept: most that comes once never comes again. With `changes`, what differs in a few words
    /// from what is kept changes these, which are put there: from what is known by the same, or
    /// else from what the last of that number and length was.
    pub fn look(&mut self, of: u32, bytes: &[u8], changes: Option<&mut Vec<u8>>) -> Sent {
        let rule = self.of.rule;
        let n = bytes.len();
        if n < rule.least || n > rule.longest {
            return Sent::Plain;
        }
        self.count += 1;
        if n >= rule.own {
            let key = match rule.sample {
                0 => hash(of, bytes),
                words => sample(bytes, words),
            };
            if let Some(i) = self.known(key) {
                return self.sent(i, bytes, changes);
            }
        }
        if changes.is_some()
            && let Some(i) = self.known(last_of(of, n))
        {
            return self.sent(i, bytes, changes);
        }
        Sent::Plain
    }

    /// Where that is which has this hash. What has none yet is noted.
    fn known(&mut self, hash: u64) -> Option<usize> {
        // Each has two places where it may be.
        let at = (hash >> 32) as usize % (self.of.rule.each as usize / 2) * 2;
        let found = (at..at + 2).find(|i| self.places[*i].hash == hash);
        if found.is_none() {
            self.note(at, hash);
        }
        found
    }

    /// How bytes are sent that may be what is kept there.
    fn sent(&mut self, i: usize, bytes: &[u8], changes: Option<&mut Vec<u8>>) -> Sent {
        let place = self.first + i as u32;
        let p = &mut self.places[i];
        p.used = self.count;
        if *p.bytes == *bytes {
            p.strikes = 0;
            return Sent::Again(place);
        }
        if let Some(changes) = changes
            && differences(&p.bytes, bytes, changes)
        {
            p.bytes.copy_from_slice(bytes);
            p.strikes = 0;
            return Sent::Changed(place);
        }
        // What changes each time, but for the words that stand for it, is not worth a place.
        if !p.bytes.is_empty() {
            p.strikes += 1;
        }
        if p.strikes > STRIKES || !self.of.grow(bytes.len(), p.held) {
            return Sent::Plain;
        }
        (p.bytes, p.held) = (bytes.into(), bytes.len());
        Sent::Kept(place)
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

/// What the last parameters of a kernel are known by, that have this length.
fn last_of(of: u32, len: usize) -> u64 {
    mix(mix(!0, u64::from(of) << 32 | len as u64), ODD) | 1
}

/// Writes which words have changed, if they are few enough to be worth it.
fn differences(kept: &[u8], bytes: &[u8], changes: &mut Vec<u8>) -> bool {
    if kept.len() != bytes.len() {
        return false;
    }
    let most = bytes.len() / 2;
    let (before, rest) = kept.as_chunks::<8>();
    let (now, tail) = bytes.as_chunks::<8>();
    // Two words at a time, which mostly are the same.
    for (i, pair) in before
        .iter()
        .zip(now)
        .enumerate()
        .filter(|(_, (b, n))| b != n)
    {
        words(2 * i, pair.0, pair.1, changes);
        if changes.len() > most {
            return false;
        }
    }
    words(2 * now.len(), rest, tail, changes) && changes.len() <= most
}

/// Likewise of some words, of which the first is that one; false if anything behind them differs.
fn words(first: usize, before: &[u8], now: &[u8], changes: &mut Vec<u8>) -> bool {
    let (before, rest) = before.as_chunks::<WORD>();
    let (now, tail) = now.as_chunks::<WORD>();
    for (i, (_, word)) in (first..)
        .zip(before.iter().zip(now))
        .filter(|(_, (b, n))| b != n)
    {
        changes.extend_from_slice(&(i as u16).to_le_bytes());
        changes.extend_from_slice(word);
    }
    rest == tail
}

/// What parameters are known by, of a word of them: addresses, sizes and the like. Left out is what
/// an optimizer changes at each step: floating-point numbers, of which each half of a word but for
/// small whole numbers may be one.
#[inline]
fn lasting(word: [u8; 8]) -> u64 {
    const LOW: u64 = u32::MAX as u64;
    const SMALL: u64 = 1 << 23;
    let word = u64::from_ne_bytes(word);
    let (low, high) = (word & LOW, word >> 32);
    let all = |yes: bool| u64::from(yes).wrapping_neg();
    let is_address = all(high.wrapping_sub(1) < (1 << 16) - 1);
    let small = all(low < SMALL) & LOW | all(high < SMALL) & !LOW;
    word & (is_address | small)
}

/// A hash of the kernel, and of what lasts of its parameters. It decides nothing alone: what is
/// sent by its place is compared.
fn hash(of: u32, bytes: &[u8]) -> u64 {
    let (words, _) = bytes.as_chunks::<8>();
    let (fours, left) = words.as_chunks::<4>();
    let [mut a, mut b, mut c, mut d] = [1u64, 2, 3, 4];
    for [e, f, g, h] in fours {
        a = mix(a, lasting(*e));
        b = mix(b, lasting(*f));
        c = mix(c, lasting(*g));
        d = mix(d, lasting(*h));
    }
    for w in left {
        a = mix(a, lasting(*w));
    }
    let start = bytes.len() as u64 | u64::from(of) << 32;
    let all = [a, b, c, d].into_iter().fold(start, mix);
    // Not 0, which stands for nothing.
    mix(all, ODD) | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const EACH: u32 = PARAMETERS.each;
    /// Bytes of a change: which word it is, and the new one.
    const CHANGE: usize = 2 + WORD;

    fn places() -> &'static Places {
        Box::leak(Box::new(Places::new(&PARAMETERS)))
    }

    fn bytes(n: usize, seed: u64) -> Vec<u8> {
        (0..n).map(|i| (i as u64 * 31 + seed * 7) as u8).collect()
    }

    /// Parameters, of which the first word is an address.
    fn params(n: usize, seed: u64) -> Vec<u8> {
        let mut all = bytes(n, 0);
        let at = 0x7f00_0000_0000 + seed * 512;
        let first = n.min(8);
        all[..first].copy_from_slice(&at.to_le_bytes()[..first]);
        all
    }

    impl Repeats {
        /// How parameters of one kernel are sent to a worker that changes none.
        fn given(&mut self, bytes: &[u8]) -> Sent {
            self.look(3, bytes, None)
        }

        /// How bytes that are copied are sent.
        fn copied(&mut self, bytes: &[u8]) -> Sent {
            self.look(0, bytes, None)
        }
    }

    #[test]
    fn what_comes_again_is_sent_once_more_and_then_by_its_place() {
        let mut r = Repeats::new(places()).unwrap();
        let (a, b) = (params(4000, 1), params(4000, 2));
        assert_eq!((r.given(&a), r.given(&b)), (Sent::Plain, Sent::Plain));
        let Sent::Kept(first) = r.given(&a) else {
            panic!("it has come twice")
        };
        assert_eq!(r.given(&a), Sent::Again(first));
        let Sent::Kept(other) = r.given(&b) else {
            panic!("so has this one")
        };
        assert_ne!(first, other);
        let both = (r.given(&b), r.given(&a));
        assert_eq!(both, (Sent::Again(other), Sent::Again(first)));
        // Of another kernel, or of another length, they are others.
        assert_eq!(r.look(4, &a, None), Sent::Plain);
        assert_eq!(r.given(&a[..3992]), Sent::Plain);
    }

    #[test]
    fn short_ones_change_the_last_of_their_kernel_or_are_it_again() {
        let mut r = Repeats::new(places()).unwrap();
        let mut sent = |seed| r.look(3, &params(200, seed), Some(&mut Vec::new()));
        assert_eq!(sent(0), Sent::Plain);
        let Sent::Kept(place) = sent(0) else {
            panic!("it has come twice")
        };
        let then = [sent(0), sent(1), sent(0), sent(0)];
        let (again, changed) = (Sent::Again(place), Sent::Changed(place));
        assert_eq!(then, [again, changed, changed, again]);
        // To a worker that changes nothing they are sent each time.
        assert_eq!(r.look(3, &params(200, 0), None), Sent::Plain);
    }

    #[test]
    fn what_does_not_come_again_changes_the_last_of_its_kernel() {
        let mut r = Repeats::new(places()).unwrap();
        let mut sent = |of, seed| {
            let mut changes = Vec::new();
            let sent = r.look(of, &params(600, seed), Some(&mut changes));
            (sent, changes.len())
        };
        assert_eq!(sent(3, 0), (Sent::Plain, 0));
        let (Sent::Kept(last), 0) = sent(3, 1) else {
            panic!("another one has come")
        };
        assert_eq!(sent(4, 2), (Sent::Plain, 0), "of another kernel");
        // Half of an address.
        assert_eq!(sent(3, 3), (Sent::Changed(last), CHANGE));
        let (Sent::Kept(own), 0) = sent(3, 1) else {
            panic!("it has come twice")
        };
        assert_ne!(own, last);
        assert_eq!(sent(3, 1), (Sent::Again(own), 0));
        assert_eq!(sent(3, 4), (Sent::Changed(last), CHANGE));
    }

    #[test]
    fn every_byte_counts_and_words_that_change_are_sent() {
        let mut r = Repeats::new(places()).unwrap();
        let float = |x: f32| x.to_le_bytes();
        let mut a = params(4005, 1);
        a[100..].fill(0);
        for word in a[100..4004].chunks_exact_mut(4) {
            word.copy_from_slice(&float(0.25));
        }
        r.given(&a);
        let Sent::Kept(place) = r.given(&a) else {
            panic!("it has come twice")
        };
        let mut worker = a.clone();
        let mut changes = Vec::new();
        for (from, to, sent) in [
            (100, 104, Sent::Changed(place)),
            (3992, 4004, Sent::Changed(place)),
            (400, 1400, Sent::Changed(place)),
            // More than is worth it, and what is behind the last word.
            (400, 2400, Sent::Kept(place)),
            (4004, 4005, Sent::Kept(place)),
        ] {
            for (i, byte) in a[from..to].iter_mut().enumerate() {
                *byte ^= [1, 0, 0, 0][i % 4];
            }
            changes.clear();
            assert_eq!(r.look(3, &a, Some(&mut changes)), sent, "{from} to {to}");
            if let Sent::Changed(_) = sent {
                assert_eq!(changes.len(), (to - from) / WORD * CHANGE);
                for c in changes.as_chunks::<CHANGE>().0 {
                    let at = WORD * usize::from(u16::from_le_bytes([c[0], c[1]]));
                    worker[at..at + WORD].copy_from_slice(&c[2..]);
                }
            } else {
                worker.copy_from_slice(&a);
            }
            assert!(worker == a, "{from} to {to}");
            assert_eq!(r.given(&a), Sent::Again(place));
        }
        // A worker that changes nothing is sent all of it.
        a[100] ^= 1;
        assert_eq!(r.look(3, &a, None), Sent::Kept(place));
    }

    #[test]
    fn floating_point_numbers_do_not_last_and_all_else_does() {
        let word = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
        let float = |x: f32| x.to_bits();
        for (given, lasts) in [
            (word(7, 4096), word(7, 4096)),
            (0x7f12_3456_7890, 0x7f12_3456_7890),
            (0x3000_0000_0200, 0x3000_0000_0200),
            (word(float(0.9), float(-1e-8)), 0),
            (word(12, float(1.0)), 12),
            (0.1f64.to_bits(), 0),
            // Beside a small whole number it may be part of an address.
            (word(float(0.9), 65), word(float(0.9), 65)),
            (word(float(0.9), 1 << 17), word(0, 1 << 17)),
        ] {
            assert_eq!(lasting(given.to_ne_bytes()), lasts, "{given:x}");
        }
    }

    #[test]
    fn short_and_very_long_ones_are_always_sent() {
        let mut r = Repeats::new(places()).unwrap();
        for n in [0, 8, LONG as usize - 1, KEPT_BYTES as usize + 1] {
            for _ in 0..4 {
                assert_eq!(r.given(&params(n, 3)), Sent::Plain, "{n} bytes");
            }
        }
    }

    #[test]
    fn what_never_comes_again_does_not_push_out_what_does() {
        let mut r = Repeats::new(places()).unwrap();
        let a = params(600, 1);
        r.given(&a);
        let kept = r.given(&a);
        let Sent::Kept(place) = kept else {
            panic!("{kept:?}")
        };
        for seed in 0..3 * u64::from(EACH) {
            let once = params(600, 2 + seed);
            assert_eq!(r.given(&once), Sent::Plain);
            if seed % 1000 == 0 {
                assert_eq!(r.given(&a), Sent::Again(place));
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
            r.given(&a);
            match r.given(&a) {
                Sent::Kept(place) if place < KEPT_PLACES => found.push(place),
                other => panic!("{other:?}"),
            }
        }
        found.dedup();
        assert_eq!(found.len(), all.len(), "each has one of its own");
        // Who gets those of a thread that has ended knows nothing of what is kept there.
        drop(all.pop());
        let mut next = Repeats::new(of).unwrap();
        assert_eq!(next.given(&a), Sent::Plain);
        assert!(matches!(next.given(&a), Sent::Kept(_)));
    }

    #[test]
    fn no_more_is_kept_than_the_worker_keeps() {
        let of = places();
        let mut r = Repeats::new(of).unwrap();
        let n = KEPT_BYTES as usize;
        let mut kept = 0;
        for seed in 0..2 * u64::from(KEPT_MOST / KEPT_BYTES) {
            let one = params(n, seed);
            for _ in 0..2 {
                kept += n * usize::from(matches!(r.given(&one), Sent::Kept(_)));
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
        let a = bytes(100_000, 1);
        assert_eq!(r.copied(&a), Sent::Plain);
        let Sent::Kept(place) = r.copied(&a) else {
            panic!("it has come twice")
        };
        assert_eq!(r.copied(&a), Sent::Again(place));
        // A byte that none of the words has, so that other bytes are taken for these: they are kept
        // in their stead, and never taken for them.
        let mut near = a.clone();
        near[321] ^= 1;
        assert_eq!(r.copied(&near), Sent::Kept(place));
        assert_eq!(r.copied(&near), Sent::Again(place));
        // What changes so each time is soon sent each time.
        let changing = (0..20u8).map(|i| {
            near[321] = i;
            r.copied(&near)
        });
        let kept = changing.filter(|s| matches!(s, Sent::Kept(_))).count();
        assert!(kept <= STRIKES as usize, "{kept}");
        assert_eq!(r.copied(&a[..4096]), Sent::Plain);
    }
}
