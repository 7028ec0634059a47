//! What is known of an event.
#![forbid(unsafe_code)]

use super::prelude::*;
use busbar_abi::opencl::CL_COMPLETE;
use busbar_channel::gate::Gate;

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
    /// How much had been queued with its command, if somebody counted.
    queued: AtomicU64,
    /// The worker is yet to tell of it.
    awaited: AtomicBool,
}

/// Of how many events the worker tells by itself since the program has last waited for one with
/// more queued behind it.
const WORTH: u32 = 256;

/// Of which events the worker tells by itself: to ask for one would be to wait behind all that was
/// queued since.
pub struct Told {
    /// Opened when it has told of one.
    pub gate: Gate,
    /// Whether the program waits for events.
    counts: AtomicBool,
    worth: AtomicU32,
}

impl Default for Told {
    fn default() -> Self {
        Self {
            gate: Gate::new("an event"),
            counts: AtomicBool::default(),
            worth: AtomicU32::default(),
        }
    }
}

impl Told {
    /// Whether it matters how much is queued with a command.
    #[inline]
    pub fn counts(&self) -> bool {
        self.counts.load(Ordering::Acquire)
    }

    /// The program waits for an event, with more queued behind it or not.
    pub fn waited(&self, behind: bool) {
        self.counts.store(true, Ordering::Release);
        if behind {
            self.worth.store(WORTH, Ordering::Release);
        }
    }

    /// Whether the worker is to tell of one more.
    pub fn ask(&self) -> bool {
        let one_less = |n: u32| n.checked_sub(1);
        let (set, fetch) = (Ordering::AcqRel, Ordering::Relaxed);
        self.worth.fetch_update(set, fetch, one_less).is_ok()
    }
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

    /// So much has been queued, its command among it.
    pub fn queued(&self, queued: u64) {
        self.queued.store(queued, Ordering::Release);
    }

    /// Whether more has been queued behind its command, if so much is queued by now.
    pub fn is_behind(&self, queued: u64) -> bool {
        let then = self.queued.load(Ordering::Acquire);
        then != 0 && then < queued
    }

    /// The worker is to tell of it; or has, or will not.
    pub fn await_word(&self, yes: bool) {
        self.awaited.store(yes, Ordering::Release);
    }

    /// Whether the worker is yet to tell of it.
    pub fn awaits_word(&self) -> bool {
        self.awaited.load(Ordering::Acquire)
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
    fn the_worker_tells_while_the_program_waits_for_what_has_more_behind_it() {
        let (m, told) = (Mark::new(CL_QUEUED), Told::default());
        assert!(!told.counts() && !m.is_behind(9), "nobody counts");
        told.waited(false);
        m.queued(7);
        assert!(told.counts() && !told.ask() && !m.is_behind(7));
        assert!(m.is_behind(8));
        told.waited(true);
        assert_eq!((0..1000).filter(|_| told.ask()).count(), WORTH as usize);
    }

    #[test]
    fn the_first_times_are_the_times() {
        let m = Mark::new(CL_QUEUED);
        assert!(m.times().is_none());
        assert_eq!(m.timed([1; 5]), m.timed([2; 5]));
        assert!(m.ended());
    }
}
