//! What work takes on a device, by what work of its kind has taken.
//!
//! Seen is how long several pieces took together. Where a kind is new among them, what those of
//! known kinds do not account for is its own; otherwise all of them took longer or shorter than was
//! thought by the same part. Work is cut at other places each time, so each kind comes near to what
//! it takes.

use crate::prelude::*;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};

/// What a piece of work is: those of one kind take about as long.
pub type WorkKind = u64;

/// The kind of work that can be told apart so.
pub fn kind(work: impl Hash) -> WorkKind {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(work)
}

/// What a piece of an unknown kind is thought to take: one of them is seen by itself.
pub const UNKNOWN: u64 = 500_000;
/// Marks are seen to be done late, and then several at once: of the last one alone it would seem
/// that it took no time. So pieces are looked at that took so long together.
const SAMPLE: u64 = 250_000;
/// The least and the most that a piece is thought to take.
const LEAST: u64 = 500;
const MOST: u64 = 1_000_000_000;
/// How much of what a sample says is believed of a kind that is known: one in so many parts, of
/// what is so many times more or less at most.
const PARTS: u64 = 4;
/// Kinds that are known at most, and kinds of a sample.
const KINDS: usize = 4096;

/// Some work.
#[derive(Debug, Default)]
pub struct Pieces {
    /// How many pieces.
    pub count: u32,
    /// What they are thought to take.
    pub time: u64,
    /// When the first of them was submitted, by the board's clock; 0 if nothing is known of that.
    pub since: u64,
    kinds: Vec<(WorkKind, u32)>,
}

/// What is known of kinds.
#[derive(Debug, Default)]
pub struct Costs {
    known: HashMap<WorkKind, u64>,
    /// What was seen to be done since something was learned, and how long it took.
    sample: Vec<(WorkKind, u32)>,
    took: u64,
    /// Others had a part of that time.
    shared: bool,
}

impl Pieces {
    /// Work of which nothing else is known.
    pub fn unknown() -> Self {
        Self {
            count: 1,
            time: UNKNOWN,
            ..Self::default()
        }
    }

    /// One more.
    pub fn add(&mut self, kind: WorkKind, time: u64) {
        self.count += 1;
        self.time += time;
        match self.kinds.last_mut() {
            Some((last, n)) if *last == kind => *n += 1,
            _ => self.kinds.push((kind, 1)),
        }
    }
}

impl Costs {
    /// What a piece is thought to take.
    pub fn of(&self, kind: WorkKind) -> u64 {
        self.known.get(&kind).copied().unwrap_or(UNKNOWN)
    }

