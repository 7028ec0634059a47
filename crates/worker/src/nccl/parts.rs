//! Calls that other ranks have a part in, as they begin and end: see [`super::steps`].

use super::comm::Comm;
use super::steps::HOST;
use crate::cuda::{Mark, Visit};
use crate::lock::lock;
use busbar_control::talk::Side;
use busbar_wire::generated::collectives::{self as msg, contract::*};
use std::sync::Arc;
use std::time::Instant;

/// A call that other ranks have a part in.
pub struct Part {
    pub comm: Arc<Comm>,
    pub name: &'static str,
    /// Whose part it takes; none where the call makes the communicator.
    pub side: Option<Side>,
    pub stream: u64,
}

/// Those of one communicator on one stream.
pub struct Parts {
    first: Part,
    sides: Vec<Side>,
    visit: Visit,
}

impl Parts {
    /// Those of a group that are to be watched: not what is captured, for nobody knows when that
    /// runs.
    pub fn of(parts: impl Iterator<Item = (Part, Visit)>) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for (part, visit) in parts {
            let sides = Vec::from_iter(part.side);
            let like = |p: &&mut Self| {
                p.first.stream == part.stream && Arc::ptr_eq(&p.first.comm, &part.comm)
            };
            if let Some(known) = all.iter_mut().find(like) {
                known.sides.extend(sides);
                continue;
            }
            visit.enter();
            if part.stream == HOST || visit.runs(part.stream) {
                all.push(Self {
                    first: part,
                    sides,
                    visit,
                });
            }
        }
        all
    }

    /// The library is about to be called. Nobody else waits for a mark, which a stream that is full
    /// may hold back.
    pub fn begin(&self) {
        let Part { comm, stream, .. } = &self.first;
        let now = Instant::now();
        let far = *stream != HOST && lock(&comm.steps).is_far(*stream, now);
        let before = far.then(|| self.mark()).flatten();
        lock(&comm.steps).begins(self.first.name, &self.sides, (*stream, before), now);
    }

    /// The library has returned.
    pub fn end(&self) {
        let Part { comm, stream, .. } = &self.first;
        let after = (*stream != HOST).then(|| self.mark()).flatten();
        lock(&comm.steps).ends(*stream, after);
    }

    /// Whether the library returns only once other ranks have done their part.
    pub fn are_waited_for(&self) -> bool {
        self.first.stream == HOST
    }

    /// A mark in the stream.
    fn mark(&self) -> Option<Mark> {
        let spare = lock(&self.first.comm.steps).spare();
        self.visit.enter();
        self.visit.mark(self.first.stream, spare)
    }
}

/// What a collective is called, and whose part it takes.
pub fn part(m: &msg::Collective) -> Option<(&'static str, Side)> {
    Some(match m.kind {
        ALL_REDUCE => ("ncclAllReduce", Side::All),
        BROADCAST => ("ncclBroadcast", Side::All),
        REDUCE => ("ncclReduce", Side::All),
        ALL_GATHER => ("ncclAllGather", Side::All),
        REDUCE_SCATTER => ("ncclReduceScatter", Side::All),
        ALL_TO_ALL => ("ncclAlltoAll", Side::All),
        GATHER => ("ncclGather", Side::All),
        SCATTER => ("ncclScatter", Side::All),
        SEND => ("ncclSend", Side::To(m.peer)),
        RECV => ("ncclRecv", Side::From(m.peer)),
        _ => return None,
    })
}
