//! A session's pipe: records go in at one end and come out at the other, in order, once, over as
//! many connections as it takes.
//!
//! [`Channel`] drives the pure machine of `wire::session` (numbers, acknowledgement, replay,
//! epochs, silence) with threads and connections: one thread sends what is queued, one receives
//! and hands frames to a [`Sink`]. Client and worker use the same code; they differ in what happens
//! when a connection ends, which is the [`Keeper`]'s business.
//!
//! Cost of queueing a record: one lock that no other producer takes, the time, and the copy of its
//! bytes (see `lanes.rs`). The sending thread is woken only when it sleeps; while records keep
//! coming it naps briefly instead and sends what has gathered, so a stream of small records costs
//! its producer no system call.

mod frames;
pub mod gate;
mod lanes;
mod recv;
mod send;
mod side;
pub mod switches;
mod watch;

pub use frames::Bulk;
pub use lanes::soon;
pub use recv::{PEEK, Sink};
pub use send::Mark;
pub use watch::{Patience, look, patience, spare_core};

use busbar_transport::Connection;
use busbar_wire::frame::{self, Header};
use busbar_wire::session::{self, Board, Bounds};
use gate::{Gate, Wait};
use lanes::Lanes;
use send::Outgoing;
use std::fmt;
use std::io::IoSlice;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use watch::Watch;

/// The session is over; the reason is a sentence for its user.
#[derive(Debug, Clone)]
pub struct Closed(pub Arc<str>);

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Closed {}

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The peer's kernel reset it.
    Reset,
    /// The peer closed it.
    Eof,
    /// It failed otherwise: a time-out, an unreachable network.
    Failed,
    /// The peer was silent for longer than [`Keeper::silence`], though it was asked.
    Silent,
}

/// A session that has lost its connection.
#[derive(Debug, Clone, Copy)]
pub struct Lost {
    /// How the connection ended.
    pub how: Ending,
    /// How long ago.
    pub since: Duration,
    /// The last frame received.
    pub last_received: u64,
    /// The epoch of a connection that is made now: the client says it in its hello.
    pub epoch: u64,
}

/// What to do while a session has no connection.
pub enum Verdict {
    /// Go on over a new connection.
    Resume {
        /// The connection.
        conn: Arc<dyn Connection>,
        /// Its epoch, which the client has given it. An older one than the last is let go of.
        epoch: u64,
        /// The last frame that the peer has received.
        peer_last: u64,
    },
    /// Ask again after this long.
    Wait(Duration),
    /// Give the session up.
    End(String),
}

/// Decides what happens when a connection ends. Called from the receiving thread.
pub trait Keeper: Send {
    /// The session has no connection.
    fn detached(&mut self, lost: &Lost) -> Verdict;

    /// How long the peer may say nothing, though it is owed something and is asked, before the
    /// connection counts as lost; `None` for ever.
    fn silence(&self) -> Option<Duration> {
        None
    }
}

/// Counters of a channel, readable at any time.
#[derive(Debug, Default)]
pub struct Counters {
    /// Bytes handed to connections, frame headers included.
    pub sent: AtomicU64,
    /// How many of them were given to a side connection.
    pub aside: AtomicU64,
    /// Bytes received.
    pub received: AtomicU64,
    /// Times that a connection was replaced.
    pub resumed: AtomicU64,
}

/// What every thread looks at for each record, and which seldom changes: on cache lines of its own.
#[repr(align(128))]
struct Signals {
    /// Whether the lanes or the session have something for the sending thread.
    pending: AtomicBool,
    /// Where the sending thread sleeps.
    work: Gate,
    is_closed: AtomicBool,
}

/// See [`Channel::on_fast`].
type OnFast = Box<dyn Fn(&Channel) + Send + Sync>;

pub(crate) struct Inner {
    lanes: Lanes,
    /// What both halves of the session know.
    board: Arc<Board>,
    /// What is collected from the lanes goes in here under its lock.
    outgoing: Mutex<Outgoing>,
    /// Opened when the peer has more, when a connection is replaced, and when the channel closes.
    progress: Gate,
    /// Held by whoever sends at the moment.
    sender: Mutex<()>,
    signals: Signals,
    watch: Watch,
    closed: Mutex<Option<Closed>>,
    on_fast: OnceLock<OnFast>,
    /// See [`Channel::is_owed`].
    owed: OnceLock<Box<dyn Fn() -> bool + Send + Sync>>,
    /// This end is about to close, so that a peer which closes first is not a loss.
    closing: AtomicBool,
    /// Public counters.
    pub counters: Counters,
}

pub(crate) fn lock<T: ?Sized>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One end of a session.
#[derive(Clone)]
pub struct Channel {
    inner: Arc<Inner>,
}

