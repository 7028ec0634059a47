//! Memory whose address a launch seems to have. It is shadowed as all other; but as the word may be
//! a mistake, it costs the program no waiting. Only work that has the address may write it. Once
//! copies show that the program goes on without such words, it is the program's alone again.

use super::{Far, Left, Pages, Shadows};
use crate::cuda::state::area::{Area, Evidence};
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

impl Shadows {
    /// Where the device has an address that is named to it, if that is shadowed.
    pub fn named(&self, p: u64, e: Evidence) -> Option<u64> {
        if !self.active() {
            return None;
        }
        let mut all = self.areas();
        let (_, a) = all.areas.range_mut(..=p).next_back()?;
        a.covers(p).then(|| {
            a.claim.named(e);
            a.device_of(p)
        })
    }

    /// A copy is to have an end at an address, in a graph if it is to last: the area there, if
    /// [`Shadows::give_up`] may have it.
    pub fn copied(&self, p: u64, lasts: bool) -> Option<u64> {
        let mut all = self.areas();
        let idle = all.pending.is_empty();
        let (_, a) = all.areas.range_mut(..=p).next_back()?;
        if !a.covers(p) {
            return None;
        }
        if lasts {
            a.claim.named(Evidence::Lasting);
            return None;
        }
        (a.claim.copied() && idle && !self.streams_wait()).then_some(a.start)
    }

    /// What launches named by mistake becomes the program's alone again, with all its bytes. What
    /// the worker has of it, if no launch has named it meanwhile and none is under way.
    pub fn give_up(&self, pages: &impl Pages, far: &impl Far, base: u64) -> Option<Left> {
        let mut all = self.areas();
        let idle = all.pending.is_empty();
        let a = all.areas.get_mut(&base)?;
        if !a.claim.is_over() || !idle || a.leave_to_device(pages).is_err() {
            return None;
        }
        all.bring_home(pages, far, base).ok()?;
        let mut a = self.remove(&mut all, pages, base)?;
        a.open(pages);
        Some(self.left(&all, &a))
    }
}
