//! Commands that run: answers that wait for them, bytes that they bring, memory that they read.
//!
//! The executor never waits. What depends on an event is an [`Entry`] here. The driver's callback
//! says that an event has ended; a thread of ours does the rest, unless it is little and nothing
//! else is open, when the callback does it at once. An answer leaves only after the bytes of every
//! read that has ended, so a client that hears of the end of one command has what all earlier ones
//! brought. Some drivers forget callbacks when commands fail, so the thread also looks by itself
//! now and then.

use super::cl::Cl;
use super::landing::Pool;
use super::output::Output;
use crate::lock::lock;
use crate::outbox::Outbox;
use busbar_abi::opencl::*;
use busbar_wire::codec::Message;
use busbar_wire::generated::opencl as wire;
use std::any::Any;
use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Bytes that a command reads into memory of ours.
pub struct Bytes {
    /// Where they are.
    pub ptr: *const u8,
    /// How many.
    pub len: usize,
    /// Where they go in the answer.
    pub offset: u64,
    /// Keeps them.
    pub keep: Arc<dyn Any + Send + Sync>,
}

// SAFETY: the memory belongs to `keep`, and nobody writes it once the command has run.
unsafe impl Send for Bytes {}

/// What an event's end is for.
pub enum Work {
    /// Send bytes; then, if told so, answer the call.
    Chunks(Vec<Bytes>, bool),
    /// Answer a call, with an error if any of the events failed.
    Reply {
        /// Whether a failed event makes the call fail, or is left to its own query.
        strict: bool,
        /// Events whose times the answer brings.
        times: Vec<(u32, Event)>,
    },
    /// Ask for the program's callback, with its token, at a state.
    Callback(u64, i32),
}

impl Work {
    /// Whether a driver's own thread may do it: it asks the driver for no times, and is short.
    fn is_little(&self) -> bool {
        match self {
            Self::Chunks(pieces, _) => pieces.iter().all(|p| p.len <= SMALL),
            Self::Reply { times, .. } => times.is_empty(),
            Self::Callback(..) => true,
        }
    }
}

/// Something that waits for events.
struct Entry {
    number: u64,
    events: Vec<Event>,
    call: u32,
    work: Work,
}

/// An event that is ours to release.
pub struct Event(pub Handle);

// SAFETY: an event is a reference-counted object of a thread-safe API.
unsafe impl Send for Event {}

#[derive(Default)]
struct State {
    next: u64,
    entries: Vec<Entry>,
    holds: VecDeque<(Event, Box<dyn Any + Send>)>,
    /// Events to release, but not from within a driver's callback: the driver may still be at work
    /// on the event and on its queue then.
    dead: Vec<Event>,
    kicked: bool,
}

impl State {
    fn idle(&self) -> bool {
        self.entries.is_empty() && self.holds.is_empty() && self.dead.is_empty()
    }
}

/// Everything that waits.
pub struct Pending {
    cl: &'static Cl,
    outbox: Outbox,
    output: Output,
    pool: Pool,
    state: Mutex<State>,
    changed: Condvar,
}

/// What the driver's callback gets.
struct Token {
    home: Arc<Pending>,
    number: u64,
}

/// Up to this size bytes are sent by the driver's own thread.
const SMALL: usize = 64 << 10;

extern "C" fn ended(_event: Handle, status: i32, token: *mut c_void) {
    // SAFETY: made by `Pending::add` for this one call.
    let token = unsafe { Box::from_raw(token.cast::<Token>()) };
    token.home.ended(token.number, status);
}

