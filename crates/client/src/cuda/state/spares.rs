//! Small page-locked memory that kernels saw and that was freed. It stays mapped and registered for
//! the next allocation of the same size and context: a program that makes a flag for each thing it
//! measures would wait for the worker each time.

use super::prelude::*;
use std::collections::VecDeque;

/// The most pieces that are kept.
const MOST: usize = 16;
/// The most bytes of them: the worker still compares them ahead of its answers.
const MOST_BYTES: u64 = 16 << 10;

/// A piece of memory that nobody uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spare {
    /// Its address, in the program and at the worker.
    pub base: u64,
    /// Its length, as it was asked for.
    pub size: u64,
    /// The context that it is registered in.
    pub context: u32,
}

/// What is kept, the oldest first.
#[derive(Debug, Default)]
pub struct Spares(Mutex<VecDeque<Spare>>);

impl Spares {
    /// Keeps a piece. What is too much then is the caller's to free.
    pub fn keep(&self, s: Spare) -> Vec<Spare> {
        let mut all = lock(&self.0);
        all.push_back(s);
        let mut bytes: u64 = all.iter().map(|s| s.size).sum();
        let mut gone = Vec::new();
        while (all.len() > MOST || bytes > MOST_BYTES)
            && let Some(old) = all.pop_front()
        {
            bytes -= old.size;
            gone.push(old);
        }
        gone
    }

    /// Takes the piece of this size and context that was kept last.
    pub fn take(&self, size: u64, context: u32) -> Option<Spare> {
        let mut all = lock(&self.0);
        let fits = |s: &Spare| (s.size, s.context) == (size, context);
        let i = all.iter().rposition(fits)?;
        all.remove(i)
    }

    /// Takes all that is registered in a context.
    pub fn take_context(&self, context: u32) -> Vec<Spare> {
        let mut all = lock(&self.0);
        let of_it = |s: &Spare| s.context == context;
        let gone = all.iter().copied().filter(of_it).collect();
        all.retain(|s| !of_it(s));
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spare(base: u64, size: u64, context: u32) -> Spare {
        Spare {
            base,
            size,
            context,
        }
    }

    #[test]
    fn a_piece_is_given_to_an_allocation_of_its_size_and_context() {
        let spares = Spares::default();
        for s in [spare(1, 4, 7), spare(2, 4, 7), spare(3, 4, 8)] {
            assert_eq!(spares.keep(s), []);
        }
        assert_eq!((spares.take(8, 7), spares.take(4, 9)), (None, None));
        assert_eq!(spares.take(4, 7), Some(spare(2, 4, 7)));
        assert_eq!(spares.take_context(7), [spare(1, 4, 7)]);
        assert_eq!(spares.take(4, 7), None);
        assert_eq!(spares.take(4, 8), Some(spare(3, 4, 8)));
    }

    #[test]
    fn the_oldest_goes_when_there_are_too_many() {
        let spares = Spares::default();
        let most = MOST as u64;
        assert!((0..most).all(|i| spares.keep(spare(i, 4, 7)).is_empty()));
        assert_eq!(spares.keep(spare(most, 4, 7)), [spare(0, 4, 7)]);
        let large = spare(most + 1, MOST_BYTES - 8, 7);
        assert_eq!(spares.keep(large).len(), MOST - 2);
    }
}
