//! What OpenCL's events are to the completion engine.
//!
//! Of a processor's commands the driver says in a callback that one has ended, and to look for it
//! would take the processor from them; some drivers forget that when commands fail, so the engine's
//! thread also looks by itself now and then. Of a GPU's commands NVIDIA's driver says so 15 ms
//! later. A look takes it less than a microsecond. So a session that has a queue on one looks.

use super::landing::{Landing, Pool};
use super::prelude::*;
use super::shared::Mapping;
use crate::done::{self, Done, Pace, Probe};
use crate::outbox::Outbox;
use crate::printed::Printed;
use crate::staging::Lent;
use crate::turn::Turn;
use busbar_wire::codec::Message;

/// An event that is ours to release.
pub struct Event(pub Handle);

// SAFETY: an event is a reference-counted object of a thread-safe API.
unsafe impl Send for Event {}

/// Events that are all waited for.
pub struct Events {
    first: Event,
    others: Vec<Event>,
    /// The state that is waited for.
    until: i32,
}

impl Events {
    /// One event's end.
    pub fn one(e: Handle) -> Self {
        Self {
            first: Event(e),
            others: Vec::new(),
            until: CL_COMPLETE,
        }
    }

    /// One event's state.
    pub fn at(e: Handle, until: i32) -> Self {
        Self {
            until,
            ..Self::one(e)
        }
    }

    /// The end of all of these; `None` when there are none.
    pub fn all(mut list: Vec<Handle>) -> Option<Self> {
        let first = list.pop()?;
        Some(Self {
            others: list.into_iter().map(Event).collect(),
            ..Self::one(first)
        })
    }

    fn each(&self) -> impl Iterator<Item = Handle> {
        std::iter::once(&self.first)
            .chain(&self.others)
            .map(|e| e.0)
    }
}

/// Memory that a command uses.
pub enum Held {
    /// Bytes of our own.
    Own(Box<[u8]>),
    /// Bytes in the slab that they came in: where, and how many.
    Slab(
        #[allow(dead_code, reason = "held, not read")] Lent,
        *const u8,
        usize,
    ),
    /// What a read would have landed in.
    Landing(#[allow(dead_code, reason = "held, not read")] Landing),
    /// Memory of the client's.
    Mapping(#[allow(dead_code, reason = "held, not read")] Option<Arc<Mapping>>),
}

// SAFETY: the pointer leads into the slab, which moves along.
unsafe impl Send for Held {}

impl Held {
    /// The bytes that the command reads.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Own(b) => b,
            // SAFETY: the payload lies in the slab, which we hold.
            Self::Slab(_, p, n) => unsafe { std::slice::from_raw_parts(*p, *n) },
            Self::Landing(_) | Self::Mapping(_) => &[],
        }
    }
}

/// What an answer has beside its result.
pub enum Answer {
    /// The call fails if an event has.
    Strict,
    /// The answer brings times of events. If told so, the call fails if an event has; else that is
    /// left to the event's own query.
    Times(bool, Vec<(u32, Event)>),
    /// The state of an event.
    Status(i32),
    /// Not an answer, but the program's callback with this token.
    Callback(u64),
}

/// Up to this size bytes are sent by the driver's own thread.
const SMALL: usize = 64 << 10;
/// How often the engine looks by itself where the driver says what has ended.
const LOOK: Duration = Duration::from_millis(20);

/// What the driver's callback gets.
struct Token {
    home: Completer,
    number: u64,
}

/// OpenCL's side of the engine.
pub struct Ends {
    cl: &'static Cl,
    outbox: Outbox,
    printed: Printed,
    pool: Pool,
    /// Events to release, but not from within a driver's callback: the driver may still be at work
    /// on the event and on its queue then.
    dead: Mutex<Vec<Event>>,
    /// Whether the session has a queue on a GPU, so that its events are asked.
    looks: AtomicBool,
    turn: Turn,
    /// Tokens that are free.
    #[allow(clippy::vec_box, reason = "a callback's data is the box itself")]
    tokens: Mutex<Vec<Box<Token>>>,
}

/// The engine of a session.
pub type Completer = Done<Ends>;
/// What happens when an entry's time has come.
pub type Then = done::Then<Ends>;

extern "C" fn ended(event: Handle, status: i32, token: *mut c_void) {
    // SAFETY: made by `after` for this one call.
    let token = unsafe { Box::from_raw(token.cast::<Token>()) };
    let home = token.home.clone();
    let probe = home.probe();
    // PoCL calls a function that is set after a failure as if the command were complete.
    home.told(token.number, status.min(probe.cl.status(event)));
    lock(&probe.tokens).push(token);
}

impl Ends {
    /// Nothing yet.
    pub fn new(cl: &'static Cl, outbox: Outbox, printed: Printed, pool: Pool, turn: Turn) -> Self {
        Self {
            cl,
            outbox,
            printed,
            pool,
            dead: Mutex::default(),
            looks: AtomicBool::new(false),
            turn,
            tokens: Mutex::default(),
        }
    }

