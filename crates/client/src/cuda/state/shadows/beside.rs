//! Accesses of the program beside work that goes on for long.
//!
//! An access waits for the work that may use its memory, as long as that is over soon: what comes
//! then is whole, and stays. Work that lasts longer may not use this memory at all, or may wait for
//! the program, which natively sees and writes the memory meanwhile. So after some patience the
//! program is let in beside it, to see what the device has at that moment. It is let in for a
//! moment only: what it changes is sent, and its next access sees what the device has by then.
//!
//! Who sees a flag sees what was written before it. A device writes while its memory is read, so
//! all that the program is to see is read until it has come twice the same: a flag that came the
//! first time came with what was read after it.

use super::late::Seen;
use super::{Areas, Far, Pages};
use busbar_abi::cuda::*;
use std::time::{Duration, Instant};

/// The least that is left of an access's patience where it was in vain before.
const LEAST_PATIENCE: Duration = Duration::from_millis(1);

/// The program stays in for as long as it took to let it in, within these bounds.
const SHORTEST: Duration = Duration::from_micros(300);
const LONGEST: Duration = Duration::from_millis(20);

/// How many accesses' blocks are open at once: an instruction may need several, and so may as many
/// threads.
const MOST_SEEN: usize = 8;

/// How often all is read, at most, until it comes twice the same. What a kernel writes all the time
/// is not waited for.
const OFTEN: usize = 8;

/// How much patience is left where work has outlasted so much.
fn less(patience: Duration) -> Duration {
    (patience / 2).max(LEAST_PATIENCE)
}

impl Areas {
    /// An access to `p` has waited in vain.
    pub fn outlasts(&mut self, p: u64, owed: &[(u32, u32)], mark: u64) {
        let pending = owed.iter().filter(|work| self.pending.has(work));
        let lasting = pending.copied().collect();
        self.late.outlasted(lasting, mark);
        if let Some(a) = self.at(p) {
            a.patience = less(a.patience);
        }
    }

    /// What an access has waited for is over, however long ago the access was let in.
    pub fn wait_ends(&mut self) {
        self.late.ends();
    }

    /// Whether the program sees something beside work that lasts.
    pub fn sees_late(&self) -> bool {
        self.late.closes.is_some()
    }

    /// The program is let in beside work that lasts, or has the device do something beside it.
    pub(super) fn begin_late(&mut self, far: &impl Far) -> Result<()> {
        match std::mem::replace(&mut self.late.apart, true) {
            true => Ok(()),
            false => far.apart(),
        }
    }

    /// Lets the program in to blocks that the device holds.
    pub fn let_in_late(
        &mut self,
        pages: &impl Pages,
        far: &impl Far,
        area: u64,
        first: usize,
        n: usize,
    ) -> Result<()> {
        let begun = Instant::now();
        self.begin_late(far)?;
        // What the program sees already is closed, and comes again together with this.
        let mut all = self.close_late(pages, far)?;
        all.drain(..all.len().saturating_sub(MOST_SEEN - 1));
        for s in &all {
            self.bring(pages, far, s.area, (s.first, s.n), true)?;
        }
        self.bring(pages, far, area, (first, n), false)?;
        all.push(Seen { area, first, n });
        for _ in 1..OFTEN {
            let mut changed = 0;
            for s in &all {
                changed += self.bring(pages, far, s.area, (s.first, s.n), true)?;
            }
            if changed == 0 {
                break;
            }
        }
        for s in all {
            self.see(pages, s)?;
        }
        let stays = begun.elapsed().clamp(SHORTEST, LONGEST);
        self.late.closes = Some(Instant::now() + stays);
        self.late.woken.notify_one();
        Ok(())
    }

    /// The program sees blocks that have come.
    fn see(&mut self, pages: &impl Pages, s: Seen) -> Result<()> {
        let a = self
            .areas
            .get_mut(&s.area)
            .ok_or(CUDA_ERROR_INVALID_VALUE)?;
        a.arrived(pages, s.first, s.n)?;
        a.keep_images(pages, s.first, s.n);
        self.late.seen.push(s);
        Ok(())
    }

    /// Sends what the program has changed where it was let in, and closes that. Says what the
    /// program saw until now.
    fn close_late(&mut self, pages: &impl Pages, far: &impl Far) -> Result<Vec<Seen>> {
        self.late.closes = None;
        let mut seen = std::mem::take(&mut self.late.seen);
        // Other work that was queued has closed all, a while ago.
        seen.retain(|s| {
            let area = self.areas.get(&s.area);
            area.is_some_and(|a| a.has_images_of(s.first, s.n))
        });
        let of_these = |start: u64| seen.iter().any(|s| s.area == start);
        let mut done = self.send_written(pages, far, |a| of_these(a.start));
        for s in &seen {
            if let Some(a) = self.areas.get_mut(&s.area) {
                done = a.leave_to_device(pages).and(done);
            }
        }
        if done? {
            far.fence()?;
        }
        Ok(seen)
    }

    /// The program has seen for long enough what it was let in to.
    pub fn end_late(&mut self, pages: &impl Pages, far: &impl Far) -> Result<()> {
        self.close_late(pages, far).map(drop)
    }
}
