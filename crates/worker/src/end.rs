//! The end of a session. What the client held must be free again soon, even if the executor sits in
//! a call of the driver's that does not return; but nothing is cut short that goes on.

use crate::intake::Queue;
use crate::prelude::*;
use busbar_channel::gate::{Gate, Wait};

/// How long the executor may take for one frame or one step of the end.
#[derive(Clone, Copy)]
pub struct Patience {
    step: Duration,
    all: Duration,
}

impl Patience {
    /// After a goodbye: the program has ended, or is about to. Nobody sees what comes of what is
    /// still queued, and others may wait for its memory.
    pub const AFTER_GOODBYE: Self = Self {
        step: Duration::from_secs(1),
        all: Duration::from_secs(10),
    };
    /// Of a client that is gone nothing is executed but the record in progress.
    pub const AFTER_LOSS: Self = Self {
        step: Duration::from_millis(100),
        all: Duration::from_secs(10),
    };
    /// While everything is given back, which no client can make long.
    const CLOSING: Duration = Duration::from_secs(5);
}

/// How far the executor has come.
pub struct Progress {
    queue: Arc<Queue>,
    /// Steps of the end.
    steps: AtomicU32,
    over: AtomicBool,
    changed: Gate,
}

impl Progress {
    pub(crate) fn new(queue: Arc<Queue>) -> Arc<Self> {
        Arc::new(Self {
            queue,
            steps: AtomicU32::new(0),
            over: AtomicBool::new(false),
            changed: Gate::new("the executor to give everything back"),
        })
    }

    /// Nothing more is executed: the client is told, and then all is given back.
    pub(crate) fn step(&self) {
        self.steps.fetch_add(1, Ordering::AcqRel);
    }

    /// All is given back.
    pub(crate) fn finish(&self) {
        self.over.store(true, Ordering::Release);
        self.changed.open();
    }

    /// Waits until all is given back. An error says for how long nothing has gone on.
    pub fn wait(&self, patience: Patience) -> Result<(), Duration> {
        let start = Instant::now();
        let seen = || (self.queue.bytes(), self.steps.load(Ordering::Acquire));
        loop {
            let before = seen();
            let step = match before.1 {
                0 => patience.step,
                _ => Patience::CLOSING,
            };
            let wait = Wait::due("the end of a session").within(step);
            let over = || self.over.load(Ordering::Acquire);
            if self.changed.wait(&wait, over) {
                return Ok(());
            }
            if seen() == before || start.elapsed() > patience.all {
                return Err(start.elapsed());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Patience = Patience {
        step: Duration::from_millis(20),
        all: Duration::from_millis(200),
    };

    #[test]
    fn an_end_that_goes_on_is_waited_for_and_one_that_stands_still_is_not() {
        let progress = Progress::new(Arc::default());
        assert!(progress.wait(SHORT).is_err(), "nothing goes on");
        let end = progress.clone();
        // A busy machine may begin the thread late.
        let long = Patience::AFTER_GOODBYE;
        let thread = std::thread::spawn(move || {
            std::thread::sleep(SHORT.step);
            end.step();
            // Longer than one record may take.
            std::thread::sleep(long.step + SHORT.step);
            end.finish();
        });
        assert!(progress.wait(long).is_ok());
        thread.join().unwrap();
        assert!(progress.wait(SHORT).is_ok());
    }
}