impl Pending {
    /// Nothing yet.
    pub fn new(
        cl: &'static Cl,
        outbox: Outbox,
        output: Output,
        pool: Pool,
    ) -> std::io::Result<Arc<Self>> {
        let this = Arc::new(Self {
            cl,
            outbox,
            output,
            pool,
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let runner = this.clone();
        std::thread::Builder::new()
            .name("pending".into())
            .spawn(move || runner.run())?;
        Ok(this)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Adds work for the end of `events`, which are now ours to release. `trigger` is the state to
    /// wait for.
    pub fn add(self: &Arc<Self>, events: Vec<Handle>, trigger: i32, call: u32, work: Work) {
        for e in &events {
            // Another thread may see the end and let go of the event before its callback is set.
            // SAFETY: the caller's event, with one more owner for the length of this call.
            unsafe { (self.cl.clRetainEvent)(*e) };
        }
        let number = {
            let mut s = self.lock();
            s.next += 1;
            let number = s.next;
            let events = events.iter().map(|e| Event(*e)).collect();
            s.entries.push(Entry {
                number,
                events,
                call,
                work,
            });
            number
        };
        if events.is_empty() {
            self.kick();
        }
        for e in events {
            let token = Box::new(Token {
                home: self.clone(),
                number,
            });
            let token = Box::into_raw(token);
            // SAFETY: the entry keeps the event; the token is taken back by the one callback.
            let code = unsafe { (self.cl.clSetEventCallback)(e, trigger, ended, token.cast()) };
            if code != CL_SUCCESS {
                // SAFETY: refused, so no callback will take it.
                drop(unsafe { Box::from_raw(token) });
                self.kick();
            }
            // SAFETY: retained above.
            unsafe { (self.cl.clReleaseEvent)(e) };
        }
    }

    fn kick(&self) {
        self.lock().kicked = true;
        self.changed.notify_one();
    }

    fn ended(&self, number: u64, status: i32) {
        let mut s = self.lock();
        if let [e] = &s.entries[..]
            && e.number == number
            && e.events.len() == 1
            && e.work.is_little()
        {
            let e = s.entries.remove(0);
            // PoCL calls a function that is set after a failure as if the command were complete.
            let status = status.min(self.cl.status(e.events[0].0));
            // Under the lock, so that nothing overtakes it.
            let events = self.perform(e, status);
            s.dead.extend(events);
            return;
        }
        s.kicked = true;
        drop(s);
        self.changed.notify_one();
    }

    fn reply(&self, call: u32, status: i32, strict: bool, times: &[(u32, Event)]) {
        self.output.drain();
        if status < 0 && strict {
            let code = CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
            return self.outbox.reply(call, code, |_| {});
        }
        if times.is_empty() {
            return self.outbox.reply(call, CL_SUCCESS, |_| {});
        }
        let mut reply = wire::FinishReply {
            timed: Vec::new(),
            times: Vec::new(),
        };
        for (id, e) in times {
            if self.cl.status(e.0) == CL_COMPLETE
                && let Ok(times) = self.cl.times(e.0)
            {
                reply.timed.push(*id);
                reply.times.extend(times);
            }
        }
        self.outbox.reply(call, CL_SUCCESS, |w| reply.encode(w));
    }

    fn perform(&self, mut e: Entry, status: i32) -> Vec<Event> {
        match e.work {
            Work::Chunks(list, last) => {
                for p in list.iter().filter(|_| status == CL_COMPLETE) {
                    // SAFETY: `keep` holds the bytes, which are complete.
                    unsafe {
                        self.outbox
                            .chunk_shared(e.call, p.offset, p.ptr, p.len, &p.keep);
                    }
                }
                if last {
                    self.reply(e.call, status, true, &[]);
                }
            }
            Work::Reply { strict, times } => {
                self.reply(e.call, status, strict, &times);
                e.events.extend(times.into_iter().map(|(_, e)| e));
            }
            Work::Callback(token, _) => {
                self.output.drain();
                self.outbox.callback(0, status, |w| w.u64(token));
            }
        }
        e.events
    }

    /// Does everything that is due. Bytes leave before answers: entries are gone through in order,
    /// and an answer's command cannot end before the reads that it depends on, which were added
    /// earlier.
    pub fn pump(&self) {
        let mut s = self.lock();
        s.kicked = false;
        self.let_go(&mut s);
        // States are read backwards: whatever a later entry depends on has ended by the time we
        // look.
        let mut due = Vec::new();
        for i in (0..s.entries.len()).rev() {
            let e = &s.entries[i];
            let until = match e.work {
                Work::Callback(_, trigger) => trigger,
                _ => CL_COMPLETE,
            };
            let worst = e.events.iter().map(|e| self.cl.status(e.0));
            let (mut open, mut failed) = (false, until);
            for status in worst {
                if status > until {
                    open = true;
                    break;
                }
                failed = failed.min(status);
            }
            if !open {
                due.push((i, failed));
            }
        }
        let mut list = Vec::new();
        for (i, status) in due {
            list.push((s.entries.remove(i), status));
        }
        for (e, status) in list.into_iter().rev() {
            let events = self.perform(e, status);
            s.dead.extend(events);
        }
        self.bury(&mut s);
    }

    fn bury(&self, s: &mut State) {
        for e in s.dead.drain(..) {
            // SAFETY: given to `add` with this reference.
            unsafe { (self.cl.clReleaseEvent)(e.0) };
        }
    }

    /// Keeps memory until a command has run, whose event is now ours to release.
    pub fn hold(&self, event: Handle, keep: Box<dyn Any + Send>) {
        let mut s = self.lock();
        s.holds.push_back((Event(event), keep));
        if s.holds.len() > 8 {
            self.let_go(&mut s);
        }
    }

    /// How many commands hold memory.
    pub fn held(&self) -> usize {
        let mut s = self.lock();
        self.let_go(&mut s);
        s.holds.len()
    }

    /// Frees what commands that have run held; looks no further than the first that runs still, for
    /// most commands end in the order of their calls.
    fn let_go(&self, s: &mut State) {
        self.bury(s);
        while let Some((e, _)) = s.holds.front() {
            if self.cl.status(e.0) > CL_COMPLETE {
                return;
            }
            // SAFETY: given to `hold` with this reference.
            unsafe { (self.cl.clReleaseEvent)(e.0) };
            s.holds.pop_front();
        }
    }

    fn run(&self) {
        let mut tidied = Instant::now();
        let mut tidy = || {
            if tidied.elapsed() >= Duration::from_secs(1) {
                tidied = Instant::now();
                self.pool.trim();
            }
        };
        loop {
            tidy();
            let mut s = self.lock();
            while !s.kicked {
                let look = Duration::from_millis(if s.idle() { 1000 } else { 20 });
                let (back, wait) = self
                    .changed
                    .wait_timeout(s, look)
                    .unwrap_or_else(PoisonError::into_inner);
                s = back;
                if wait.timed_out() && !s.idle() {
                    break;
                }
                tidy();
            }
            drop(s);
            self.pump();
        }
    }
}
