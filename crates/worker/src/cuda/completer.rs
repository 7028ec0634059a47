//! What is to happen once the device has come so far: copies that arrive, answers that wait.
//!
//! Entries are looked at in the order in which they were made, by whoever has time: the executor
//! between records, and a thread of its own when the executor has none. An answer is sent only
//! after everything that was complete before it: a client that hears that a stream is idle has the
//! bytes that were copied on it.

use super::blame::Blame;
use crate::outbox::Outbox;
use crate::staging::Lent;
use busbar_abi::cuda::*;
use busbar_channel::{patience, spare_core};
use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// What happens when an entry's time has come.
pub(super) enum Then {
    /// Staging memory is free again.
    Release(Lent),
    /// Bytes in staging memory go to the client.
    Chunk {
        /// The call they answer.
        call: u32,
        /// Where they belong in its answer.
        offset: u64,
        /// Where they are.
        slab: Lent,
        /// How many.
        len: usize,
    },
    /// A call is answered, without fields.
    Reply {
        /// The call.
        call: u32,
    },
    /// Something else; it must not block.
    Run(Box<dyn FnOnce(CUresult) + Send>),
}

/// An event of the driver's; thread-safe, as the driver's handles are.
#[derive(Clone, Copy)]
struct Event(CUevent);
// SAFETY: events may be used from any thread.
unsafe impl Send for Event {}

struct Entry {
    /// The event to wait for; none when the time has come already, with a result.
    event: Result<(Event, u64), CUresult>,
    then: Then,
}

/// What waited for events of a context that has gone.
#[must_use]
pub(super) struct Bereft(Vec<Entry>);

#[derive(Default)]
struct State {
    entries: VecDeque<Entry>,
    /// Events that are free, by context.
    free: HashMap<u64, Vec<Event>>,
}

struct Shared {
    driver: &'static Driver,
    outbox: Outbox,
    blame: Blame,
    state: Mutex<State>,
    came: Condvar,
}

/// The most entries.
const MOST: usize = 1 << 13;

/// The list of things to come. Cheap to clone.
#[derive(Clone)]
pub(super) struct Completer {
    shared: Arc<Shared>,
}

/// Pieces of an answer that are still under way are not sent once the call has failed.
fn drop_chunks(s: &mut State, failed: u32) {
    for e in &mut s.entries {
        if matches!(&e.then, Then::Chunk { call, .. } if *call == failed) {
            let nothing = Then::Run(Box::new(|_| {}));
            if let Then::Chunk { slab, .. } = std::mem::replace(&mut e.then, nothing) {
                e.then = Then::Release(slab);
            }
        }
    }
}

