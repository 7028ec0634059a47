//! A session's way to a checkpoint and back, as another program of its tenant asks for it, or as
//! the server has it give way to sessions that lack its memory.
//!
//! A step may take as long as it takes to copy all that is on the devices. Nothing else waits for
//! it: what the server says meanwhile is heard.

#![forbid(unsafe_code)]

use crate::inventory::Tally;
use crate::prelude::*;
use busbar_control::checkpoint::{
    CHECKPOINTED, ILLEGAL_STATE, NOT_READY, NOT_SUPPORTED, OUT_OF_MEMORY, Reached, Step, Swap,
    TAKEN,
};
use busbar_wire::session::Execution;
use std::sync::atomic::fence;

/// Steps that wait for each other at most.
const MOST: u32 = 16;
/// How long what is under way may take where a session is to give way: of one that is idle, and of
/// one at work.
const IDLE_MS: u32 = 500;
const BUSY_MS: u32 = 10_000;

type Take = Box<dyn Fn(Step) -> Reached + Send + Sync>;

/// Knows whether anything waits to be executed, and how much was.
type Done = (Arc<Execution>, Arc<Tally>);

#[derive(Default)]
struct Shared {
    take: OnceLock<Take>,
    /// Knows what there is to do, and what was done.
    done: OnceLock<Done>,
    /// Tells the server that there is something, where sessions give way to others.
    wanted: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// Held during a step.
    alone: Mutex<()>,
    /// Steps that are not over.
    waiting: AtomicU32,
    /// The driver takes no calls.
    locked: AtomicBool,
    /// The session has given way, or is about to, and the server is to hear of the next call.
    away: AtomicBool,
    /// It has given way.
    swapped: AtomicBool,
}

impl Shared {
    fn take(&self, step: Step) -> Reached {
        match self.take.get() {
            Some(take) => take(step),
            None => Reached::without_driver(NOT_SUPPORTED, 0),
        }
    }

    fn swap(&self, way: Swap) -> Reached {
        match way {
            Swap::Out { idle_since } => self.swap_out(idle_since),
            Swap::In => self.swap_in(),
        }
    }

    fn swap_out(&self, idle_since: Option<u64>) -> Reached {
        let (Some((execution, tally)), Some(_)) = (self.done.get(), self.wanted.get()) else {
            return Reached::without_driver(NOT_SUPPORTED, 0);
        };
        if self.locked.load(Ordering::Acquire) {
            // Another program has it wait.
            return Reached {
                status: ILLEGAL_STATE,
                ..self.take(Step::State)
            };
        }
        // From here on the server hears of whatever comes. What came before is executed, also by
        // threads that a record has woken: that was long ago.
        self.away.store(true, Ordering::Release);
        fence(Ordering::SeqCst);
        let is_idle = |records: u64| execution.is_idle() && tally.records() == records;
        let reached = match idle_since.map(is_idle) {
            None => self.leave(BUSY_MS),
            Some(true) => self.leave(IDLE_MS),
            Some(false) => Reached::without_driver(NOT_READY, 0),
        };
        let done = reached.status == TAKEN;
        self.swapped.store(done, Ordering::Release);
        if !done {
            self.away.store(false, Ordering::Release);
        }
        reached
    }

    fn leave(&self, timeout_ms: u32) -> Reached {
        let locked = self.take(Step::Lock { timeout_ms });
        if locked.status != TAKEN {
            return locked;
        }
        let left = self.take(Step::Checkpoint);
        if left.status != TAKEN {
            let there = self.take(Step::Unlock);
            return Reached::without_driver(left.status, there.state);
        }
        left
    }

    fn swap_in(&self) -> Reached {
        let now = self.take(Step::State);
        let away = self.swapped.load(Ordering::Acquire) && now.state == CHECKPOINTED;
        if away {
            let back = self.take(Step::Restore);
            if back.status != TAKEN {
                return back;
            }
        }
        self.swapped.store(false, Ordering::Release);
        self.away.store(false, Ordering::Release);
        if away { self.take(Step::Unlock) } else { now }
    }
}

/// What takes a session's steps. Cheap to clone; the default takes none.
#[derive(Clone, Default)]
pub struct Checkpoints(Arc<Shared>);

impl Checkpoints {
    /// From now on this takes steps, one at a time.
    pub fn on_step(&self, take: impl Fn(Step) -> Reached + Send + Sync + 'static) {
        let _ = self.0.take.set(Box::new(take));
    }