    /// These took so long together, of time that so many had: each its part of that. Others' work
    /// makes nothing longer. Of who believed that it does, less would be under way, so that it
    /// would have its turn with less, and what it has would seem to take longer still.
    pub fn learn(&mut self, pieces: &Pieces, took: u64, holders: u32) {
        if pieces.kinds.is_empty() {
            return;
        }
        self.sample.extend(&pieces.kinds);
        self.took = self.took.saturating_add(took / u64::from(holders.max(1)));
        self.shared |= holders > 1;
        if self.took < SAMPLE && self.sample.len() < KINDS {
            return;
        }
        let (mut sample, took) = (std::mem::take(&mut self.sample), self.took);
        self.took = 0;
        let alone = !std::mem::take(&mut self.shared);
        sample.sort_unstable();
        sample.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            kept.1 += if same { next.1 } else { 0 };
            same
        });
        if self.known.len() + sample.len() > KINDS {
            self.known.clear();
        }
        let (mut thought, mut new) = (0u64, 0u64);
        for (kind, n) in &sample {
            match self.known.get(kind) {
                Some(each) => thought += each * u64::from(*n),
                None => new += u64::from(*n),
            }
        }
        for (kind, _) in sample {
            let each = match self.known.get(&kind) {
                None => took.saturating_sub(thought) / new,
                Some(_) if new > 0 => continue,
                Some(each) => {
                    let seen = u128::from(*each) * u128::from(took) / u128::from(thought);
                    let seen = u64::try_from(seen).unwrap_or(MOST);
                    // What waited for a host or a peer says little of the device.
                    let most = if alone { each * PARTS } else { *each };
                    let seen = seen.clamp(each / PARTS, most);
                    (each * (PARTS - 1) + seen) / PARTS
                }
            };
            self.known.insert(kind, each.clamp(LEAST, MOST));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs steps of these (kind, ns), cut where half a millisecond is thought to be full; returns
    /// how long the last step's cuts took in truth.
    fn run(costs: &mut Costs, step: &[(WorkKind, u64)], steps: usize) -> Vec<u64> {
        let (mut pieces, mut truth) = (Pieces::default(), 0);
        let mut cuts = Vec::new();
        for i in 0..steps {
            if i + 1 == steps {
                cuts.clear();
            }
            for (kind, takes) in step {
                pieces.add(*kind, costs.of(*kind));
                truth += takes;
                if pieces.time >= UNKNOWN {
                    costs.learn(&pieces, truth, 1);
                    cuts.push(truth);
                    (pieces, truth) = Default::default();
                }
            }
        }
        cuts
    }

    #[test]
    fn long_and_short_kinds_are_told_apart_by_how_long_several_took_together() {
        // Convolutions between short ones, and a phase of nothing but short ones, as training has.
        let mut step = Vec::new();
        for layer in 0..20 {
            step.extend([
                (layer, 200_000 + layer * 10_000),
                (100, 20_000),
                (101, 8_000),
            ]);
        }
        step.extend((0..300).map(|i| (200 + i % 3, 4_000)));
        let mut costs = Costs::default();
        let cuts = run(&mut costs, &step, 30);
        // Kinds that always come together are told apart slowly, and need not be.
        let near = |cut: &u64| (UNKNOWN / 2..UNKNOWN * 2).contains(cut);
        assert!(cuts.iter().all(near), "{cuts:?}");
        let of = |kind| costs.of(kind);
        assert!(of(5) > 2 * of(100) && of(100) > 2 * of(200), "{costs:?}");
    }

    #[test]
    fn marks_that_are_seen_at_once_are_not_taken_for_work_that_takes_no_time() {
        let mut costs = Costs::default();
        let mut two = Pieces::default();
        two.add(1, 0);
        // Pieces of 200 us, of which two are seen each time, 300 and 500 us after those before.
        for _ in 0..20 {
            for long in [300_000, 1_000, 500_000, 1_000] {
                costs.learn(&two, long, 1);
            }
        }
        assert!((150_000..300_000).contains(&costs.of(1)), "{}", costs.of(1));
    }

    #[test]
    fn whatever_is_new_each_time_does_not_fill_memory_and_extremes_are_bounded() {
        let mut costs = Costs::default();
        let of = |kind| {
            let mut p = Pieces::default();
            p.add(kind, UNKNOWN);
            p
        };
        for kind in 0..3 * KINDS as u64 {
            costs.learn(&of(kind), SAMPLE, 1);
        }
        assert!(costs.known.len() <= KINDS);
        for _ in 0..100 {
            costs.learn(&of(7), u64::MAX, 1);
        }
        assert!(costs.of(7) <= MOST && costs.of(7) > MOST / 2);
        let mut many = Pieces::default();
        (0..1000).for_each(|_| many.add(9, UNKNOWN));
        for _ in 0..100 {
            costs.learn(&many, SAMPLE, 1);
        }
        assert_eq!(costs.of(9), LEAST);
        // Of what takes no time there is not ever more to remember.
        for kind in 0..3 * KINDS as u64 {
            costs.learn(&of(kind), 0, 1);
        }
        assert!(costs.sample.len() < KINDS);
    }

    #[test]
    fn one_wait_for_a_host_does_not_make_kinds_long() {
        let mut costs = Costs::default();
        let mut some = Pieces::default();
        (0..50).for_each(|i| some.add(i % 5, UNKNOWN));
        (0..10).for_each(|_| costs.learn(&some, 500_000, 1));
        costs.learn(&some, 1_000_000_000, 1);
        assert!(costs.of(3) < 20_000, "{}", costs.of(3));
    }

    #[test]
    fn what_others_have_of_the_time_makes_nothing_long() {
        // Four have the device by turns of 2 ms, and pieces take 5 us. As much is under way as
        // there is room for.
        let together = |costs: &mut Costs, kind| {
            for _ in 0..200 {
                let mut some = Pieces::default();
                while some.time < 4 * 1_000_000 {
                    some.add(kind, costs.of(kind));
                }
                let took = 3 * 2_000_000 + u64::from(some.count) * 5_000;
                costs.learn(&some, took, 4);
            }
        };
        let mut costs = Costs::default();
        let mut some = Pieces::default();
        (0..50).for_each(|_| some.add(1, UNKNOWN));
        (0..20).for_each(|_| costs.learn(&some, 250_000, 1));
        let near = |time: u64| (1_500..=6_000).contains(&time);
        assert!(near(costs.of(1)), "{}", costs.of(1));
        together(&mut costs, 1);
        assert!(near(costs.of(1)), "{}", costs.of(1));
        // What was never seen alone.
        together(&mut costs, 2);
        assert!(near(costs.of(2)), "{}", costs.of(2));
    }
}
