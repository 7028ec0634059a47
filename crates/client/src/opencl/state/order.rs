//! How far a queue has come, as far as anybody was told.
#![forbid(unsafe_code)]

use super::prelude::*;

/// The commands of one queue by their numbers.
#[derive(Default)]
pub struct Order {
    /// Commands whose end a program could tell, noted once they are queued.
    noted: AtomicU64,
    /// How many of them are known to have ended.
    ended: AtomicU64,
    /// Whether a write was called done that may not have run.
    early: AtomicBool,
}

impl Order {
    /// Notes a command, and says its number.
    pub fn note(&self) -> u64 {
        self.noted.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// The number of the last command that was noted.
    pub fn here(&self) -> u64 {
        self.noted.load(Ordering::Acquire)
    }

    /// Commands up to this one have ended.
    pub fn reached(&self, number: u64) {
        self.ended.fetch_max(number, Ordering::AcqRel);
    }

    /// Everything up to this command has run, writes that were called done among it.
    pub fn finished(&self, number: u64) {
        self.reached(number);
        self.early.store(false, Ordering::Release);
    }

    /// Whether every command is known to have ended, but for writes that nothing could tell of.
    pub fn quiet(&self) -> bool {
        self.ended.load(Ordering::Acquire) >= self.here()
    }

    /// A write was called done early.
    pub fn called_early(&self) {
        self.early.store(true, Ordering::Release);
    }

    /// Whether a write was called done that may not have run.
    pub fn is_early(&self) -> bool {
        self.early.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_quiet_once_its_last_command_has_ended() {
        let o = Order::default();
        assert!(o.quiet());
        let (first, second) = (o.note(), o.note());
        o.reached(first);
        assert!(!o.quiet());
        o.reached(second);
        assert!(o.quiet());
        // A wait that ends late tells nothing of commands that came after it began.
        let here = o.here();
        o.note();
        o.reached(here);
        assert!(!o.quiet());
        o.reached(first);
        o.reached(here + 1);
        assert!(o.quiet(), "an old answer takes nothing back");
    }

    #[test]
    fn only_the_end_of_everything_shows_that_an_early_write_has_run() {
        let o = Order::default();
        o.called_early();
        o.reached(o.note());
        assert!(o.quiet() && o.is_early());
        o.finished(o.here());
        assert!(!o.is_early());
    }
}
