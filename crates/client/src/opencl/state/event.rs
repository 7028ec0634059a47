//! What is known of an event.
#![forbid(unsafe_code)]

use super::prelude::*;
use busbar_abi::opencl::CL_COMPLETE;

/// How far an event has come, and what the program was told.
#[derive(Default)]
pub struct Mark {
    /// The last state that we know; final at `CL_COMPLETE` and below.
    state: AtomicI32,
    times: OnceLock<[u64; 5]>,
    set: AtomicBool,
    /// What its queue numbered its command.
    number: AtomicU64,
    /// It is of a write whose end nothing can tell of but the event, in a queue that was idle.
    unseen: AtomicBool,
    /// The program was told that it is complete, which is not known.
    believed: AtomicBool,
}

impl Mark {
    /// An event in that state.
    pub fn new(state: i32) -> Self {
        Self {
            state: AtomicI32::new(state),
            ..Self::default()
        }
    }

    /// The last state that is known.
    pub fn state(&self) -> i32 {
        self.state.load(Ordering::Acquire)
    }

    /// Whether it is known to have ended, well or not.
    pub fn ended(&self) -> bool {
        self.state() <= CL_COMPLETE
    }

    /// A state was told. A final one stays.
    pub fn told(&self, state: i32) {
        let step = |s| (s > CL_COMPLETE).then_some(state);
        let _ = self
            .state
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, step);
    }

    /// The program says how a user event ended; false when it has said so before.
    pub fn set(&self, state: i32) -> bool {
        let first = !self.set.swap(true, Ordering::AcqRel);
        if first {
            self.told(state);
        }
        first
    }

    /// What its queue numbered its command; 0 for none.
    pub fn number(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }

    /// Its queue numbered its command.
    pub fn numbered(&self, number: u64) {
        self.number.store(number, Ordering::Release);
    }

    /// Nothing but the event can tell when its command runs; the program may have waited for it.
    pub fn hide(&self, waited: bool) {
        self.unseen.store(true, Ordering::Release);
        self.believed.store(waited, Ordering::Release);
    }

    /// Whether a wait for it may end without the worker's word.
    pub fn is_unseen(&self) -> bool {
        self.unseen.load(Ordering::Acquire)
    }

    /// The program is told that it is complete.
    pub fn believe(&self) {
        self.believed.store(true, Ordering::Release);
    }

    /// Whether the program was told that it is complete, which is not known.
    pub fn is_believed(&self) -> bool {
        self.believed.load(Ordering::Acquire)
    }

    /// The times of its command, if they are known.
    pub fn times(&self) -> Option<&[u64; 5]> {
        self.times.get()
    }

    /// Its command is complete and has these times.
    pub fn timed(&self, times: [u64; 5]) -> &[u64; 5] {
        self.told(CL_COMPLETE);
        self.times.get_or_init(|| times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use busbar_abi::opencl::{CL_QUEUED, CL_RUNNING, CL_SUBMITTED};

    #[test]
    fn a_final_state_stays_whatever_is_told_later() {
        let m = Mark::new(CL_QUEUED);
        m.told(CL_RUNNING);
        assert!(!m.ended());
        m.told(-5);
        m.told(CL_COMPLETE);
        m.told(CL_QUEUED);
        assert_eq!((m.state(), m.ended()), (-5, true));
    }

    #[test]
    fn a_user_event_is_set_once() {
        let m = Mark::new(CL_SUBMITTED);
        assert!(m.set(-7) && !m.set(CL_COMPLETE));
        assert_eq!(m.state(), -7);
    }

    #[test]
    fn the_first_times_are_the_times() {
        let m = Mark::new(CL_QUEUED);
        assert!(m.times().is_none());
        assert_eq!(m.timed([1; 5]), m.timed([2; 5]));
        assert!(m.ended());
    }
}
