//! What programs have advised about managed memory, page by page. It changes nothing of what they
//! see, but they may ask.

use super::prelude::*;

/// The unit of advice.
const PAGE: u64 = 4096;

/// The host, and no place, where a device's ordinal is asked for.
pub const CPU: i32 = -1;
pub const NOWHERE: i32 = -2;

/// A place: the kind of a location, and its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    pub kind: CUmemLocationType,
    pub id: i32,
}

impl Place {
    /// A device, or the host.
    pub fn of(device: i32) -> Self {
        match device {
            CPU => Self {
                kind: CU_MEM_LOCATION_TYPE_HOST,
                id: 0,
            },
            id => Self {
                kind: CU_MEM_LOCATION_TYPE_DEVICE,
                id,
            },
        }
    }

    /// The device's ordinal, or that of the host.
    pub fn device(self) -> i32 {
        match self.kind {
            CU_MEM_LOCATION_TYPE_DEVICE => self.id,
            _ => CPU,
        }
    }
}

/// What is known of some pages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Advice {
    pub read_mostly: bool,
    pub preferred: Option<Place>,
    pub accessed_by: BTreeSet<i32>,
    pub prefetched: Option<Place>,
}

/// Advice, by where it begins: up to where it holds, and what it is. Pieces do not overlap.
#[derive(Debug, Default)]
pub struct Advised(BTreeMap<u64, (u64, Advice)>);

impl Advised {
    /// The pages that hold `len` bytes at `p`.
    fn pages(p: u64, len: u64) -> (u64, u64) {
        let end = p.saturating_add(len).checked_next_multiple_of(PAGE);
        (p & !(PAGE - 1), end.unwrap_or(!(PAGE - 1)))
    }

    /// Sees to it that a piece begins at `at`, if one holds there.
    fn split(&mut self, at: u64) {
        let Some((_, (end, advice))) = self.0.range_mut(..at).next_back() else {
            return;
        };
        if *end > at {
            let (upto, advice) = (std::mem::replace(end, at), advice.clone());
            self.0.insert(at, (upto, advice));
        }
    }

    /// Changes what is known of the pages that hold `len` bytes at `p`.
    pub fn change(&mut self, p: u64, len: u64, f: impl Fn(&mut Advice)) {
        let (from, to) = Self::pages(p, len);
        self.split(from);
        self.split(to);
        let mut at = from;
        while at < to {
            let next = self.0.range(at..to).next().map_or(to, |(next, _)| *next);
            if next > at {
                self.0.insert(at, (next, Advice::default()));
            }
            if let Some((end, advice)) = self.0.get_mut(&at) {
                f(advice);
                at = *end;
            }
        }
    }

    /// What is known of each part of the pages that hold `len` bytes at `p`.
    pub fn of(&self, p: u64, len: u64) -> Vec<Advice> {
        let (from, to) = Self::pages(p, len);
        let before = self.0.range(..from).next_back();
        let first = before.filter(|(_, (end, _))| *end > from);
        let mut at = from;
        let mut all = Vec::new();
        for (begin, (end, advice)) in first.into_iter().chain(self.0.range(from..to)) {
            if *begin > at {
                all.push(Advice::default());
            }
            all.push(advice.clone());
            at = *end;
        }
        if at < to {
            all.push(Advice::default());
        }
        all
    }

    /// Memory is gone.
    pub fn forget(&mut self, p: u64, len: u64) {
        let (from, to) = Self::pages(p, len);
        self.split(from);
        self.split(to);
        self.0.retain(|at, _| *at < from || *at >= to);
    }
}

/// What all have in common, if they have.
pub fn common<T: PartialEq>(all: impl IntoIterator<Item = Option<T>>) -> Option<T> {
    let mut all = all.into_iter();
    let first = all.next()??;
    all.all(|v| v.as_ref() == Some(&first)).then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_holds_for_its_pages_and_no_others() {
        let mut a = Advised::default();
        let at = |n: u64| 0x10_0000 + n * PAGE;
        a.change(at(2) + 5, 2 * PAGE, |a| a.read_mostly = true);
        let mostly = |a: &Advised, from, n| {
            let of = a.of(at(from), n * PAGE);
            of.iter().map(|a| a.read_mostly).collect::<Vec<_>>()
        };
        assert_eq!(mostly(&a, 2, 3), [true], "whole pages");
        assert_eq!(mostly(&a, 0, 8), [false, true, false]);
        assert_eq!(mostly(&a, 3, 1), [true]);
        assert_eq!(
            (mostly(&a, 0, 2), mostly(&a, 5, 1)),
            (vec![false], vec![false])
        );
        a.change(at(3), 1, |a| a.preferred = Some(Place::of(1)));
        let preferred =
            |a: &Advised, from, n| common(a.of(at(from), n * PAGE).iter().map(|a| a.preferred));
        assert_eq!(preferred(&a, 3, 1), Some(Place::of(1)));
        assert_eq!((preferred(&a, 3, 2), preferred(&a, 2, 2)), (None, None));
        assert_eq!(mostly(&a, 2, 3), [true; 3], "it is still so");
        a.change(at(0), 8 * PAGE, |a| a.preferred = Some(Place::of(CPU)));
        assert_eq!(preferred(&a, 0, 8), Some(Place::of(CPU)));
        a.forget(at(0), 3 * PAGE);
        assert_eq!(
            (mostly(&a, 0, 3), mostly(&a, 3, 2)),
            (vec![false], vec![true; 2])
        );
    }
}
