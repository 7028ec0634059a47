//! The program's accesses to pages that are closed to it.

use super::{Areas, Far, MOST_OPEN, PAGE, Pages, soon};
use crate::cuda::state::area::{Attach, PATIENCE};
use busbar_abi::cuda::*;
use std::time::Duration;

/// What becomes of a fault.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The access may be tried again.
    Retry,
    /// This work must be waited for first; then [`Areas::fault`] is asked again.
    Wait {
        /// Contexts and streams.
        owed: Vec<(u32, u32)>,
        /// The mark that the waiting is up to.
        mark: u64,
        /// How long, before the access is let in beside it.
        patience: Duration,
    },
    /// The device has done it, to a word that was this before.
    Done(u64),
    /// The memory is not ours, or its bytes cannot be had.
    Refuse,
}

/// Whether an access waits for work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waits {
    /// It does.
    Yes,
    /// It has, and what others have queued since may be more each time; or work waits for the
    /// program.
    NoMore,
    /// A function in stream order must not: it would wait for itself.
    Never,
}

/// What accesses to an area may have to wait for.
pub(super) struct Owed {
    /// Contexts and streams with work.
    all: Vec<(u32, u32)>,
    /// Those whose work may use it.
    pub work: Vec<(u32, u32)>,
    /// The memory may be named by mistake: nobody would wait for it.
    pub in_doubt: bool,
    /// How long an access waits.
    patience: Duration,
}

impl Areas {
    /// Opens the page of `p` to the program while work is under way, if there are not too many.
    fn open_page(&mut self, pages: &impl Pages, far: &impl Far, start: u64, p: u64) -> Option<()> {
        let a = self.areas.get_mut(&start)?;
        let (page, had) = (a.page_to_open(p)?, a.is_watched());
        if !had && self.open >= MOST_OPEN {
            return None;
        }
        let (at, mut bytes) = (a.device_of(page), vec![0; PAGE]);
        let heard = soon(self.told, PAGE, true);
        let read = far.open(at, PAGE, (page, heard), Some(&mut bytes));
        let opened = read.and_then(|()| a.open_page(pages, page, &bytes));
        self.opened(start, page, PAGE, heard);
        opened.ok()?;
        self.open += usize::from(!had);
        self.woken.notify_one();
        Some(())
    }

    /// The work that accesses to an area may have to wait for.
    pub(super) fn owed_for(&self, start: u64) -> Owed {
        let area = self.areas.get(&start);
        let all = match area.is_some_and(|a| a.claim.may_end()) {
            true => self.doubts.under_way(start),
            false => self.owed(0),
        };
        Owed {
            work: area.map_or_else(Vec::new, |a| a.waits_for(&all)),
            all,
            in_doubt: area.is_some_and(|a| a.claim.is_in_doubt()),
            patience: area.map_or(PATIENCE, |a| a.patience),
        }
    }

    /// Whether the program is let in to the memory at `p` while work goes on that may write there.
    pub fn may_be_early(&mut self, p: u64) -> bool {
        self.late.is_any() || self.at(p).is_some_and(|a| a.attach != Attach::Global)
    }

    /// An access to `p` that the protection forbids. `write` says what it was, where the processor
    /// tells.
    pub fn fault(
        &mut self,
        pages: &impl Pages,
        far: &impl Far,
        p: u64,
        write: Option<bool>,
        waits: Waits,
    ) -> Outcome {
        let retry = |r: Result<()>| match r {
            Ok(()) => Outcome::Retry,
            Err(e) => {
                crate::log!(Error, "the memory at {p:#x} cannot be had: error {e}");
                Outcome::Refuse
            }
        };
        let Some(a) = self.at(p).filter(|a| a.guards(p)) else {
            return Outcome::Refuse;
        };
        if a.reopen(pages, p) {
            return Outcome::Retry;
        }
        let (start, block) = (a.start, a.block_of(p));
        if !a.is_on_device(block) {
            return retry(a.let_in(pages, block, write.unwrap_or(true)));
        }
        let n = a.ahead(block);
        let Owed {
            all,
            work: owed,
            in_doubt,
            patience,
        } = self.owed_for(start);
        if !owed.is_empty() && waits == Waits::Yes {
            // The work may be waiting for the program, and the program for what the work writes.
            if self.open_page(pages, far, start, p).is_some() {
                return Outcome::Retry;
            }
            if !in_doubt && !self.late.lasts(&owed) {
                self.late.begins();
                let mark = self.count;
                return Outcome::Wait {
                    owed,
                    mark,
                    patience,
                };
            }
        }
        let late = !owed.is_empty() && !in_doubt && waits != Waits::Never;
        let fetched = match late {
            true => self.let_in_late(pages, far, start, block, n),
            false => self.fetch(pages, far, start, block, n),
        };
        let Some(a) = self.areas.get_mut(&start).filter(|_| fetched.is_ok()) else {
            return retry(fetched);
        };
        if owed.is_empty() && waits == Waits::NoMore {
            a.patience = PATIENCE;
        }
        if !all.is_empty() && !late {
            a.keep_images(pages, block, n);
        }
        match write {
            Some(true) => retry(a.let_in(pages, block, true)),
            _ => Outcome::Retry,
        }
    }
}
