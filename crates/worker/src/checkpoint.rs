//! A session's way to a checkpoint and back, as another program of its tenant asks for it.
//!
//! A step may take as long as it takes to copy all that is on the devices. Nothing else waits for
//! it: what the server says meanwhile is heard.

#![forbid(unsafe_code)]

use crate::prelude::*;
use busbar_abi::cuda::CUDA_ERROR_NOT_SUPPORTED;
use busbar_control::checkpoint::{Reached, Step};

type Take = Box<dyn Fn(Step) -> Reached + Send + Sync>;

#[derive(Default)]
struct Shared {
    take: OnceLock<Take>,
    /// Held during a step.
    alone: Mutex<()>,
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
        const NONE: Reached = Reached {
            status: CUDA_ERROR_NOT_SUPPORTED,
            state: 0,
        };
        let shared = self.0.clone();
        let run = move || {
            let _alone = lock(&shared.alone);
            say(shared.take.get().map_or(NONE, |take| take(step)));
        };
        // Without a thread nothing is said, and whoever asks hears that it took too long.
        let thread = std::thread::Builder::new().name("checkpoint".into());
        if let Err(e) = thread.spawn(run) {
            crate::complain!("no thread for a checkpoint: {e}");
        }
    }
}
