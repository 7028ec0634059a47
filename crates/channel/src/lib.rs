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

pub mod alone;
mod frames;
pub mod gate;
mod inner;
mod keeper;
mod lanes;
mod outgoing;
mod prelude;
mod recv;
mod send;
mod side;
pub mod switches;
mod thread;
mod watch;

pub use frames::Bulk;
pub use inner::{Channel, Closed, Counters};
pub use keeper::{Ending, Keeper, Lost, Verdict};
pub use lanes::soon;
pub use recv::{PEEK, Sink};
pub use send::Mark;
pub use watch::{Patience, core_for_a_moment, is_crowded, know_sessions, look, look_for_a_moment};
pub use watch::{most_sides, nap, patience, spare_core};

use busbar_transport::lock::lock;
use busbar_transport::{Connection, Kept, Path};
use busbar_wire::frame::{self, Header};
use busbar_wire::session::Bounds;
use gate::Wait;
use inner::Inner;
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use thread::spawn;

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
        let sink = match alone::start(&conn, sink)? {
            Ok(alone) => return Ok(alone),
            Err(sink) => sink,
        };
        let (inner, receiver) = Inner::new(conn.clone(), sink.execution(), bounds)?;
        let i = inner.clone();
        spawn(format!("{name}-send"), move || send::run(&i))?;
        let i = inner.clone();
        spawn(format!("{name}-recv"), move || {
            recv::run(&i, receiver, conn, sink, keeper)
        })?;
        Ok(Self { inner })
    }

    /// Memory that stays, told here: what is pushed from it as it lies ([`Bulk::Borrow`]), and what
    /// a [`Sink`] has placed there, may be moved in place.
    pub fn kept(&self) -> &Arc<Kept> {
        &self.inner.kept
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
    pub fn ask_if_owed(&self, f: impl Fn() -> bool + Send + Sync + 'static) {
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

    /// Wakes those who work on what is received, for something else.
    pub fn rouse(&self) {
        self.inner.watch.rouse_others();
    }

    /// Whether the session is over, and why.
    pub fn closed(&self) -> Option<Closed> {
        if !self.inner.is_over() {
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
        out.sides.iter().for_each(|side| side.shut());
    }

    /// What the present connection's bytes pass.
    pub fn path(&self) -> Path {
        let out = lock(&self.inner.outgoing);
        out.conn.as_ref().map_or(Path::Tcp, |c| c.path())
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
    /// or may have no more.
    pub fn attach_side(
        &self,
        conn: Arc<dyn Connection>,
        number: u64,
        main: u64,
    ) -> std::io::Result<()> {
        self.inner.attach_side(conn, number, main)
    }

    /// `f` is called, on the receiving thread, when the network turns out to be faster than the
    /// present connection, with its side connections, can use: up to `most` times for each.
    pub fn on_fast(&self, most: usize, f: impl Fn(&Self) + Send + Sync + 'static) {
        let _ = self.inner.on_fast.set((most, Box::new(f)));
    }

    /// How many side connections the present connection has, if it may have another one now.
    pub fn side_count(&self) -> Option<usize> {
        lock(&self.inner.outgoing).session.sides()
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

/// Sends one frame outside a session's numbering: a hello or a welcome.
pub fn send_hello(conn: &dyn Connection, kind: frame::Kind, body: &[u8]) -> std::io::Result<()> {
    let h = Header::plain(kind, body.len()).to_bytes();
    conn.send(&mut [IoSlice::new(&h), IoSlice::new(body)])
}

/// Pings ahead of a welcome that a client takes for a server at work: one comes every few seconds.
const MOST_PINGS: usize = 1000;

/// Who begins like this, where that is known.
fn stranger(begin: &[u8]) -> Option<&'static str> {
    let known = [
        (&b"HTTP/"[..], "a web server (HTTP)"),
        (b"SSH-", "an SSH server"),
        (b"\x15\x03", "a server that encrypts"),
    ];
    let found = known.iter().find(|(mark, _)| begin.starts_with(mark));
    found.map(|(_, who)| *who)
}

/// Receives the frame that [`send_hello`] sent. Ahead of a welcome there may be pings.
pub fn recv_hello(conn: &dyn Connection, kind: frame::Kind) -> std::io::Result<Vec<u8>> {
    let bad = |m: String| std::io::Error::new(std::io::ErrorKind::InvalidData, m);
    let next = || {
        let mut h = [0; frame::HEADER];
        conn.recv_exact(&mut h)?;
        Header::parse(&h).map_err(|e| match stranger(&h) {
            Some(who) => bad(format!("{who} answers there, not Busbar")),
            None => bad(format!("not a Busbar peer: {e}")),
        })
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
