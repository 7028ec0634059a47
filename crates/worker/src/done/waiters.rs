//! Calls that wait, on threads that have nothing else to do: the executor goes on with other
//! threads' calls meanwhile.

use crate::prelude::*;
use busbar_channel::{look, patience};
use std::thread::Thread;

/// A thread that waits for a job.
struct Seat<J> {
    thread: Thread,
    /// Set after `job`.
    given: AtomicBool,
    job: Mutex<Option<J>>,
}

/// Threads without a job, or jobs without a thread.
struct Free<J> {
    idle: Vec<Arc<Seat<J>>>,
    jobs: VecDeque<J>,
    /// Threads there are.
    threads: usize,
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
pub(super) struct Waiters<J> {
    free: Arc<Mutex<Free<J>>>,
}

impl<J> Default for Waiters<J> {
    fn default() -> Self {
        let free = Free {
            idle: Vec::new(),
            jobs: VecDeque::new(),
            threads: 0,
        };
        Self {
            free: Arc::new(Mutex::new(free)),
        }
    }
}

impl<J: Send + 'static> Waiters<J> {
    /// The thread that will get the next job looks out for it.
    pub(super) fn rouse(&self) {
        if let Some(seat) = lock(&self.free).idle.last() {
            seat.thread.unpark();
        }
    }

    /// Gives a job to a thread; it comes back when there is none for it. One that may not `queue`
    /// gets a thread beyond the others. A new thread gets what serves its jobs.
    pub(super) fn take<F: FnMut(J) + Send + 'static>(
        &self,
        job: J,
        queue: bool,
        server: impl FnOnce() -> F,
    ) -> Result<(), J> {
        let mut free = lock(&self.free);
        // The last to become idle is the likeliest to be awake.
        if let Some(seat) = free.idle.pop() {
            drop(free);
            *lock(&seat.job) = Some(job);
            seat.given.store(true, Ordering::Release);
            seat.thread.unpark();
            return Ok(());
        }
        if queue && free.threads >= MOST {
            if free.jobs.len() >= MOST_JOBS {
                return Err(job);
            }
            free.jobs.push_back(job);
            return Ok(());
        }
        free.threads += 1;
        drop(free);
        // Given by hand, for it is to come back when there is no thread.
        let first = Arc::new(Mutex::new(Some(job)));
        let (free, given, serve) = (self.free.clone(), first.clone(), server());
        let started = std::thread::Builder::new()
            .name("waiter".into())
            .stack_size(STACK)
            .spawn(move || run(&free, serve, lock(&given).take()));
        if started.is_err() {
            lock(&self.free).threads -= 1;
            return lock(&first).take().map_or(Ok(()), Err);
        }
        Ok(())
    }
}

/// A waiting thread, from its first job on.
fn run<J>(free: &Mutex<Free<J>>, mut serve: impl FnMut(J), first: Option<J>) {
    let seat = Arc::new(Seat {
        thread: std::thread::current(),
        given: AtomicBool::new(false),
        job: Mutex::new(None),
    });
    let mut next = first;
    loop {
        while let Some(job) = next.take() {
            serve(job);
            let mut free = lock(free);
            if free.threads > MOST {
                free.threads -= 1;
                return;
            }
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
