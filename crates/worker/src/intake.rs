//! From the connection to the executor's queue.

use crate::across::Links;
use crate::ahead::{AHEAD, Ahead, Payload, QUEUE};
use crate::at_once::AtOnce;
use crate::callback::Callbacks;
use crate::checkpoint::Checkpoints;
use crate::content::Content;
use crate::inventory::Tally;
use crate::outbox::Outbox;
use crate::prelude::*;
use crate::staging::{Arena, Lent, SLAB};
use busbar_channel::{Closed, PEEK, Sink};
use busbar_wire::record::{
    self, Header, OP_AT_ONCE, OP_CALLBACK_BYTES, OP_CALLBACK_DONE, OP_CONTENT, OP_GOODBYE,
    OP_MEMORY_APART, OP_MEMORY_ATOMIC, OP_MEMORY_CLOSE, OP_MEMORY_IN, OP_MEMORY_LOOK,
    OP_MEMORY_OPEN, OP_MEMORY_OUT, OP_MEMORY_PARTS, OP_MEMORY_WATCH, OP_MIRROR_IN, OP_MIRROR_OUT,
    Records,
};
use busbar_wire::session::Execution;
use std::cell::Cell;

/// A frame that waits for the executor.
pub(crate) struct Frame {
    /// Its number.
    pub(crate) seq: u64,
    pub(crate) body: Body,
}

/// What a frame brought.
pub(crate) enum Body {
    /// Whole records.
    Records(Vec<u8>),
    /// One bulk record, at the front of a slab.
    Bulk(Lent, usize),
}

/// Bytes that wait for the executor before the intake stops reading, and so the client.
const QUEUE_BYTES: usize = 48 << 20;
/// What a frame in the queue costs besides its bytes.
const FRAME_COST: usize = 96;
/// Bytes that may wait while the executor waits for content, since the reading then goes on
/// whatever happens. A client sends content as soon as it is asked for it, other records meanwhile:
/// as much again for what has come of it.
const CONTENT_SLACK: usize = 256 << 20;
/// A record of at least this size has a slab; it is worth a copy of its own to the device.
const BULK_FROM: usize = 64 << 10;
/// Slabs for what comes in. A batch of images that waits for the step before it must not fill them:
/// what is behind it could not be read.
pub(crate) const SLABS_IN: usize = 80;
/// Slabs for what goes out: as much as may be unacknowledged, and some.
pub(crate) const SLABS_OUT: usize = 36;

/// How long to wait for a slab to come back.
const PATIENCE: Duration = Duration::from_millis(100);

/// How often a client is told that this end lives, while it does not read.
const TELL: Duration = Duration::from_millis(250);

#[derive(Default)]
struct State {
    frames: VecDeque<Frame>,
    /// Empty buffers.
    spare: Vec<Vec<u8>>,
    closed: Option<String>,
    asleep: bool,
}

/// Buffers of up to this size are used again.
const SPARE_SIZE: usize = 4 << 10;
/// The most of those.
const SPARES: usize = 256;

/// The queue between intake and executor.
#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    bytes: AtomicUsize,
    /// Something is queued, or the end is: what a spinning executor looks at.
    ready: AtomicBool,
    /// How far the queue, and what is ahead of it, have come.
    execution: Arc<Execution>,
}

/// What the executor finds in the queue.
pub(crate) enum Next {
    Frame(Frame),
    Empty,
    Closed(String),
}

