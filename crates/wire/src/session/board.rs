//! What the two halves of a session's end tell each other, in atomic words.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What either half writes and the other reads.
#[derive(Debug)]
pub struct Board {
    /// The last frame that is here as a whole.
    received: AtomicU64,
    /// The last frame that was numbered.
    numbered: AtomicU64,
    /// The last frame that the peer has received, and the last that it is known to have executed.
    acked: AtomicU64,
    peer_executed: AtomicU64,
    /// The peer is to be told what has been received.
    ack_due: AtomicBool,
    /// The peer is to be asked whether it lives.
    ping_due: AtomicBool,
    execution: Arc<Execution>,
}

impl Board {
    pub(super) fn new(execution: Arc<Execution>) -> Self {
        Self {
            received: AtomicU64::new(0),
            numbered: AtomicU64::new(0),
            acked: AtomicU64::new(0),
            peer_executed: AtomicU64::new(0),
            ack_due: AtomicBool::new(false),
            ping_due: AtomicBool::new(false),
            execution,
        }
    }

    /// The last frame received; what a resuming peer is told. 0 for none, as with all of these.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Acquire)
    }

    /// The last frame that the peer has acknowledged.
    #[inline]
    pub fn acked(&self) -> u64 {
        self.acked.load(Ordering::Acquire)
    }

    /// The last frame that the peer is known to have executed, with all before it.
    pub fn peer_executed(&self) -> u64 {
        self.peer_executed.load(Ordering::Acquire)
    }

    /// Whether the peer has yet to say that it has all that was numbered.
    pub fn is_owed(&self) -> bool {
        self.acked() < self.numbered.load(Ordering::Acquire)
    }

    /// Has the sender say how far this end is, soon.
    pub fn acknowledge(&self) {
        self.ack_due.store(true, Ordering::Release);
    }

    pub(super) fn ask(&self) {
        self.ping_due.store(true, Ordering::Release);
    }

    pub(super) fn set_received(&self, seq: u64) {
        self.received.store(seq, Ordering::Release);
    }

    pub(super) fn set_numbered(&self, seq: u64) {
        self.numbered.store(seq, Ordering::Release);
    }

    pub(super) fn set_acked(&self, seq: u64) {
        self.acked.store(seq, Ordering::Release);
    }

    pub(super) fn set_peer_executed(&self, seq: u64) {
        self.peer_executed.store(seq, Ordering::Release);
    }

    /// The last frame that was received and delivered, with all before it.
    pub(super) fn set_delivered(&self, seq: u64) {
        self.execution.delivered.store(seq, Ordering::Release);
    }

    pub(super) fn ack_is_due(&self) -> bool {
        self.ack_due.load(Ordering::Relaxed)
    }

    pub(super) fn take_ping(&self) -> bool {
        self.ping_due.load(Ordering::Relaxed) && self.ping_due.swap(false, Ordering::AcqRel)
    }

    /// What a frame says of the other direction: what was received, and how many of the last of
    /// these frames are not executed.
    pub(super) fn word(&self) -> (u64, u16) {
        // First the wish, then what it is about: whoever receives more in between wishes again.
        // The other way round a ping could be answered with what was there before it.
        if self.ack_is_due() {
            self.ack_due.swap(false, Ordering::AcqRel);
        }
        let ack = self.received();
        let behind = ack.saturating_sub(self.execution.executed());
        (ack, u16::try_from(behind).unwrap_or(u16::MAX))
    }
}

/// How far what was received has been executed.
///
/// Frames are delivered in order, and then wait in one or several [`Stage`]s to be executed. A
/// frame counts as executed when it, and all before it, has been delivered and has left every
/// stage.
#[derive(Debug, Default)]
pub struct Execution {
    delivered: AtomicU64,
    /// The queue of a worker's executor, and the records that are executed ahead of it.
    pub stages: [Stage; 2],
}

impl Execution {
    /// The last frame that was executed, with all before it.
    pub fn executed(&self) -> u64 {
        // Before the stages: what is delivered later may be in none of them yet.
        let delivered = self.delivered.load(Ordering::Acquire);
        let done = self.stages.iter().filter_map(Stage::holds_from);
        done.fold(delivered, u64::min)
    }

    /// Whether nothing waits to be executed, of what has been delivered.
    pub fn is_idle(&self) -> bool {
        self.stages.iter().all(|s| s.holds_from().is_none())
    }
}

/// A place where frames wait, in their order, to be executed. One thread brings them; one at a time
/// takes them away.
#[derive(Debug, Default)]
pub struct Stage {
    entered: AtomicU64,
    left: AtomicU64,
}

impl Stage {
    /// Frame `seq`, or part of it, is to be executed. Before it is delivered.
    pub fn enter(&self, seq: u64) {
        if self.holds_from().is_none() {
            // Nobody takes anything away. What came before `seq` was not for this stage.
            self.raise(seq.saturating_sub(1));
        }
        self.entered.store(seq, Ordering::Release);
    }

    /// Whatever was brought here of frames up to `seq` is done.
    pub fn leave(&self, seq: u64) {
        self.raise(seq);
    }

    /// No two threads do so at a time: whoever brings something does it only while nothing is here
    /// to be taken away.
    fn raise(&self, seq: u64) {
        if self.left.load(Ordering::Relaxed) < seq {
            self.left.store(seq, Ordering::Release);
        }
    }

    /// The last frame that has left, if others have not.
    pub fn holds_from(&self) -> Option<u64> {
        let entered = self.entered.load(Ordering::Acquire);
        let left = self.left.load(Ordering::Acquire);
        (left < entered).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_executed_when_it_and_all_before_it_have_left_every_stage() {
        let e = Execution::default();
        let [queue, ahead] = &e.stages;
        let deliver = |seq, stages: &[&Stage]| {
            stages.iter().for_each(|s| s.enter(seq));
            e.delivered.store(seq, Ordering::Release);
        };
        deliver(1, &[]);
        assert_eq!(e.executed(), 1);
        deliver(2, &[queue]);
        deliver(3, &[ahead]);
        deliver(4, &[queue, ahead]);
        assert_eq!(e.executed(), 1);
        ahead.leave(4);
        assert_eq!(e.executed(), 1, "frame 2 waits in the queue");
        queue.leave(2);
        assert_eq!(e.executed(), 2);
        queue.leave(4);
        assert_eq!(e.executed(), 4);
        deliver(5, &[]);
        deliver(6, &[ahead]);
        assert_eq!(e.executed(), 5, "it never goes back");
        ahead.leave(6);
        assert_eq!(e.executed(), 6);
    }

    #[test]
    fn an_acknowledgement_is_never_older_than_the_wish_for_it() {
        let board = Board::new(Arc::default());
        board.set_received(5);
        board.acknowledge();
        assert_eq!(board.word(), (5, 5));
        assert!(!board.ack_is_due());
        board.set_received(6);
        board.set_delivered(6);
        board.acknowledge();
        assert_eq!(board.word(), (6, 0));
        board.set_received(1 << 20);
        assert_eq!(board.word(), (1 << 20, u16::MAX));
    }
}
