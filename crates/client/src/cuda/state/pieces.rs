//! Pieces of memory that are lent one by one.

use crate::lock::lock;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// So many pieces from an address on.
#[derive(Debug)]
pub struct Pieces {
    base: u64,
    each: usize,
    free: Mutex<Vec<usize>>,
    freed: Condvar,
}

impl Pieces {
    /// `n` pieces of `each` bytes. The lowest is lent first, so that little memory is touched.
    pub fn new(base: u64, each: usize, n: usize) -> Self {
        Self {
            base,
            each,
            free: Mutex::new((0..n).rev().collect()),
            freed: Condvar::new(),
        }
    }

    /// A piece's address, once one is free; `None` when none is in time.
    pub fn take(&self, patience: Duration) -> Option<u64> {
        let (mut free, _) = self
            .freed
            .wait_timeout_while(lock(&self.free), patience, |f| f.is_empty())
            .unwrap_or_else(PoisonError::into_inner);
        free.pop().map(|n| self.base + (n * self.each) as u64)
    }

    /// A piece is free again.
    pub fn give(&self, at: u64) {
        lock(&self.free).push((at - self.base) as usize / self.each);
        self.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_lent_to_one_at_a_time() {
        let p = Pieces::new(0x1000, 0x100, 2);
        let now = Duration::ZERO;
        assert_eq!(
            [p.take(now), p.take(now), p.take(now)],
            [Some(0x1000), Some(0x1100), None]
        );
        p.give(0x1000);
        assert_eq!([p.take(now), p.take(now)], [Some(0x1000), None]);
    }
}
