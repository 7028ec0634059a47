//! A session's way to a checkpoint and back, as another program of its tenant asks for it.
//!
//! A step may take as long as it takes to copy all that is on the devices. Nothing else waits for
//! it: what the server says meanwhile is heard.

#![forbid(unsafe_code)]

use crate::prelude::*;
use busbar_control::checkpoint::{NOT_READY, NOT_SUPPORTED, OUT_OF_MEMORY, Reached, Step};

/// Steps that wait for each other at most.
const MOST: u32 = 16;

type Take = Box<dyn Fn(Step) -> Reached + Send + Sync>;

#[derive(Default)]
struct Shared {
    take: OnceLock<Take>,
    /// Held during a step.
    alone: Mutex<()>,
    /// Steps that are not over.
    waiting: AtomicU32,
    /// The driver takes no calls.
    locked: AtomicBool,
}

/// What takes a session's steps. Cheap to clone; the default takes none.
#[derive(Clone, Default)]
pub struct Checkpoints(Arc<Shared>);

impl Checkpoints {
    /// From now on this takes steps, one at a time.
    pub fn on_step(&self, take: impl Fn(Step) -> Reached + Send + Sync + 'static) {
        let _ = self.0.take.set(Box::new(take));
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
        let shared = self.0.clone();
        let refused = |status| Reached { status, state: 0 };
        if shared.waiting.fetch_add(1, Ordering::AcqRel) >= MOST {
            shared.waiting.fetch_sub(1, Ordering::AcqRel);
            return say(refused(NOT_READY));
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
            let reached = match shared.take.get() {
                Some(take) => take(step),
                None => refused(NOT_SUPPORTED),
            };
            drop(alone);
            shared.waiting.fetch_sub(1, Ordering::AcqRel);
            tell(reached);
        };
        let thread = std::thread::Builder::new().name("checkpoint".into());
        if thread.spawn(run).is_err() {
            self.0.waiting.fetch_sub(1, Ordering::AcqRel);
            if let Some(say) = lock(&say).take() {
                say(refused(OUT_OF_MEMORY));
            }
        }
    }
}
