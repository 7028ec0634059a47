//! What a session has, for whoever asks while the executor is at work: numbers of objects, and
//! device memory, and of the host's what is page-locked.

use crate::memory::Gate;
use crate::prelude::*;
use busbar_control::holding::Holding;

/// How many objects of one kind there are. The default counts for nobody.
#[derive(Clone, Default, Debug)]
pub struct Counter(Arc<AtomicU64>);

impl Counter {
    /// One more.
    pub fn up(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// One less.
    pub fn down(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A session's inventory. Cheap to clone.
#[derive(Clone, Default)]
pub struct Inventory {
    /// What device memory passes.
    pub gate: Gate,
    counters: Arc<Mutex<Vec<(&'static str, Counter)>>>,
}

impl Inventory {
    /// The counter of a kind.
    pub fn counter(&self, kind: &'static str) -> Counter {
        let mut all = lock(&self.counters);
        if let Some((_, c)) = all.iter().find(|(k, _)| *k == kind) {
            return c.clone();
        }
        let new = Counter::default();
        all.push((kind, new.clone()));
        new
    }

    /// What there is.
    pub fn holding(&self) -> Holding {
        let counters = lock(&self.counters);
        let counts = counters
            .iter()
            .map(|(kind, c)| (*kind, c.0.load(Ordering::Relaxed)));
        let there = counts.filter(|(_, n)| *n > 0);
        Holding {
            objects: there.map(|(kind, n)| (kind.to_string(), n)).collect(),
            memory: self.gate.figures(),
            host_memory: self.gate.of_host(),
        }
    }
}
