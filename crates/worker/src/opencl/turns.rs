//! Commands in the session's turns: which wait for one, and marks behind what was enqueued.

use super::done::{Completer, Events, Then};
use super::objects::Objects;
use super::prelude::*;
use super::session::OpenCl;
use crate::turn::{Mark, Turn, Unmarked};

impl OpenCl {
    /// Waits until a command may be enqueued, or the session is over.
    pub fn pass(&mut self, queue: u32) -> Result<(), Fail> {
        let device = self.objects.queue(queue)?.place;
        // One record may be many commands, and there is no room for more before some are marked.
        self.mark_if_due(false);
        // What is enqueued must run, too.
        self.objects.flush(self.cl, &mut self.dirty);
        let kind = self.work.unwrap_or(self.record.op.into());
        let over = || self.outbox.closed();
        let (cl, objects, completer) = (self.cl, &self.objects, &self.completer);
        let (turn, unmarked) = (&self.turn, &mut self.unmarked);
        turn.pass((device, kind), over, || {
            mark(turn, unmarked, (cl, objects, completer));
        });
        unmarked.add(device, queue);
        Ok(())
    }

    /// Has the completion engine say when what was enqueued is done, if it is time for that.
    #[inline]
    pub fn mark_if_due(&mut self, leisure: bool) {
        if self.unmarked.is_due(&self.turn, leisure) {
            self.mark();
        }
    }

    /// As [`OpenCl::mark_if_due`], whether it is or not.
    pub fn mark(&mut self) {
        let of = (self.cl, &self.objects, &self.completer);
        mark(&self.turn, &mut self.unmarked, of);
    }

    /// Marks what was enqueued while nobody asked.
    pub fn mark_found(&mut self) {
        let mut places: Vec<_> = self.objects.queues().map(|(_, q)| q.place).collect();
        places.sort_unstable();
        places.dedup();
        for place in places {
            let here = self.objects.queues().filter(|(_, q)| q.place == place);
            let here = here.map(|(id, _)| id).collect();
            let of = (self.cl, &self.objects, &self.completer);
            put(of, here, self.turn.found(place));
        }
    }
}

/// What it takes to put marks into queues.
type Of<'a> = (&'a Cl, &'a Objects, &'a Completer);

/// Marks what was enqueued.
fn mark(turn: &Turn, unmarked: &mut Unmarked<u32>, of: Of<'_>) {
    unmarked.mark(turn, |queues, mark| put(of, queues, mark));
}

/// Has a mark live until all of these queues have come so far. A queue that takes no marker takes
/// nothing else either.
fn put((cl, objects, completer): Of<'_>, queues: Vec<u32>, mark: Option<Mark>) {
    let Some(mark) = mark.map(Arc::new) else {
        return;
    };
    for queue in queues.into_iter().filter_map(|id| objects.queue(id).ok()) {
        let mut e = null_mut();
        // SAFETY: a queue of ours, and the place for an event of ours.
        let rc = unsafe {
            let rc = (cl.clEnqueueMarkerWithWaitList)(queue.raw, 0, null(), &raw mut e);
            (cl.clFlush)(queue.raw);
            rc
        };
        if rc == CL_SUCCESS {
            let mark = mark.clone();
            let then = Then::Run(Box::new(move |_| drop(mark)));
            completer.after(Events::one(e), then);
        }
    }
}