    /// The session has a queue on a device that is no processor.
    pub fn look_from_now(&self) {
        self.looks.store(true, Ordering::Release);
    }

    fn bury(&self) {
        while let Some(e) = lock(&self.dead).pop() {
            // SAFETY: given to the engine with this reference.
            unsafe { (self.cl.clReleaseEvent)(e.0) };
        }
    }
}

impl Probe for Ends {
    type Event = Events;
    type Bytes = Landing;
    type Kept = Held;
    type Answer = Answer;
    type Job = ();

    const TIDY: Duration = Duration::from_secs(1);

    fn is_told(&self) -> bool {
        !self.looks.load(Ordering::Acquire)
    }

    fn ask(&self, e: &Events) -> Option<i32> {
        let mut worst = e.until;
        for event in e.each() {
            let status = self.cl.status(event);
            if status > e.until {
                return None;
            }
            worst = worst.min(status);
        }
        Some(worst)
    }

    fn over(&self, e: Events, theirs: bool) {
        let mut dead = lock(&self.dead);
        dead.push(e.first);
        dead.extend(e.others);
        drop(dead);
        if !theirs {
            self.bury();
        }
    }

    /// What asks the driver for no times, and is short.
    fn is_little(&self, e: &Events, then: &Then) -> bool {
        let short = match then {
            Then::Send { bytes, last, .. } => {
                bytes.bytes().len() <= SMALL && !matches!(last, Some(Answer::Times(..)))
            }
            Then::Answer { answer, .. } => !matches!(answer, Answer::Times(..)),
            Then::Release(_) | Then::Run(_) => false,
        };
        short && e.others.is_empty()
    }

    fn send(&self, call: u32, offset: u64, bytes: Landing) {
        let at = (bytes.bytes().as_ptr(), bytes.bytes().len());
        // SAFETY: the bytes are complete, and the landing's until it is dropped.
        unsafe { self.outbox.put_owned(call, offset, at, bytes) };
    }

    fn answer(&self, call: u32, rc: i32, answer: Answer) {
        self.printed.flush();
        let (strict, times) = match answer {
            Answer::Callback(token) => return self.outbox.callback(0, rc, |w| w.u64(token)),
            Answer::Status(status) => {
                let reply = wire::EventStatusReply { status };
                return self.outbox.put_reply(call, CL_SUCCESS, |w| reply.encode(w));
            }
            Answer::Strict => (true, Vec::new()),
            Answer::Times(strict, times) => (strict, times),
        };
        if rc < 0 && strict {
            let code = CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
            self.outbox.put_reply(call, code, |_| {});
        } else if times.is_empty() {
            self.outbox.put_reply(call, CL_SUCCESS, |_| {});
        } else {
            let mut reply = wire::FinishReply {
                timed: Vec::new(),
                times: Vec::new(),
            };
            for (id, e) in &times {
                if self.cl.status(e.0) == CL_COMPLETE
                    && let Ok(times) = self.cl.times(e.0)
                {
                    reply.timed.push(*id);
                    reply.times.extend(times);
                }
            }
            self.outbox.put_reply(call, CL_SUCCESS, |w| reply.encode(w));
        }
        lock(&self.dead).extend(times.into_iter().map(|(_, e)| e));
    }

    fn flush(&self) {
        self.outbox.flush();
    }

    fn serve(&self, _done: &Completer, (): ()) {}

    fn pace(&self, since: Duration) -> Pace {
        match self.is_told() {
            true => Pace::Nap(LOOK),
            false => Pace::of_a_device(since, self.turn.ends()),
        }
    }

    fn tidy(&self) {
        self.bury();
        self.pool.trim();
    }
}

impl Done<Ends> {
    /// Does `then` once events, which are now ours to release, have come.
    pub fn after(&self, events: Events, then: Then) {
        let probe = self.probe();
        if !probe.is_told() {
            self.push(Ok(events), then);
            return;
        }
        let (first, others, until) = (events.first.0, handles(&events.others), events.until);
        let each = || std::iter::once(first).chain(others.iter().copied());
        for e in each() {
            // Another thread may see the end and let go of the event before its callback is set.
            // SAFETY: the caller's event, with one more owner for the length of this call.
            unsafe { (probe.cl.clRetainEvent)(e) };
        }
        let number = self.push(Ok(events), then);
        for e in each() {
            let free = lock(&probe.tokens).pop();
            let mut token = free.unwrap_or_else(|| {
                let home = self.clone();
                Box::new(Token { home, number })
            });
            token.number = number;
            let token = Box::into_raw(token);
            // SAFETY: the entry keeps the event; the token is taken back by the one callback.
            let code = unsafe { (probe.cl.clSetEventCallback)(e, until, ended as _, token.cast()) };
            if code != CL_SUCCESS {
                // SAFETY: refused, so no callback will take it.
                lock(&probe.tokens).push(unsafe { Box::from_raw(token) });
                self.sweep();
            }
            // SAFETY: retained above.
            unsafe { (probe.cl.clReleaseEvent)(e) };
        }
    }
}

fn handles(list: &[Event]) -> Vec<Handle> {
    list.iter().map(|e| e.0).collect()
}