impl Channel {
    /// Starts a session's end on its first connection. The hello exchange is already done, through
    /// [`send_hello`] and [`recv_hello`]. Threads are named after `name`.
    pub fn start(
        name: &str,
        conn: Arc<dyn Connection>,
        sink: Box<dyn Sink>,
        keeper: Box<dyn Keeper>,
    ) -> std::io::Result<Self> {
        let bounds = Bounds {
            silence: keeper.silence(),
            ..Bounds::default()
        };
        let (sender, receiver) = session::new(bounds, sink.execution());
        let inner = Arc::new(Inner {
            lanes: Lanes::new(),
            board: sender.board().clone(),
            outgoing: Mutex::new(Outgoing::new(sender, conn.clone())),
            progress: Gate::new("the peer to have what was sent"),
            sender: Mutex::new(()),
            signals: Signals {
                pending: AtomicBool::new(false),
                work: Gate::new("something to send"),
                is_closed: AtomicBool::new(false),
            },
            watch: Watch::new()?,
            closed: Mutex::new(None),
            on_fast: OnceLock::new(),
            owed: OnceLock::new(),
            closing: AtomicBool::new(false),
            counters: Counters::default(),
        });
        let i = inner.clone();
        spawn(format!("{name}-send"), move || send::run(&i))?;
        let i = inner.clone();
        spawn(format!("{name}-recv"), move || {
            recv::run(&i, receiver, conn, sink, keeper)
        })?;
        Ok(Self { inner })
    }

    /// Counters of this end.
    pub fn counters(&self) -> &Counters {
        &self.inner.counters
    }

    /// Somebody waits for something to be received, until the guard is dropped.
    pub fn expect(&self) -> Expecting {
        self.inner.watch.begin();
        Expecting(self.clone())
    }

    /// Whether who works on what is received should look for more rather than sleep: something was
    /// received or answered just now, or somebody waits.
    pub fn alert(&self) -> bool {
        self.inner.watch.alert()
    }

    /// The peer waits for an answer, and will go on when it gets it: those who receive what it then
    /// sends stay awake for that. To be followed by [`Channel::answered`].
    pub fn asked(&self) {
        self.inner.watch.begin_awake();
    }

    /// The peer has been told what it waited for, and will likely send more soon.
    pub fn answered(&self) {
        self.inner.watch.end();
        self.inner.watch.rouse();
    }

    /// `f` says whether the peer owes an answer that no thread waits for at the moment: until it
    /// comes, the peer may not be silent for longer than [`Keeper::silence`].
    pub fn is_owed(&self, f: impl Fn() -> bool + Send + Sync + 'static) {
        let _ = self.inner.owed.set(Box::new(f));
    }

    /// How many answers are waited for, at this end or by the peer.
    pub fn awaited(&self) -> u32 {
        self.inner.watch.waiting()
    }

    /// `f` is to wake those who work on what is received: it runs when something is about to be.
    pub fn on_wake(&self, f: impl Fn() + Send + Sync + 'static) {
        self.inner.watch.on_wake(f);
    }

    /// Whether the session is over, and why.
    pub fn closed(&self) -> Option<Closed> {
        if !self.inner.signals.is_closed.load(Ordering::Acquire) {
            return None;
        }
        lock(&self.inner.closed).clone()
    }

    /// What is pushed next tells the peer that the session is over: from now on a connection that
    /// it closes is not lost.
    pub fn leave(&self) {
        self.inner.closing.store(true, Ordering::Release);
    }

    /// Ends the session here. What is queued is sent first, and the peer has until `linger` is over
    /// to say that it has it all, or to close in its turn: bytes that are still in this machine
    /// when the process ends may never leave it.
    pub fn close(&self, reason: &str, linger: Duration) {
        let deadline = Instant::now() + linger;
        self.leave();
        while Instant::now() < deadline && self.unacknowledged() > 0 && self.closed().is_none() {
            self.flush();
            let before = self.inner.board.acked();
            let wait = Wait::due("the session's end").within(LINGER);
            let more = || self.inner.board.acked() > before || self.closed().is_some();
            self.inner.progress.wait(&wait, more);
        }
        self.inner.end(Closed(reason.into()));
    }

    /// Bytes that are queued here and that the peer has not acknowledged.
    pub fn unacknowledged(&self) -> usize {
        // Under the lock, since what leaves a lane is counted a moment later.
        let out = lock(&self.inner.outgoing);
        self.inner.lanes.len() + out.kept()
    }

    /// Whether the peer is known to have executed everything up to a mark. It says so whenever it
    /// sends anything, and so no later than at the next answer that it gives.
    pub fn executed(&self, mark: Mark) -> bool {
        self.inner.board.peer_executed() >= mark.0
    }

    /// Tells the peer that this end lives, where what has been received must wait before more is:
    /// pings are not seen meanwhile.
    pub fn lives(&self) {
        self.inner.board.acknowledge();
        self.inner.notify();
    }

    /// Whether there is no connection, or one that its peer has ended, though bytes may be left to
    /// receive: who holds up the receiving thread had better let it see for itself.
    pub fn hung_up(&self) -> bool {
        let out = lock(&self.inner.outgoing);
        out.conn.as_ref().is_none_or(|c| c.hung_up())
    }

    /// Ends the present connection (not the session), as a lost link would.
    pub fn disconnect(&self) {
        let out = lock(&self.inner.outgoing);
        if let Some(c) = &out.conn {
            c.shutdown();
        }
        if let Some(side) = &out.side {
            side.shut();
        }
    }