fn lock(m: &Mutex<State>) -> MutexGuard<'_, State> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Completer {
    /// A completer and its thread.
    pub(super) fn start(
        driver: &'static Driver,
        outbox: Outbox,
        blame: Blame,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            driver,
            outbox,
            blame,
            state: Mutex::default(),
            came: Condvar::new(),
        });
        let me = Self {
            shared: shared.clone(),
        };
        let thread = me.clone();
        std::thread::Builder::new()
            .name("completer".into())
            .spawn(move || thread.run())?;
        Ok(me)
    }

    /// Waits while more is to come than any program has under way. Whoever calls has nothing that
    /// the entries wait for: as with the driver's own queues, its client waits, too.
    fn wait_for_room(&self) {
        while lock(&self.shared.state).entries.len() >= MOST && !self.shared.outbox.closed() {
            self.sweep();
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    /// Does `then` once everything queued so far on `stream`, of the current context, is done.
    pub(super) fn after(&self, stream: CUstream, context: u64, then: Then) {
        self.wait_for_room();
        let event = self.record(stream, context);
        self.push(Entry { event, then });
    }

    /// Does `then` now, but after everything whose time has come before.
    pub(super) fn now(&self, rc: CUresult, then: Then) {
        self.push(Entry {
            event: Err(rc),
            then,
        });
        self.sweep();
    }

    /// An event behind all that is queued on `stream`, or the result if it need not be waited for.
    fn record(&self, stream: CUstream, context: u64) -> Result<(Event, u64), CUresult> {
        self.try_record(stream, context).map_err(|rc| match rc {
            // There is no memory for an event, but one can wait without.
            // SAFETY: a live stream of the current context.
            CUDA_ERROR_OUT_OF_MEMORY => unsafe { self.shared.driver.cuStreamSynchronize(stream) },
            rc => rc,
        })
    }

    fn try_record(&self, stream: CUstream, context: u64) -> Result<(Event, u64), CUresult> {
        let free = lock(&self.shared.state)
            .free
            .entry(context)
            .or_default()
            .pop();
        let event = match free {
            Some(e) => e,
            None => {
                let mut e: CUevent = std::ptr::null_mut();
                const DISABLE_TIMING: u32 = 2;
                // SAFETY: a pointer to a live handle.
                match unsafe { self.shared.driver.cuEventCreate(&mut e, DISABLE_TIMING) } {
                    CUDA_SUCCESS => Event(e),
                    rc => return Err(rc),
                }
            }
        };
        // SAFETY: a live event and stream of the current context.
        match unsafe { self.shared.driver.cuEventRecord(event.0, stream) } {
            CUDA_SUCCESS => Ok((event, context)),
            rc => {
                lock(&self.shared.state)
                    .free
                    .entry(context)
                    .or_default()
                    .push(event);
                Err(rc)
            }
        }
    }

    fn push(&self, e: Entry) {
        let mut s = lock(&self.shared.state);
        s.entries.push_back(e);
        if s.entries.len() == 1 {
            self.shared.came.notify_one();
        }
    }

    /// A context is about to go, and its events with it: what waits for them is to be given to
    /// [`Completer::bereft`] when it has gone.
    pub(super) fn leave(&self, context: u64) -> Bereft {
        let mut s = lock(&self.shared.state);
        self.sweep_locked(&mut s);
        let of_it = |e: &Entry| matches!(e.event, Ok((_, c)) if c == context);
        let (left, rest): (Vec<_>, Vec<_>) = s.entries.drain(..).partition(of_it);
        s.entries = rest.into();
        s.free.remove(&context);
        Bereft(left)
    }

    /// The context is gone; whatever was still to come on it never does.
    pub(super) fn bereft(&self, left: Bereft) {
        const GONE: CUresult = CUDA_ERROR_CONTEXT_IS_DESTROYED;
        for e in left.0 {
            match e.then {
                Then::Release(slab) | Then::Chunk { slab, .. } => drop(slab),
                Then::Reply { call } => self.shared.outbox.reply(call, GONE, |_| {}),
                Then::Run(f) => f(GONE),
            }
        }
    }

    /// Does everything whose time has come. Returns whether anything is left.
    pub(super) fn sweep(&self) -> bool {
        let mut s = lock(&self.shared.state);
        self.sweep_locked(&mut s);
        !s.entries.is_empty()
    }

    /// As [`Completer::sweep`], unless another thread is at it.
    pub(super) fn glance(&self) -> bool {
        let mut s = match self.shared.state.try_lock() {
            Ok(s) => s,
            Err(TryLockError::Poisoned(e)) => e.into_inner(),
            Err(TryLockError::WouldBlock) => return true,
        };
        self.sweep_locked(&mut s);
        !s.entries.is_empty()
    }

    fn sweep_locked(&self, s: &mut State) {
        let mut i = 0;
        while i < s.entries.len() {
            let Some(rc) = self.ripe(&s.entries[i]) else {
                i += 1;
                continue;
            };
            // Earlier entries may have ripened since they were looked at in this round; they go
            // first.
            let earlier = (0..i).find(|j| self.ripe(&s.entries[*j]).is_some());
            if let Some(j) = earlier {
                i = j;
                continue;
            }
            if let Some(e) = s.entries.remove(i) {
                self.finish(s, e, rc);
            }
        }
    }

    /// The entry's result, if its time has come.
    fn ripe(&self, e: &Entry) -> Option<CUresult> {
        match &e.event {
            Err(rc) => Some(*rc),
            Ok((event, _)) => {
                // SAFETY: a live event.
                match unsafe { self.shared.driver.cuEventQuery(event.0) } {
                    CUDA_ERROR_NOT_READY => None,
                    rc => Some(rc),
                }
            }
        }
    }

    fn finish(&self, s: &mut State, e: Entry, rc: CUresult) {
        let mut near = 0;
        if let Ok((event, context)) = e.event {
            s.free.entry(context).or_default().push(event);
            near = context;
        }
        let outbox = &self.shared.outbox;
        // Whatever it was that failed, it failed in what was queued before: a copy itself does not.
        if rc != CUDA_SUCCESS {
            self.shared.blame.failed(rc, 0, near);
        }
        match e.then {
            Then::Release(slab) => drop(slab),
            Then::Chunk {
                call,
                offset,
                slab,
                len,
            } => {
                if rc == CUDA_SUCCESS {
                    let p = slab.ptr();
                    let keep: Arc<dyn Any + Send + Sync> = Arc::new(slab);
                    // SAFETY: the slab holds `len` bytes, which nobody writes until it is dropped.
                    unsafe { outbox.chunk_shared(call, offset, p, len, &keep) };
                }
            }
            Then::Reply { call } => {
                if rc != CUDA_SUCCESS {
                    drop_chunks(s, call);
                }
                outbox.reply(call, rc, |_| {});
            }
            Then::Run(f) => f(rc),
        }
    }

    /// The thread that looks when the executor is busy.
    fn run(&self) {
        // SAFETY: plain prctl; naps of some microseconds need the finest timer slack.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
        super::stream::relax(self.shared.driver);
        let mut idle = Instant::now();
        loop {
            let left = {
                let mut s = lock(&self.shared.state);
                if s.entries.is_empty() {
                    while s.entries.is_empty() {
                        s = self
                            .shared
                            .came
                            .wait(s)
                            .unwrap_or_else(PoisonError::into_inner);
                    }
                    idle = Instant::now();
                    s.entries.len()
                } else {
                    let before = s.entries.len();
                    self.sweep_locked(&mut s);
                    if s.entries.len() < before {
                        idle = Instant::now();
                    }
                    s.entries.len()
                }
            };
            let patience = patience().waiting;
            if left > 0 && idle.elapsed() < patience && spare_core() {
                // Somebody may wait for what is on its way: the device's own calls would spin, too.
                for _ in 0..64 {
                    std::hint::spin_loop();
                }
                std::thread::yield_now();
            } else if left > 0 {
                let long = idle.elapsed() > Duration::from_millis(5);
                std::thread::sleep(Duration::from_micros(if long { 50 } else { 10 }));
            }
        }
    }
}
