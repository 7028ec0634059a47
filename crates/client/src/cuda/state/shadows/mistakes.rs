//! What was named by mistake is given up.

use super::{Far, Left, Pages, Shadows};
use crate::cuda::state::area::Evidence;

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
        // Nearly all of it is as the program has it.
        a.compare_next();
        all.bring_home(pages, far, base).ok()?;
        let mut a = self.remove(&mut all, pages, base)?;
        a.open(pages);
        Some(self.left(&all, &a))
    }
}
