//! Work that lasts, and what the program sees beside it.

use std::collections::HashMap;
use std::sync::{Arc, Condvar};
use std::time::Instant;

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
    /// Contexts and streams whose work accesses have waited for in vain, and up to which mark.
    outlasted: HashMap<(u32, u32), u64>,
    /// The latest last.
    pub seen: Vec<Seen>,
    /// When it is closed.
    pub closes: Option<Instant>,
    /// The worker knows that there is such work.
    pub apart: bool,
    pub woken: Arc<Condvar>,
}

impl Late {
    /// Whether it is in vain to wait for some work.
    pub fn lasts(&self, owed: &[(u32, u32)]) -> bool {
        owed.iter().any(|work| self.outlasted.contains_key(work))
    }

    /// It was in vain to wait for some work.
    pub fn outlasted(&mut self, work: Vec<(u32, u32)>, mark: u64) {
        let lasting = work.into_iter().map(|work| (work, mark));
        self.outlasted.extend(lasting);
    }

    /// Whether any work lasts.
    pub fn is_any(&self) -> bool {
        !self.outlasted.is_empty()
    }

    /// Some work is over.
    pub fn over(&mut self, is_over: impl Fn((u32, u32), u64) -> bool) {
        self.outlasted.retain(|work, n| !is_over(*work, *n));
    }
}
