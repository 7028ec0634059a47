//! What the worker has for small page-locked memory that kernels saw and that was freed, or is
//! registered no more. It stays for the next of the same kind: a program that makes a flag for each
//! thing it measures would wait for the worker each time. Memory that was allocated is kept with
//! it, for the next allocation of the same size and context; of memory that was registered only
//! what stands for it, should the program register memory in the same pages again.

use super::prelude::*;
use super::ranges::{Range, Sort, pages};
use std::collections::VecDeque;

const PAGE: u64 = 4096;
/// The most pieces that are kept.
const MOST: usize = 64;

/// A piece of memory that nobody uses, or what stands for one that is the program's alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spare {
    /// Its address in the program.
    pub base: u64,
    /// Its length, as it was asked for.
    pub size: u64,
    /// Whether it was allocated or registered.
    pub sort: Sort,
    /// The context that the driver knows it in.
    pub context: u32,
    /// Where kernels find it.
    pub start: u64,
    /// Address and length of what the worker has in the place of its pages, and of those around it
    /// if they stood for more before.
    pub stand_in: (u64, u64),
}

impl Spare {
    /// What is left of a range.
    fn of(r: &Range, context: u32, start: u64) -> Self {
        let Range {
            base, size, sort, ..
        } = *r;
        let page = start & !(PAGE - 1);
        Self {
            base,
            size,
            sort,
            context,
            start,
            stand_in: (page, pages(start - page + size)),
        }
    }

    /// Address and length of the whole pages of the program's that something stands for.
    fn pages(&self) -> (u64, u64) {
        let (from, len) = self.stand_in;
        (self.base - (self.start - from), len)
    }

    /// Whether something stands for all pages of another piece.
    fn covers(&self, other: &Self) -> bool {
        let ((page, len), (from, n)) = (self.pages(), other.pages());
        page <= from && from + n <= page + len
    }

    /// Whether its pages reach into a range. Kernels find them there even where a parameter says
    /// that they are elsewhere.
    fn stands_in(&self, from: u64, to: u64) -> bool {
        let (page, len) = self.pages();
        page < to && from < page + len
    }
}

/// What is kept.
#[derive(Debug, Default)]
pub struct Spares {
    /// The oldest first.
    kept: Mutex<VecDeque<Spare>>,
    /// What stands for more pages than those of the range that has it now: as it was kept.
    wide: Mutex<Vec<Spare>>,
}

impl Spares {
    /// What is left of a range that kernels found at `start`.
    pub fn left(&self, r: &Range, context: u32, start: u64) -> Spare {
        let mut s = Spare::of(r, context, start);
        let mut wide = lock(&self.wide);
        let here = |w: &Spare| w.stand_in.0 <= start && start < w.stand_in.0 + w.stand_in.1;
        if let Some(i) = wide.iter().position(here) {
            s.stand_in = wide.swap_remove(i).stand_in;
        }
        s
    }

    /// Keeps a piece. What is too much then is the caller's to free.
    pub fn keep(&self, s: Spare) -> Vec<Spare> {
        let mut all = lock(&self.kept);
        all.push_back(s);
        let too_many = all.len().saturating_sub(MOST);
        all.drain(..too_many).collect()
    }

    fn take_last(&self, fits: impl Fn(&Spare) -> bool) -> Option<Spare> {
        let mut all = lock(&self.kept);
        let i = all.iter().rposition(fits)?;
        all.remove(i)
    }

    fn take_all(&self, which: impl Fn(&Spare) -> bool) -> Vec<Spare> {
        let mut all = lock(&self.kept);
        let gone = all.iter().copied().filter(|s| which(s)).collect();
        all.retain(|s| !which(s));
        gone
    }

    /// Takes the allocated piece of this size and context that was kept last.
    pub fn take(&self, size: u64, context: u32) -> Option<Spare> {
        self.take_last(|s| (s.sort, s.size, s.context) == (Sort::Host, size, context))
    }