    /// Knows by this what there is to do, and what was done.
    pub(crate) fn watch(&self, done: Done) {
        let _ = self.0.done.set(done);
    }

    /// From now on the session can give way: by `wanted` the server hears of what comes while it
    /// has.
    pub(crate) fn can_swap(&self, wanted: impl Fn() + Send + Sync + 'static) {
        let _ = self.0.wanted.set(Box::new(wanted));
    }

    /// Something has come from the client, and waits to be executed.
    pub(crate) fn came(&self) {
        let Some(wanted) = self.0.wanted.get() else {
            return;
        };
        // Against the one in `swap_out`: that finds what has come, or this that it is away.
        fence(Ordering::SeqCst);
        let away = &self.0.away;
        if away.load(Ordering::Relaxed) && away.swap(false, Ordering::AcqRel) {
            wanted();
        }
    }

    /// The driver takes calls, or none, from now on.
    pub fn lock(&self, yes: bool) {
        self.0.locked.store(yes, Ordering::Release);
    }

    /// Whether a call of the driver's would not return.
    pub fn is_locked(&self) -> bool {
        self.0.locked.load(Ordering::Acquire)
    }

    /// Takes a step, and says then what became of it.
    pub(crate) fn step(&self, step: Step, say: impl FnOnce(Reached) + Send + 'static) {
        self.run(move |shared| shared.take(step), say);
    }

    /// Has the session give way to others, or come back, and says then what became of that.
    pub(crate) fn swap(&self, way: Swap, say: impl FnOnce(Reached) + Send + 'static) {
        self.run(move |shared| shared.swap(way), say);
    }