impl Queue {
    /// Queues a frame and returns an empty buffer for another; an error ends the session. `go_on`
    /// says whether the intake must go on reading though the queue is full.
    fn push(
        &self,
        f: Frame,
        bytes: usize,
        content: &Content,
        go_on: impl Fn() -> bool,
    ) -> Result<Vec<u8>, String> {
        let bytes = bytes + FRAME_COST;
        let mut s = lock(&self.state);
        while self.bytes.load(Ordering::Relaxed) > QUEUE_BYTES && s.closed.is_none() && !go_on() {
            let wait = Duration::from_millis(20);
            s = self
                .changed
                .wait_timeout(s, wait)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if before > CONTENT_SLACK && before - CONTENT_SLACK > 2 * content.arrived_bytes() {
            return Err("the client does not send the content that it was asked for".into());
        }
        self.execution.stages[QUEUE].enter(f.seq);
        s.frames.push_back(f);
        self.ready.store(true, Ordering::Release);
        if s.asleep {
            s.asleep = false;
            self.changed.notify_all();
        }
        Ok(s.spare.pop().unwrap_or_default())
    }

    /// Bytes that wait for the executor.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Something is about to be queued.
    pub(crate) fn rouse(&self) {
        let mut s = lock(&self.state);
        if s.asleep {
            s.asleep = false;
            self.changed.notify_all();
        }
    }

    /// Nothing more will come. What is queued is still executed if the client said goodbye; of a
    /// client that is gone nobody waits for it.
    pub(crate) fn close(&self, why: String, goodbye: bool) {
        let mut s = lock(&self.state);
        s.closed.get_or_insert(why);
        if !goodbye {
            s.frames.clear();
        }
        drop(s);
        self.ready.store(true, Ordering::Release);
        self.changed.notify_all();
    }

    /// Whether something is queued, or the end is.
    #[inline]
    pub(crate) fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// The next frame, without waiting. `used` is the buffer of an earlier one, which is taken.
    pub(crate) fn next(&self, used: &mut Vec<u8>) -> Next {
        if !self.is_ready() {
            return Next::Empty;
        }
        let mut s = lock(&self.state);
        if (1..=SPARE_SIZE).contains(&used.capacity()) && s.spare.len() < SPARES {
            used.clear();
            s.spare.push(std::mem::take(used));
        }
        match s.frames.pop_front() {
            Some(f) => {
                if s.frames.is_empty() && s.closed.is_none() {
                    self.ready.store(false, Ordering::Release);
                }
                Next::Frame(f)
            }
            None => s.closed.clone().map_or(Next::Empty, Next::Closed),
        }
    }

    /// Frame `seq`, of `bytes`, was executed.
    pub(crate) fn done(&self, seq: u64, bytes: usize) {
        self.execution.stages[QUEUE].leave(seq);
        let bytes = bytes + FRAME_COST;
        let before = self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        if before > QUEUE_BYTES {
            self.changed.notify_all();
        }
    }

    /// Waits for something to be queued, up to `patience`.
    pub(crate) fn wait(&self, patience: Duration) {
        let mut s = lock(&self.state);
        if !s.frames.is_empty() || s.closed.is_some() {
            return;
        }
        s.asleep = true;
        drop(self.changed.wait_timeout(s, patience));
    }
}

/// Receives frames for the executor.
/// What a session's API shares with its connection.
pub struct Ends {
    /// Where answers go.
    pub outbox: Outbox,
    /// Content by hash.
    pub content: Content,
    /// Functions of the program that something waits for.
    pub callbacks: Callbacks,
    /// Records that are executed ahead of the queue.
    pub ahead: Ahead,
    /// Where bulk records land, ...
    pub incoming: Arena,
    /// ... and where bulk answers leave from.
    pub outgoing: Arena,
    /// Calls that do not wait in the queue.
    pub at_once: AtOnce,
    /// Ways to sessions at other servers.
    pub links: Links,
    /// What the executor counts.
    pub tally: Arc<Tally>,
    /// Knows whether the session has given way to others.
    pub checkpoints: Checkpoints,
}

pub(crate) struct Intake {
    queue: Arc<Queue>,
    ends: Ends,
    /// No slab came back when one was last waited for.
    hurried: bool,
    /// The slab that the frame in progress goes to.
    landing: Option<(Lent, usize)>,
    /// When the client was last told that this end lives.
    told: Cell<Instant>,
    /// The client has ended the session itself.
    goodbye: bool,
    /// Called at the session's end, with that.
    ended: Option<Ended>,
}

/// What is told of a session's end: whether the client said goodbye, and why it ended.
pub(crate) type Ended = Box<dyn FnOnce(bool, &str) + Send>;

impl Intake {
    pub(crate) fn new(queue: Arc<Queue>, ends: Ends, ended: Option<Ended>) -> Self {
        ends.ahead.tell(queue.execution.clone(), AHEAD);
        let done = (queue.execution.clone(), ends.tally.clone());
        ends.checkpoints.watch(done);
        Self {
            queue,
            ends,
            hurried: false,
            landing: None,
            told: Cell::new(Instant::now()),
            goodbye: false,
            ended,
        }
    }

    /// Whether nothing must hold up the reading: the executor waits for content, or the connection
    /// has ended, which shows only to who reads on. What is left of it is not much.
    ///
    /// Nor while a function of the program's is awaited, within bounds: the word that it has
    /// returned is behind others.
    fn must_read(&self) -> bool {
        // Asked again and again while the reading is held up: the client's pings go unread then.
        if self.told.get().elapsed() > TELL {
            self.told.set(Instant::now());
            self.ends.outbox.lives();
        }
        let awaited = || self.ends.callbacks.any() && self.queue.bytes() < CONTENT_SLACK;
        self.ends.content.wanting() || self.ends.outbox.hung_up() || awaited()
    }

    fn queue(&self, f: Frame, bytes: usize) -> Result<Vec<u8>, String> {
        self.queue
            .push(f, bytes, &self.ends.content, || self.must_read())
    }

