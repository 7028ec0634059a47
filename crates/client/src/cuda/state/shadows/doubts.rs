//! Memory whose address a launch seems to have. It is shadowed as all other; but as the word may be
//! a mistake, it costs the program no waiting. Only work that has the address may write it. Once
//! copies show that the program goes on without such words, it is the program's alone again.

use crate::cuda::state::area::Area;
use std::collections::{BTreeMap, BTreeSet};

/// What work that is about to be queued may write of shadowed memory.
#[derive(Debug, Clone, Copy)]
pub enum Touch<'a> {
    /// Nothing.
    Nothing,
    /// All of it.
    All,
    /// Of what is in doubt, where these addresses are; of all else, all.
    At(&'a [u64]),
}

/// Memory that is in doubt.
#[derive(Debug, Default)]
pub struct Doubts {
    /// Where areas begin that are, or were.
    areas: BTreeSet<u64>,
    /// Work that may write there and that nobody has been seen to wait for: of an area, context and
    /// stream the latest, by its count.
    touched: BTreeMap<(u64, u32, u32), u64>,
}

impl Doubts {
    /// An area has come into being.
    pub fn begins(&mut self, a: &Area) {
        if a.claim.may_end() {
            self.areas.insert(a.start);
        }
    }

    /// Work is about to be queued.
    pub fn work(
        &mut self,
        areas: &BTreeMap<u64, Area>,
        touch: Touch<'_>,
        (context, stream): (u32, u32),
        count: u64,
    ) {
        for start in &self.areas {
            let a = areas.get(start).filter(|a| a.claim.may_end());
            let touches = a.is_some_and(|a| match touch {
                Touch::Nothing => false,
                Touch::All => true,
                Touch::At(addresses) => addresses.iter().any(|p| a.is_at(*p)),
            });
            if touches {
                self.touched.insert((*start, context, stream), count);
            }
        }
    }

    /// The work of a context and stream was sent, at a count.
    pub fn sent(&mut self, (context, stream): (u32, u32), count: u64) {
        let its = self.touched.iter_mut();
        let its = its.filter(|((_, c, s), _)| (*c, *s) == (context, stream));
        its.for_each(|(_, n)| *n = count);
    }

    /// Whether nothing writes an area that is in doubt.
    pub fn are_quiet(&self, a: &Area) -> bool {
        a.claim.may_end() && self.of(a.start).next().is_none()
    }

    fn of(&self, start: u64) -> impl Iterator<Item = (u32, u32)> {
        let all = self
            .touched
            .range((start, 0, 0)..=(start, u32::MAX, u32::MAX));
        all.map(|((_, context, stream), _)| (*context, *stream))
    }

    /// Contexts and streams of work that may write an area.
    pub fn under_way(&self, start: u64) -> Vec<(u32, u32)> {
        self.of(start).collect()
    }

    /// Some work is over.
    pub fn over(&mut self, is_over: impl Fn((u32, u32), u64) -> bool) {
        self.touched
            .retain(|(_, context, stream), n| !is_over((*context, *stream), *n));
    }

    /// An area is none any more.
    pub fn gone(&mut self, start: u64) {
        if self.areas.remove(&start) {
            self.touched.retain(|(area, ..), _| *area != start);
        }
    }
}