    fn run(
        &self,
        what: impl FnOnce(&Shared) -> Reached + Send + 'static,
        say: impl FnOnce(Reached) + Send + 'static,
    ) {
        let shared = self.0.clone();
        if shared.waiting.fetch_add(1, Ordering::AcqRel) >= MOST {
            shared.waiting.fetch_sub(1, Ordering::AcqRel);
            return say(Reached::without_driver(NOT_READY, 0));
        }
        // Whoever comes first says it: the thread, or this one if there is none to be had.
        let say = Arc::new(Mutex::new(Some(say)));
        let said = say.clone();
        let tell = move |reached| {
            if let Some(say) = lock(&said).take() {
                say(reached);
            }
        };
        let run = move || {
            let alone = lock(&shared.alone);
            let reached = what(&shared);
            drop(alone);
            shared.waiting.fetch_sub(1, Ordering::AcqRel);
            tell(reached);
        };
        let thread = std::thread::Builder::new().name("checkpoint".into());
        if thread.spawn(run).is_err() {
            self.0.waiting.fetch_sub(1, Ordering::AcqRel);
            if let Some(say) = lock(&say).take() {
                say(Reached::without_driver(OUT_OF_MEMORY, 0));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use busbar_control::checkpoint::LOCKED;

    /// A driver that has a state and nothing else, and what it is to refuse next.
    #[derive(Default)]
    struct Driver {
        state: AtomicU32,
        refuses: Mutex<Option<(Step, i32)>>,
    }

    impl Driver {
        fn take(&self, step: Step) -> Reached {
            let state = self.state.load(Ordering::Acquire);
            let next = match (step, state) {
                (Step::State, _) => Ok(state),
                (Step::Lock { .. }, 0) | (Step::Restore, CHECKPOINTED) => Ok(LOCKED),
                (Step::Checkpoint, LOCKED) => Ok(CHECKPOINTED),
                (Step::Unlock, LOCKED) => Ok(0),
                _ => Err(ILLEGAL_STATE),
            };
            let refused = lock(&self.refuses).take_if(|(s, _)| *s == step);
            let next = refused.map_or(next, |(_, status)| Err(status));
            let to = *next.as_ref().unwrap_or(&state);
            self.state.store(to, Ordering::Release);
            Reached::without_driver(next.err().unwrap_or(TAKEN), to)
        }
    }

    const OUT: Swap = Swap::Out {
        idle_since: Some(0),
    };

    struct Session {
        driver: Arc<Driver>,
        checkpoints: Checkpoints,
        execution: Arc<Execution>,
        tally: Arc<Tally>,
        wanted: Arc<AtomicU32>,
    }

    fn session() -> Session {
        let (driver, checkpoints) = (Arc::new(Driver::default()), Checkpoints::default());
        let (execution, wanted) = (Arc::<Execution>::default(), Arc::<AtomicU32>::default());
        let d = driver.clone();
        checkpoints.on_step(move |step| d.take(step));
        let w = wanted.clone();
        let tell = move || {
            w.fetch_add(1, Ordering::AcqRel);
        };
        let tally = Arc::<Tally>::default();
        checkpoints.watch((execution.clone(), tally.clone()));
        checkpoints.can_swap(tell);
        Session {
            driver,
            checkpoints,
            execution,
            tally,
            wanted,
        }
    }

    impl Session {
        fn swap(&self, way: Swap) -> (i32, u32) {
            let r = self.checkpoints.0.swap(way);
            (r.status, r.state)
        }

        fn step(&self, step: Step) -> (i32, u32) {
            let r = self.checkpoints.0.take(step);
            (r.status, r.state)
        }

        fn wanted(&self) -> u32 {
            self.checkpoints.came();
            self.wanted.load(Ordering::Acquire)
        }
    }

    #[test]
    fn one_that_has_given_way_is_missed_once_and_comes_back() {
        let s = session();
        assert_eq!(s.wanted(), 0, "it is here");
        assert_eq!(s.swap(OUT), (TAKEN, CHECKPOINTED));
        assert_eq!((s.wanted(), s.wanted()), (1, 1), "it is said once");
        assert_eq!(s.swap(Swap::In), (TAKEN, 0));
        assert_eq!(s.swap(Swap::In), (TAKEN, 0), "it is here already");
        assert_eq!(s.wanted(), 1);
    }

    #[test]
    fn one_that_has_something_to_do_or_that_a_driver_keeps_does_not_give_way() {
        let s = session();
        s.execution.stages[0].enter(1);
        assert_eq!(s.swap(OUT), (NOT_READY, 0));
        assert_eq!(s.wanted(), 0, "it goes on by itself");
        s.execution.stages[0].leave(1);
        let lock = |timeout_ms| Step::Lock { timeout_ms };
        s.execution.stages[0].enter(2);
        *super::lock(&s.driver.refuses) = Some((lock(BUSY_MS), NOT_READY));
        assert_eq!(s.swap(Swap::Out { idle_since: None }), (NOT_READY, 0));
        s.execution.stages[0].leave(2);
        let lock = lock(IDLE_MS);
        for (step, why) in [(lock, NOT_READY), (Step::Checkpoint, NOT_SUPPORTED)] {
            *super::lock(&s.driver.refuses) = Some((step, why));
            assert_eq!(s.swap(OUT), (why, 0), "{step:?}");
            assert_eq!(s.wanted(), 0);
        }
        // Since the server looked it has done something.
        s.tally.done(1, 0);
        assert_eq!(s.swap(OUT), (NOT_READY, 0));
        let idle_since = Some(1);
        assert_eq!(s.swap(Swap::Out { idle_since }), (TAKEN, CHECKPOINTED));
        assert_eq!(s.swap(Swap::In), (TAKEN, 0));
        let s = session();
        assert_eq!(s.swap(OUT), (TAKEN, CHECKPOINTED));
        *super::lock(&s.driver.refuses) = Some((Step::Restore, OUT_OF_MEMORY));
        assert_eq!(s.swap(Swap::In), (OUT_OF_MEMORY, CHECKPOINTED));
        assert_eq!(s.swap(Swap::In), (TAKEN, 0), "there was room later");
    }

    #[test]
    fn one_that_another_program_has_wait_is_that_programs() {
        let s = session();
        assert_eq!(s.step(Step::Lock { timeout_ms: 7 }), (TAKEN, LOCKED));
        s.checkpoints.lock(true);
        assert_eq!(s.swap(OUT), (ILLEGAL_STATE, LOCKED));
        assert_eq!(s.step(Step::Checkpoint), (TAKEN, CHECKPOINTED));
        assert_eq!(s.swap(Swap::In), (TAKEN, CHECKPOINTED), "it stays so");
        s.step(Step::Restore);
        s.step(Step::Unlock);
        s.checkpoints.lock(false);
        // And one that a program restores after it has given way is back.
        assert_eq!(s.swap(OUT), (TAKEN, CHECKPOINTED));
        s.step(Step::Restore);
        s.step(Step::Unlock);
        assert_eq!(s.swap(Swap::In), (TAKEN, 0));
    }
}
