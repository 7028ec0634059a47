//! What is to happen once the device has come so far: copies that arrive, answers that wait.
//!
//! Entries are looked at in the order in which they were made, by whoever has time: the executor
//! between records, and a thread of its own when the executor has none. An answer is sent only
//! after everything that was complete before it: a client that hears that a stream is idle has the
//! bytes that were copied on it.
//!
//! So one thread at a time does what is due, and it does that without the lock of the list: others
//! add to the list meanwhile, and leave theirs to it. What is due at once is sent at once: the
//! bytes of a copy and the word that its stream is idle are one system call.

use super::blame::Blame;
use crate::lock::{lock, wait};
use crate::outbox::Outbox;
use crate::staging::Lent;
use busbar_abi::cuda::*;
use busbar_channel::{patience, soon, spare_core};
use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, TryLockError};
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
    /// Locked after `role` by who needs both.
    state: Mutex<State>,
    came: Condvar,
    /// Held by whoever does what is due.
    role: Mutex<()>,
    /// Somebody has come while another held the role.
    missed: AtomicBool,
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

/// An entry whose time has come, and its result.
type Due = (Entry, CUresult);

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
            role: Mutex::new(()),
            missed: AtomicBool::new(false),
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
        while soon(&self.shared.state).entries.len() >= MOST && !self.shared.outbox.closed() {
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
        let free = soon(&self.shared.state)
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
                soon(&self.shared.state)
                    .free
                    .entry(context)
                    .or_default()
                    .push(event);
                Err(rc)
            }
        }
    }

    fn push(&self, e: Entry) {
        let mut s = soon(&self.shared.state);
        s.entries.push_back(e);
        if s.entries.len() == 1 {
            self.shared.came.notify_one();
        }
    }

    /// A context is about to go, and its events with it: what waits for them is to be given to
    /// [`Completer::bereft`] when it has gone.
    pub(super) fn leave(&self, context: u64) -> Bereft {
        let role = lock(&self.shared.role);
        let mut s = soon(&self.shared.state);
        let due = self.take_due(&mut s);
        let of_it = |e: &Entry| matches!(e.event, Ok((_, c)) if c == context);
        let (left, rest): (Vec<_>, Vec<_>) = s.entries.drain(..).partition(of_it);
        s.entries = rest.into();
        s.free.remove(&context);
        drop(s);
        self.finish(due);
        drop(role);
        // For who has come meanwhile.
        self.sweep();
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

    /// Does everything whose time has come, or has the thread do it that is at it. Returns whether
    /// anything may be left.
    pub(super) fn sweep(&self) -> bool {
        self.shared.missed.store(true, Ordering::Relaxed);
        // Either we get the role, or whoever has it sees that.
        fence(Ordering::SeqCst);
        self.glance()
    }

    /// As [`Completer::sweep`], for nothing in particular.
    pub(super) fn glance(&self) -> bool {
        loop {
            let role = match self.shared.role.try_lock() {
                Ok(role) => role,
                Err(TryLockError::Poisoned(e)) => e.into_inner(),
                Err(TryLockError::WouldBlock) => return true,
            };
            self.shared.missed.store(false, Ordering::Relaxed);
            let left = loop {
                let mut s = soon(&self.shared.state);
                let due = self.take_due(&mut s);
                let left = !s.entries.is_empty();
                drop(s);
                if due.is_empty() {
                    break left;
                }
                self.finish(due);
            };
            drop(role);
            fence(Ordering::SeqCst);
            if !self.shared.missed.load(Ordering::Relaxed) {
                return left;
            }
        }
    }

    /// Takes out what is due, in the order in which it is to be done.
    fn take_due(&self, s: &mut State) -> Vec<Due> {
        let mut due = Vec::new();
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
            let Some(e) = s.entries.remove(i) else {
                continue;
            };
            if let Ok((event, context)) = e.event {
                s.free.entry(context).or_default().push(event);
            }
            if let (Then::Reply { call }, true) = (&e.then, rc != CUDA_SUCCESS) {
                drop_chunks(s, *call);
            }
            due.push((e, rc));
        }
        due
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

    /// Does what is due. The caller has the role.
    fn finish(&self, due: Vec<Due>) {
        let outbox = &self.shared.outbox;
        let mut put = false;
        for (e, rc) in due {
            put |= matches!(&e.then, Then::Chunk { .. } | Then::Reply { .. });
            // Whatever it was that failed, it failed in what was queued before: a copy itself does
            // not.
            if rc != CUDA_SUCCESS {
                let near = e.event.map_or(0, |(_, context)| context);
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
                        // SAFETY: the slab holds `len` bytes, which nobody writes until it is
                        // dropped.
                        unsafe { outbox.put_chunk(call, offset, p, len, &keep) };
                    }
                }
                Then::Reply { call } => outbox.put_reply(call, rc, |_| {}),
                Then::Run(f) => f(rc),
            }
        }
        if put {
            outbox.flush();
        }
    }

    /// The thread that looks when the executor is busy.
    fn run(&self) {
        // SAFETY: plain prctl; naps of some microseconds need the finest timer slack.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
        super::driver::relax(self.shared.driver);
        let mut idle = Instant::now();
        loop {
            let before = {
                let mut s = soon(&self.shared.state);
                while s.entries.is_empty() {
                    s = wait(&self.shared.came, s);
                    idle = Instant::now();
                }
                s.entries.len()
            };
            self.glance();
            let left = soon(&self.shared.state).entries.len();
            if left < before {
                idle = Instant::now();
            }
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
