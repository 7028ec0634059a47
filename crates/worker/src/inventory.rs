//! What a session has, for whoever asks while the executor is at work: numbers of objects, and
//! device memory, and of the host's what is page-locked.

use crate::memory::Gate;
use crate::outbox::Outbox;
use crate::prelude::*;
use busbar_control::holding::{Holding, Traffic};

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

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What the executor has done. It alone writes here, once for each frame: no call pays for being
/// counted.
#[derive(Default)]
pub struct Tally {
    records: AtomicU64,
    round_trips: AtomicU64,
}

impl Tally {
    /// How many records were executed, those of the frame that is being executed left out.
    pub(crate) fn records(&self) -> u64 {
        self.records.load(Ordering::Acquire)
    }

    /// Counts a frame's records, and those of them that are answered.
    pub(crate) fn done(&self, records: u64, round_trips: u64) {
        let add = |to: &AtomicU64, n| to.store(to.load(Ordering::Relaxed) + n, Ordering::Relaxed);
        add(&self.records, records);
        add(&self.round_trips, round_trips);
    }
}

/// A session's inventory. Cheap to clone.
#[derive(Clone, Default)]
pub struct Inventory {
    /// What device memory passes.
    pub gate: Gate,
    pub(crate) tally: Arc<Tally>,
    /// What knows how much comes and goes.
    outbox: Outbox,
    counters: Arc<Mutex<Vec<(&'static str, Counter)>>>,
}

impl Inventory {
    /// Of a session that speaks through this.
    pub(crate) fn of(outbox: Outbox) -> Self {
        Self {
            outbox,
            ..Self::default()
        }
    }

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

    fn traffic(&self) -> Traffic {
        let n = |of: &AtomicU64| of.load(Ordering::Relaxed);
        let [[bytes_in, bytes_out], [rdma_in, rdma_out]] = self.outbox.carried();
        Traffic {
            records: n(&self.tally.records),
            round_trips: n(&self.tally.round_trips),
            bytes_in,
            bytes_out,
            rdma_in,
            rdma_out,
        }
    }

    /// What there is.
    pub fn holding(&self) -> Holding {
        let counters = lock(&self.counters);
        let counts = counters.iter().map(|(kind, c)| (*kind, c.count()));
        let there = counts.filter(|(_, n)| *n > 0);
        Holding {
            objects: there.map(|(kind, n)| (kind.to_string(), n)).collect(),
            memory: self.gate.figures(),
            device_memory: self.gate.devices(),
            host_memory: self.gate.of_host(),
            traffic: self.traffic(),
        }
    }
}
