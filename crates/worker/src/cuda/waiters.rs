//! Calls that wait for the device, on threads that have nothing else to do: the executor goes on
//! with other threads' calls meanwhile.

use super::completer::{Completer, Then};
use super::printed::Printed;
use crate::lock::lock;
use busbar_abi::cuda::*;
use busbar_channel::{look, patience};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
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
    completer: Completer,
    printed: Option<Printed>,
    free: Mutex<Free>,
    /// Threads there are.
    threads: AtomicUsize,
}

/// Threads without a job, or jobs without a thread.
#[derive(Default)]
struct Free {
    idle: Vec<Arc<Seat>>,
    jobs: VecDeque<Job>,
}

/// The most threads. Waits beyond that take their turn: those before them are over when the device
/// has come so far.
const MOST: usize = 128;
/// The most waits: a thread of the client's program waits for one call at a time, and no program
/// has more threads.
const MOST_JOBS: usize = 4096;
/// A thread that waits needs little.
const STACK: usize = 256 << 10;

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
            free: Mutex::default(),
            threads: AtomicUsize::new(0),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// A job may come soon: the thread that will get it looks out for it.
    pub(super) fn rouse(&self) {
        if let Some(seat) = lock(&self.shared.free).idle.last() {
            seat.thread.unpark();
        }
    }

    /// The session is over: passes on what has been printed.
    pub(super) fn close(&self) {
        if let Some(p) = &self.shared.printed {
            p.close();
        }
    }

    /// Answers `call` once `wait` is over.
    pub(super) fn wait(&self, context: u64, wait: Wait, call: u32) {
        let job = Job {
            context,
            wait,
            call,
        };
        let refuse = || {
            let then = Then::Reply { call };
            self.shared.completer.now(CUDA_ERROR_OUT_OF_MEMORY, then);
        };
        let mut free = lock(&self.shared.free);
        // The last to become idle is the likeliest to be awake.
        if let Some(seat) = free.idle.pop() {
            drop(free);
            *lock(&seat.job) = Some(job);
            seat.given.store(true, Ordering::Release);
            seat.thread.unpark();
            return;
        }
        // Only the executor starts threads.
        if self.shared.threads.load(Ordering::Relaxed) >= MOST {
            if free.jobs.len() < MOST_JOBS {
                free.jobs.push_back(job);
                return;
            }
            drop(free);
            return refuse();
        }
        drop(free);
        let shared = self.shared.clone();
        let run = move || shared.run(job);
        let started = std::thread::Builder::new()
            .name("waiter".into())
            .stack_size(STACK)
            .spawn(run);
        match started {
            Ok(_) => _ = self.shared.threads.fetch_add(1, Ordering::Relaxed),
            Err(_) => refuse(),
        }
    }
}

impl Shared {
    /// A waiting thread, from its first job on.
    fn run(&self, first: Job) {
        super::driver::relax(self.driver);
        let seat = Arc::new(Seat {
            thread: std::thread::current(),
            given: AtomicBool::new(false),
            job: Mutex::default(),
        });
        let mut next = Some(first);
        loop {
            while let Some(job) = next.take() {
                self.serve(&job);
                let mut free = lock(&self.free);
                next = free.jobs.pop_front();
                if next.is_none() {
                    free.idle.push(seat.clone());
                }
            }
            while !look(patience().after, || seat.given.load(Ordering::Acquire)) {
                std::thread::park();
            }
            seat.given.store(false, Ordering::Relaxed);
            next = lock(&seat.job).take();
        }
    }

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
