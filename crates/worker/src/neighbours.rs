//! Other sessions of the server, as far as they give way to this one: where a device has too little
//! memory left, the server has idle sessions give up theirs until they go on.

use crate::prelude::*;
use crate::turn::Turn;
use busbar_control::attach::{Freed, Lacking, Report};
use busbar_transport::handover;
use std::os::fd::OwnedFd;

struct Shared {
    /// Leads to the server.
    control: Arc<OwnedFd>,
    /// Knows how many sessions the server has.
    turn: Turn,
}

/// A session's neighbours. Cheap to clone; the default has none.
#[derive(Clone, Default)]
pub struct Neighbours(Option<Arc<Shared>>);

impl Neighbours {
    /// Those of a server at which idle sessions give way.
    pub(crate) fn at(control: Arc<OwnedFd>, turn: Turn) -> Self {
        Self(Some(Arc::new(Shared { control, turn })))
    }

    /// Whether there are any that may give way.
    #[inline]
    pub fn are_there(&self) -> bool {
        self.0.as_ref().is_some_and(|s| s.turn.sessions() > 1)
    }

    /// Has idle ones give up so many bytes of a device, and waits for that; how many came free.
    pub fn give_way(&self, device: u32, bytes: u64) -> u64 {
        let now = true;
        self.ask(Lacking { device, bytes, now })
    }

    /// How many bytes of a device they would give up.
    pub fn would_give(&self, device: u32) -> u64 {
        let (bytes, now) = (u64::MAX, false);
        self.ask(Lacking { device, bytes, now })
    }

    /// Whatever goes wrong is no room: the driver says so.
    fn ask(&self, lacking: Lacking) -> u64 {
        let said = || {
            let (ours, theirs) = handover::pair().ok()?;
            let report = Report::Lacks(lacking).to_json();
            handover::send(&self.0.as_ref()?.control, &report, [&theirs]).ok()?;
            drop(theirs);
            let (said, _) = handover::recv(&ours).ok()??;
            serde_json::from_slice::<Freed>(&said).ok()
        };
        said().map_or(0, |freed| freed.bytes)
    }
}
