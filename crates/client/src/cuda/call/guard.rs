//! Faults in memory that kernels share with the program.

use super::accesses;
use super::client::Client;
use super::cx::Cx;
use super::fault::{self, Owner};
use super::host::Host;
use super::instruction::Instruction;
use super::watch;
use crate::cuda::state::shadows::{Outcome, Waits};
use crate::session::Closes;
use busbar_abi::cuda::*;

/// A client whose memory may fault.
struct Guarded(&'static Client);

impl Owner for Guarded {
    fn fault(
        &self,
        p: u64,
        write: Option<bool>,
        waits: Waits,
        what: &dyn Fn() -> Option<Instruction>,
    ) -> Outcome {
        let (state, cx) = (self.0.state, Cx::of(self.0));
        // A capture must not be waited for; what it holds has not run.
        let waits = match waits {
            Waits::Yes if state.shadows.streams_wait() || state.captures.any() => Waits::NoMore,
            waits => waits,
        };
        let mut areas = state.shadows.areas();
        if waits != Waits::Yes || areas.may_be_early(p) {
            // What it sees ahead of work may be old when that is over: whoever hears of that from
            // now on looks, and waits for this lock.
            state.shadows.note_edges();
        }
        let beside = write == Some(true) && areas.is_beside(p, waits);
        let instruction = beside.then(what).flatten();
        let done = instruction.map_or(Ok(None), |i| {
            areas.atomic(&Host, &cx, &i.atomic, i.is_store)
        });
        let outcome = match done {
            Ok(Some(had)) => Outcome::Done(had),
            Ok(None) => areas.fault(&Host, &cx, p, write, waits),
            Err(_) => Outcome::Refuse,
        };
        let (open, late) = (areas.has_open(), areas.sees_late());
        drop(areas);
        // Without these threads the next call that waits brings what there is.
        if open {
            state.shadows.note_edges();
            let _ = watch::start(cx);
        }
        if late {
            let _ = watch::start_to_close(cx);
        }
        outcome
    }

    fn outlasts(&self, p: u64, owed: &[(u32, u32)], mark: u64) {
        let mut areas = self.0.state.shadows.areas();
        areas.outlasts(p, owed, mark);
    }

    fn wait(&self, owed: &[(u32, u32)], mark: u64) -> Result<()> {
        let waited = Cx::of(self.0).wait_for(owed, mark);
        self.0.state.shadows.areas().wait_ends();
        waited
    }
}

impl Cx {
    /// Makes sure that faults in this client's memory are handled.
    pub fn handle_faults(self) -> Result<()> {
        fault::start(self.client as *const Client as usize, || {
            Box::new(Guarded(self.client))
        })?;
        let (any, meets) = (fault::is_active, fault::meets);
        self.client
            .session
            .closes
            .get_or_init(|| Closes { any, meets });
        fault::once(accesses::come_first);
        accesses::unblock();
        Ok(())
    }
}
