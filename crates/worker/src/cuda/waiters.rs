//! Calls that wait for the device, on threads that have nothing else to do: the executor goes on
//! with other threads' calls meanwhile.

use super::completer::{Completer, Then};
use super::printed::Printed;
use busbar_abi::cuda::*;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

/// What to wait for. Handles are numbers here: they pass between threads.
#[derive(Clone, Copy)]
pub(super) enum Wait {
    /// All work of the context.
    Context,
    /// All work of a stream.
    Stream(u64),
    /// An event.
    Event(u64),
}

struct Job {
    context: u64,
    wait: Wait,
    call: u32,
}

struct Shared {
    driver: &'static Driver,
    completer: Completer,
    printed: Option<Printed>,
    /// Threads that wait for a job.
    idle: Mutex<Vec<Sender<Job>>>,
    /// Threads there are.
    threads: AtomicUsize,
}

/// The most threads: a thread of the client's program waits for one call at a time, and no program
/// has more threads.
const MOST: usize = 4096;

/// Threads that wait.
pub(super) struct Waiters {
    shared: Arc<Shared>,
}

impl Waiters {
    pub(super) fn new(
        driver: &'static Driver,
        completer: Completer,
        printed: Option<Printed>,
    ) -> Self {
        let shared = Shared {
            driver,
            completer,
            printed,
            idle: Mutex::default(),
            threads: AtomicUsize::new(0),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Answers `call` once `wait` is over.
    pub(super) fn wait(&self, context: u64, wait: Wait, call: u32) {
        let job = Job {
            context,
            wait,
            call,
        };
        let idle = self
            .shared
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        let job = match idle.map(|tx| tx.send(job)) {
            Some(Ok(())) => return,
            Some(Err(e)) => e.0,
            None => Job {
                context,
                wait,
                call,
            },
        };
        let refuse = || {
            let then = Then::Reply { call };
            self.shared.completer.now(CUDA_ERROR_OUT_OF_MEMORY, then);
        };
        // Only the executor starts threads.
        if self.shared.threads.load(Ordering::Relaxed) >= MOST {
            return refuse();
        }
        let shared = self.shared.clone();
        let (tx, rx) = channel();
        let run = move || {
            super::stream::relax(shared.driver);
            let mut next = Some(job);
            while let Some(job) = next {
                shared.serve(&job);
                shared
                    .idle
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(tx.clone());
                next = rx.recv().ok();
            }
        };
        let started = std::thread::Builder::new().name("waiter".into()).spawn(run);
        match started {
            Ok(_) => _ = self.shared.threads.fetch_add(1, Ordering::Relaxed),
            Err(_) => refuse(),
        }
    }
}

impl Shared {
    fn serve(&self, job: &Job) {
        // SAFETY: the context and handles were live when the client asked; that it does not destroy
        // them meanwhile is the API's own demand.
        let rc = unsafe {
            self.driver.cuCtxSetCurrent(job.context as CUcontext);
            match job.wait {
                Wait::Context => self.driver.cuCtxSynchronize(),
                Wait::Stream(s) => self.driver.cuStreamSynchronize(s as CUstream),
                Wait::Event(e) => self.driver.cuEventSynchronize(e as CUevent),
            }
        };
        if let Some(p) = &self.printed {
            p.flush();
        }
        self.completer.now(rc, Then::Reply { call: job.call });
    }
}