    /// Which connection this is: its epoch, 0 for the first.
    pub fn connection(&self) -> u64 {
        lock(&self.inner.outgoing).session.epoch()
    }

    /// The peer has opened `conn` beside the present connection. Returns its number, by which the
    /// peer names it in [`Channel::attach_side`]; until then it waits here, and a later one takes
    /// its place.
    pub fn offer_side(&self, conn: Arc<dyn Connection>) -> u64 {
        self.inner.offer_side(conn)
    }

    /// Long frames may go over `conn`, too, which the peer has as the `number`th that it was
    /// offered, for as long as connection `main` lasts. An error if that is not the present one,
    /// or has a side connection.
    pub fn attach_side(
        &self,
        conn: Arc<dyn Connection>,
        number: u64,
        main: u64,
    ) -> std::io::Result<()> {
        self.inner.attach_side(conn, number, main)
    }

    /// `f` is called when the network has turned out to be fast, on the receiving thread; once for
    /// each connection.
    pub fn on_fast(&self, f: impl Fn(&Self) + Send + Sync + 'static) {
        let _ = self.inner.on_fast.set(Box::new(f));
    }
}

/// How often a session that is to end looks whether all of it has been sent.
const LINGER: Duration = Duration::from_millis(1);

/// See [`Channel::expect`].
pub struct Expecting(Channel);

impl Drop for Expecting {
    fn drop(&mut self) {
        self.0.inner.watch.end();
    }
}

fn spawn(name: String, f: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    // The program's signals are the program's: our threads must not be chosen to run its handlers.
    // A new thread inherits the mask, so it is set around the spawn.
    // SAFETY: both sets are live and initialised by sigfillset and pthread_sigmask.
    let old = unsafe {
        let mut all = std::mem::zeroed();
        let mut old = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut old);
        old
    };
    let r = std::thread::Builder::new()
        .name(name)
        .stack_size(1 << 20)
        .spawn(f)
        .map(drop);
    // SAFETY: restores the mask read above.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const old, std::ptr::null_mut()) };
    r
}

impl Inner {
    fn check(&self) -> Result<(), Closed> {
        if self.signals.is_closed.load(Ordering::Acquire)
            && let Some(c) = lock(&self.closed).clone()
        {
            return Err(c);
        }
        Ok(())
    }

    /// Marks the session as over and lets everybody know. Returns whether this call did it.
    pub(crate) fn end(&self, why: Closed) -> bool {
        {
            let mut closed = lock(&self.closed);
            if closed.is_some() {
                return false;
            }
            *closed = Some(why);
            self.signals.is_closed.store(true, Ordering::Release);
        }
        {
            let mut out = lock(&self.outgoing);
            if let Some(c) = &out.conn {
                c.shutdown();
            }
            out.detach();
            out.offered = None;
        }
        self.progress.open();
        self.wake();
        true
    }

    /// Lets go of a connection that failed, unless it was replaced already.
    fn broken(&self, conn: &Arc<dyn Connection>, epoch: u64) {
        conn.shutdown();
        let mut out = lock(&self.outgoing);
        if out.session.epoch() == epoch {
            out.detach();
        }
    }

    /// Whether the peer owes anything: an answer, or the word that it has what was sent.
    fn peer_owes(&self) -> bool {
        self.board.is_owed() || self.watch.waiting() > 0 || self.owed.get().is_some_and(|f| f())
    }
}

/// Sends one frame outside a session's numbering: a hello or a welcome.
pub fn send_hello(conn: &dyn Connection, kind: frame::Kind, body: &[u8]) -> std::io::Result<()> {
    let h = Header::plain(kind, body.len()).to_bytes();
    conn.send(&mut [IoSlice::new(&h), IoSlice::new(body)])
}

/// Pings ahead of a welcome that a client takes for a server at work: one comes every few seconds.
const MOST_PINGS: usize = 1000;

/// Receives the frame that [`send_hello`] sent. Ahead of a welcome there may be pings.
pub fn recv_hello(conn: &dyn Connection, kind: frame::Kind) -> std::io::Result<Vec<u8>> {
    let bad = |m: String| std::io::Error::new(std::io::ErrorKind::InvalidData, m);
    let next = || {
        let mut h = [0; frame::HEADER];
        conn.recv_exact(&mut h)?;
        Header::parse(&h).map_err(|e| bad(format!("not a Busbar peer: {e}")))
    };
    let mut h = next()?;
    for _ in 0..MOST_PINGS {
        if kind != frame::Kind::Welcome || h.kind != frame::Kind::Ping || h.len > 0 {
            break;
        }
        h = next()?;
    }
    if h.kind != kind {
        return Err(bad("the peer does not begin with a hello".into()));
    }
    let most = match kind {
        frame::Kind::Hello => busbar_wire::limits::MAX_HELLO,
        _ => busbar_wire::limits::MAX_WELCOME,
    };
    if h.len as usize > most {
        return Err(bad(format!("a hello of {} bytes is too long", h.len)));
    }
    let mut body = vec![0; h.len as usize];
    conn.recv_exact(&mut body)?;
    Ok(body)
}