    /// Takes what stood for the pages of a range, and maybe for more, when some of them was
    /// registered before: where kernels find the range there, and the context that the driver knows
    /// it in, which makes no difference to any other. To have it go would be to wait for all work.
    pub fn take_same(&self, r: &Range) -> Option<(u64, u32)> {
        let new = Spare::of(r, r.context, r.base);
        let known = |s: &Spare| s.sort == new.sort;
        let same = |s: &Spare| known(s) && s.pages() == new.pages();
        let wider = |s: &Spare| known(s) && s.sort == Sort::Registered && s.covers(&new);
        let old = self.take_last(same).or_else(|| self.take_last(wider))?;
        if old.pages() != new.pages() {
            lock(&self.wide).push(old);
        }
        Some((old.stand_in.0 + (r.base - old.pages().0), old.context))
    }

    /// Takes what stands where other memory of the program's is about to be seen.
    pub fn take_between(&self, from: u64, to: u64) -> Vec<Spare> {
        self.take_all(|s| s.stands_in(from, to))
    }

    /// Takes all that is registered in a context.
    pub fn take_context(&self, context: u32) -> Vec<Spare> {
        lock(&self.wide).retain(|s| s.context != context);
        self.take_all(|s| s.context == context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(base: u64, size: u64, sort: Sort) -> Range {
        Range {
            base,
            size,
            sort,
            context: 7,
            device: 0,
            flags: 0,
            serial: 1,
        }
    }

    fn spare(base: u64, size: u64, context: u32) -> Spare {
        Spare::of(&range(base, size, Sort::Host), context, base)
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
        assert_eq!(spares.take(4, 7), Some(spare(most, 4, 7)));
        assert_eq!(spares.keep(spare(most, 4, 7)), []);
    }
    #[test]
    fn what_stood_for_registered_memory_is_for_the_same_pages_alone() {
        let spares = Spares::default();
        let own = |base, start| Spare::of(&range(base, 4, Sort::Registered), 7, start);
        let (here, window) = (own(0x5100, 0x5100), own(0x5200, 0x9_0200));
        assert!(spares.keep(here).is_empty() && spares.keep(window).is_empty());
        assert_eq!(
            spares.take(4, 7),
            None,
            "nobody allocates the program's own"
        );
        let range = |base, size| range(base, size, Sort::Registered);
        assert_eq!(spares.take_same(&range(0x5ffe, 4)), None, "two pages");
        assert_eq!(spares.take_same(&range(0x6100, 4)), None, "another page");
        // Whatever context it is registered in next.
        let of_other = Range {
            context: 8,
            ..range(0x5300, 8)
        };
        assert_eq!(spares.take_same(&of_other), Some((0x9_0300, 7)));
        spares.keep(window);
        assert_eq!(spares.take_between(0x6000, 0x8000), []);
        // What has a window is in the way as well: its pages may show here, too.
        assert_eq!(spares.take_between(0x5000, 0x6000), [here, window]);
        spares.keep(window);
        assert_eq!(spares.take_context(7), [window]);
    }

    #[test]
    fn what_stood_for_more_pages_stands_for_some_of_them_and_goes_whole() {
        let spares = Spares::default();
        let range = |base, size| range(base, size, Sort::Registered);
        let wide = Spare::of(&range(0x5100, 0x3000), 7, 0x5100);
        assert_eq!(wide.stand_in, (0x5000, 0x4000));
        spares.keep(wide);
        assert_eq!(
            spares.take_same(&range(0x4ff0, 0x20)),
            None,
            "a page before"
        );
        assert_eq!(spares.take_same(&range(0x6010, 8)), Some((0x6010, 7)));
        let left = spares.left(&range(0x6010, 8), 7, 0x6010);
        assert_eq!(
            (left.stand_in, left.pages()),
            (wide.stand_in, (0x5000, 0x4000))
        );
        spares.keep(left);
        // The next that has all pages of it is as the first.
        assert_eq!(spares.take_same(&range(0x5008, 0x3100)), Some((0x5008, 7)));
        let left = spares.left(&range(0x5008, 0x3100), 7, 0x5008);
        assert_eq!(left.stand_in, wide.stand_in);
        assert!(lock(&spares.wide).is_empty());
    }
}
