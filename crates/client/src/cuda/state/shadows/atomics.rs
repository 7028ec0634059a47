//! The program's atomic operations beside work that lasts.
//!
//! Where the program is let in to memory beside such work, what it changes is sent a moment later:
//! of a word that a kernel changes meanwhile, one of the two changes would be lost. So an atomic
//! operation is not let in: the device does it in the program's place. In the words around one
//! that was, plain stores are such operations, too: a page that is open to a store would be open to
//! the next atomic operation, which nobody would see.

use super::faults::Waits;
use super::{Areas, Far, Pages};
use crate::cuda::state::ranges::Sort;
use busbar_abi::cuda::*;
use busbar_wire::atomics::Atomic;

/// Pages that are remembered for atomic operations.
const MOST_PAGES: usize = 1024;

/// Words by which threads wait for each other lie close together.
const NEAR: u64 = 4096;

impl Areas {
    /// Whether the program would be let in to the memory at `p` beside work that lasts, to write.
    pub fn is_beside(&mut self, p: u64, waits: Waits) -> bool {
        if waits == Waits::Yes && !self.late.may_last() {
            return false;
        }
        let Some(a) = self.at(p).filter(|a| a.guards(p)) else {
            return false;
        };
        let (start, block) = (a.start, a.block_of(p));
        // Of page-locked memory no driver says that both may.
        let (is_managed, closed) = (a.sort == Sort::Managed, a.is_on_device(block));
        let owed = self.owed_for(start);
        let beside = match closed {
            true => waits == Waits::NoMore || waits == Waits::Yes && self.late.lasts(&owed.work),
            // It may look at it at this moment.
            false => waits != Waits::Never && self.late.sees(start, block),
        };
        is_managed && beside && !owed.work.is_empty() && !owed.in_doubt
    }

    /// Does such a write at the device: what the word was. `None` where the program is to be let in
    /// instead.
    pub fn atomic(
        &mut self,
        pages: &impl Pages,
        far: &impl Far,
        atomic: &Atomic,
        is_store: bool,
    ) -> Result<Option<u64>> {
        let page = atomic.at / NEAR;
        if self.late.no_atomics || is_store && !self.late.atomics.contains(&page) {
            return Ok(None);
        }
        let Some(a) = self.at(atomic.at) else {
            return Ok(None);
        };
        let (context, at) = (a.context, a.device_of(atomic.at));
        self.begin_late(far)?;
        // What the program did before comes first, and what it sees after comes after.
        self.end_late(pages, far)?;
        self.push_edges(pages, far)?;
        match far.atomic(context, &Atomic { at, ..*atomic }) {
            Ok(had) => {
                if self.late.atomics.len() >= MOST_PAGES {
                    self.late.atomics.clear();
                }
                self.late.atomics.insert(page);
                Ok(Some(had))
            }
            Err(e) => {
                // Whatever is wrong, a program that is let in goes on.
                self.late.no_atomics = true;
                crate::log!(
                    Warn,
                    "atomic operations beside kernels are not atomic: error {e}"
                );
                Ok(None)
            }
        }
    }
}
