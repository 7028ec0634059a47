//! Work that lasts, and what the program sees beside it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Condvar};
use std::time::{Duration, Instant};

/// How long it is in vain to wait for work that has outlasted an access. What is known of its end
/// may have come before what was known of its length.
const IN_VAIN: Duration = Duration::from_secs(1);

/// The most accesses that wait, or whose waiting goes on: each has a thread.
const MOST_WAITS: usize = 64;

/// Blocks of an area that the program was let in to.
#[derive(Debug, Clone, Copy)]
pub struct Seen {
    pub area: u64,
    pub first: usize,
    pub n: usize,
}

/// Work that lasts, and what the program sees beside it.
#[derive(Debug, Default)]
pub struct Late {
    /// Contexts and streams whose work accesses have waited for in vain, up to which mark, and
    /// when.
    outlasted: HashMap<(u32, u32), (u64, Instant)>,
    /// How many accesses wait, or have waited in vain and wait on.
    waits: usize,
    /// The latest last.
    pub seen: Vec<Seen>,
    /// When it is closed.
    pub closes: Option<Instant>,
    /// Pages in which the program has done atomic operations beside such work.
    pub atomics: HashSet<u64>,
    /// The device does none.
    pub no_atomics: bool,
    /// The worker knows that there is such work.
    pub apart: bool,
    pub woken: Arc<Condvar>,
}

impl Late {
    /// Whether it may be in vain to wait, for whatever it is.
    pub fn may_last(&self) -> bool {
        self.waits >= MOST_WAITS || !self.outlasted.is_empty() || !self.seen.is_empty()
    }

    /// Whether it is in vain to wait for some work.
    pub fn lasts(&self, owed: &[(u32, u32)]) -> bool {
        let lately = |work| {
            let known = self.outlasted.get(work);
            known.is_some_and(|(_, when)| when.elapsed() < IN_VAIN)
        };
        self.waits >= MOST_WAITS || owed.iter().any(lately)
    }

    /// An access begins to wait.
    pub fn begins(&mut self) {
        self.waits += 1;
    }

    /// What an access has waited for is over.
    pub fn ends(&mut self) {
        self.waits = self.waits.saturating_sub(1);
    }

    /// It was in vain to wait for some work.
    pub fn outlasted(&mut self, work: Vec<(u32, u32)>, mark: u64) {
        let lasting = work.into_iter().map(|work| (work, (mark, Instant::now())));
        self.outlasted.extend(lasting);
    }

    /// Whether any work lasts.
    pub fn is_any(&self) -> bool {
        !self.outlasted.is_empty()
    }

    /// Whether the program was let in to a block, and is still.
    pub fn sees(&self, area: u64, block: usize) -> bool {
        let has = |s: &Seen| s.area == area && (s.first..s.first + s.n).contains(&block);
        self.seen.iter().any(has)
    }

    /// Some work is over.
    pub fn over(&mut self, is_over: impl Fn((u32, u32), u64) -> bool) {
        self.outlasted.retain(|work, (n, _)| !is_over(*work, *n));
    }
}
