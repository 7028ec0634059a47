//! Calls that wait for the device, on threads that have nothing else to do: the executor goes on
//! with other threads' calls meanwhile.

use super::completer::{Completer, Then};
use super::printed::Printed;
use busbar_abi::cuda::*;
use busbar_channel::{look, patience};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;

/// What to wait for. Handles are numbers here: they pass between threads.
#[derive(Clone, Copy)]
pub(super) enum Wait {
    /// All work of the context.
    Context,
    /// All work of a stream.
    Stream(u64),
    /// An event.
    Event(u64),
    /// All work of the context; then a mapping is undone, unless its size is 0.
    Unmap {
        /// Where it begins.
        va: u64,
        /// Its length.
        size: u64,
    },
}

struct Job {
    context: u64,
    wait: Wait,
    call: u32,
}

/// A thread that waits for a job.
struct Seat {
    thread: Thread,
    /// Set after `job`.
    given: AtomicBool,
    job: Mutex<Option<Job>>,
}

struct Shared {
    driver: &'static Driver,
    /// Frees that are waiting for their context.
    frees: AtomicUsize,
    completer: Completer,
    printed: Option<Printed>,
    idle: Mutex<Vec<Arc<Seat>>>,
}

/// Threads that wait.
pub(super) struct Waiters {
    shared: Arc<Shared>,
}

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Waiters {
    pub(super) fn new(
        driver: &'static Driver,
        completer: Completer,
        printed: Option<Printed>,
    ) -> Self {
        let shared = Shared {
            driver,
            frees: AtomicUsize::new(0),
            completer,
            printed,
            idle: Mutex::default(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// A job may come soon: the thread that will get it looks out for it.
    pub(super) fn rouse(&self) {
        if let Some(seat) = lock(&self.shared.idle).last() {
            seat.thread.unpark();
        }
    }

    /// Waits until no thread waits for a context by itself: a capture that began meanwhile would be
    /// void. To free memory is to wait for the device, so a program expects no less.
    pub(super) fn no_frees(&self) {
        while self.shared.frees.load(Ordering::Acquire) > 0 {
            std::thread::sleep(std::time::Duration::from_micros(20));
        }
    }

    /// Answers `call` once `wait` is over.
    pub(super) fn wait(&self, context: u64, wait: Wait, call: u32) {
        let job = Job {
            context,
            wait,
            call,
        };
        if matches!(wait, Wait::Unmap { .. }) {
            self.shared.frees.fetch_add(1, Ordering::AcqRel);
        }
        // The last to become idle is the likeliest to be awake.
        let seat = lock(&self.shared.idle).pop();
        if let Some(seat) = seat {
            *lock(&seat.job) = Some(job);
            seat.given.store(true, Ordering::Release);
            seat.thread.unpark();
            return;
        }
        let shared = self.shared.clone();
        if std::thread::Builder::new()
            .name("waiter".into())
            .spawn(move || shared.run(job))
            .is_err()
        {
            if matches!(wait, Wait::Unmap { .. }) {
                self.shared.frees.fetch_sub(1, Ordering::AcqRel);
            }
            self.shared
                .completer
                .now(CUDA_ERROR_OUT_OF_MEMORY, Then::Reply { call });
        }
    }
}

impl Shared {
    /// A waiting thread, from its first job on.
    fn run(&self, first: Job) {
        super::stream::relax(self.driver);
        let seat = Arc::new(Seat {
            thread: std::thread::current(),
            given: AtomicBool::new(false),
            job: Mutex::default(),
        });
        let mut next = Some(first);
        loop {
            if let Some(job) = next.take() {
                self.serve(&job);
                lock(&self.idle).push(seat.clone());
            }
            while !look(patience().after, || seat.given.load(Ordering::Acquire)) {
                std::thread::park();
            }
            seat.given.store(false, Ordering::Relaxed);
            next = lock(&seat.job).take();
        }
    }

    fn serve(&self, job: &Job) {
        let free = matches!(job.wait, Wait::Unmap { .. });
        let _waits = (!free).then(|| self.completer.outbox().client_waits());
        // SAFETY: the context and handles were live when the client asked; that it does not destroy
        // them meanwhile is the API's own demand.
        let rc = unsafe {
            self.driver.cuCtxSetCurrent(job.context as CUcontext);
            match job.wait {
                Wait::Context => self.driver.cuCtxSynchronize(),
                Wait::Stream(s) => self.driver.cuStreamSynchronize(s as CUstream),
                Wait::Event(e) => self.driver.cuEventSynchronize(e as CUevent),
                Wait::Unmap { va, size } => {
                    // A lost context uses nothing any more.
                    self.driver.cuCtxSynchronize();
                    self.frees.fetch_sub(1, Ordering::AcqRel);
                    match size {
                        0 => CUDA_SUCCESS,
                        n => self.driver.cuMemUnmap(va, n as usize),
                    }
                }
            }
        };
        if let Some(p) = &self.printed {
            p.flush();
        }
        self.completer.now(rc, Then::Reply { call: job.call });
    }
}