    fn queue_records(&self, seq: u64, body: &mut Vec<u8>) -> Result<(), String> {
        let n = body.len();
        if n == 0 {
            return Ok(());
        }
        let mut full = std::mem::take(body);
        // The buffer may have held a far longer frame before: what waits must not be more than what
        // is counted.
        if full.capacity() > 2 * n + SPARE_SIZE {
            full.shrink_to_fit();
        }
        let records = Body::Records(full);
        *body = self.queue(Frame { seq, body: records }, n)?;
        Ok(())
    }
}

impl Sink for Intake {
    fn place(&mut self, len: usize, head: &[u8]) -> Option<(*mut u8, usize)> {
        self.landing = None;
        let h = Header::parse(head).ok()?;
        let memory = h.op == OP_MEMORY_IN;
        let ours = h.op >= record::RESERVED && !memory;
        if !(BULK_FROM..=SLAB).contains(&len) || h.len as usize != len || ours {
            return None;
        }
        // Where no slab may be waited for, the bytes go to ordinary memory. When none comes back
        // for a while, copies of a stream that stands still have them all, and what lets the stream
        // go may be behind this.
        let since = Instant::now();
        let slab = loop {
            match self.ends.incoming.take(Duration::from_millis(10)) {
                Some(s) => {
                    self.hurried = false;
                    break s;
                }
                None if memory || self.must_read() => return None,
                None if self.hurried || since.elapsed() > PATIENCE => {
                    self.hurried = true;
                    if self.queue.bytes() < CONTENT_SLACK {
                        return None;
                    }
                }
                None if lock(&self.queue.state).closed.is_some() => return None,
                None => {}
            }
        };
        // SAFETY: a slab holds SLAB bytes, `len` is at most that, and `head` is shorter than `len`.
        let rest = unsafe {
            std::ptr::copy_nonoverlapping(head.as_ptr(), slab.ptr(), head.len());
            slab.ptr().add(head.len())
        };
        self.landing = Some((slab, len));
        Some((rest, len - head.len()))
    }

    fn deliver(&mut self, seq: u64, body: &mut Vec<u8>) -> Result<(), String> {
        let taken = self.take(seq, body);
        // What says goodbye has no use for what it had.
        if taken.is_ok() {
            self.ends.checkpoints.came();
        }
        taken
    }

    fn execution(&self) -> Arc<Execution> {
        self.queue.execution.clone()
    }

    fn closed(&mut self, why: &Closed) {
        self.queue.close(why.to_string(), self.goodbye);
        self.ends.callbacks.end();
        if let Some(f) = self.ended.take() {
            f(self.goodbye, &why.0);
        }
    }
}

impl Intake {
    /// Has a frame wait where it is executed.
    fn take(&mut self, seq: u64, body: &mut Vec<u8>) -> Result<(), String> {
        if let Some((slab, len)) = self.landing.take() {
            debug_assert_eq!(body.len(), PEEK);
            let h = Header::parse(body).map_err(|e| e.to_string())?;
            if h.op == OP_MEMORY_IN {
                self.ends.ahead.push(h, Payload::Slab(slab, len))?;
                self.ends.ahead.end_of(seq);
                return Ok(());
            }
            let body = Body::Bulk(slab, len);
            self.queue(Frame { seq, body }, len)?;
            return Ok(());
        }
        // Records that must not wait in the queue are picked out here; the executor would not get
        // to them while it waits for what they bring.
        let (mut ordinary, mut ahead) = (false, false);
        for r in Records::new(body) {
            let (h, payload) = r.map_err(|e| e.to_string())?;
            match h.op {
                OP_CONTENT => self.ends.content.arrived(payload)?,
                OP_CALLBACK_BYTES => self.ends.callbacks.bytes(payload)?,
                OP_CALLBACK_DONE => {
                    let n = payload
                        .try_into()
                        .map_err(|_| "a callback's number is cut short")?;
                    let (n, callbacks) = (u32::from_le_bytes(n), self.ends.callbacks.clone());
                    self.ends.ahead.then(move || callbacks.done(n));
                    ahead = true;
                }
                OP_MEMORY_IN | OP_MEMORY_PARTS | OP_MEMORY_APART | OP_MEMORY_ATOMIC
                | OP_MEMORY_OUT | OP_MEMORY_OPEN | OP_MEMORY_CLOSE | OP_MEMORY_WATCH
                | OP_MEMORY_LOOK | OP_MIRROR_IN | OP_MIRROR_OUT => {
                    self.ends.ahead.push(h, Payload::Bytes(payload.to_vec()))?;
                    ahead = true;
                }
                OP_AT_ONCE => self.ends.at_once.call(h.call, payload)?,
                OP_GOODBYE => {
                    self.goodbye = true;
                    let before = h_offset(body, payload);
                    body.truncate(before);
                    self.queue_records(seq, body)?;
                    return Err("the program ended".into());
                }
                _ => ordinary = true,
            }
        }
        if ahead {
            self.ends.ahead.end_of(seq);
        }
        if ordinary {
            self.queue_records(seq, body)?;
        }
        Ok(())
    }
}

/// Where in `body` the record with this payload begins.
fn h_offset(body: &[u8], payload: &[u8]) -> usize {
    payload.as_ptr() as usize - body.as_ptr() as usize - record::HEADER
}
