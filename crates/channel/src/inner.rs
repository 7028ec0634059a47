//! What the threads of a channel share.

use super::prelude::*;
use crate::frames::{Frame, Spent};
use crate::gate::Gate;
use crate::lanes::Lanes;
use crate::outgoing::Outgoing;
use crate::side::Side;
use crate::watch::Watch;
use busbar_wire::session::{self, Board, Named, Stop};
use std::fmt;
use std::io::{self, ErrorKind};
use std::sync::MutexGuard;

/// The session is over; the reason is a sentence for its user.
#[derive(Debug, Clone)]
pub struct Closed(pub Arc<str>);

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Closed {}

/// Counters of a channel, readable at any time.
#[derive(Debug, Default)]
pub struct Counters {
    /// Bytes handed to connections, frame headers included.
    pub sent: AtomicU64,
    /// How many of them were given to a side connection.
    pub aside: AtomicU64,
    /// Bytes received.
    pub received: AtomicU64,
    /// How many of those sent, and of those received, took a queue pair.
    pub rdma_sent: AtomicU64,
    /// See `rdma_sent`.
    pub rdma_received: AtomicU64,
    /// Times that a connection was replaced.
    pub resumed: AtomicU64,
}

/// What every thread looks at for each record, and which seldom changes: on cache lines of its own.
#[repr(align(128))]
pub(crate) struct Signals {
    /// Whether the lanes or the session have something for the sending thread.
    pub(crate) pending: AtomicBool,
    /// Where the sending thread sleeps.
    pub(crate) work: Gate,
    pub(crate) is_closed: AtomicBool,
}

/// See [`Channel::on_fast`].
type OnFast = Box<dyn Fn(&Channel) + Send + Sync>;

pub(crate) struct Inner {
    pub(crate) lanes: Lanes,
    /// What both halves of the session know.
    pub(crate) board: Arc<Board>,
    /// What is collected from the lanes goes in here under its lock.
    pub(crate) outgoing: Mutex<Outgoing>,
    /// Opened when the peer has more, when a connection is replaced, and when the channel closes.
    pub(crate) progress: Gate,
    /// Held by whoever sends at the moment.
    pub(crate) sender: Mutex<()>,
    pub(crate) signals: Signals,
    pub(crate) watch: Watch,
    pub(crate) closed: Mutex<Option<Closed>>,
    /// With the most side connections that are to be asked for.
    pub(crate) on_fast: OnceLock<(usize, OnFast)>,
    /// See [`Channel::ask_if_owed`].
    pub(crate) owed: OnceLock<Box<dyn Fn() -> bool + Send + Sync>>,
    /// This end is about to close, so that a peer which closes first is not a loss.
    pub(crate) closing: AtomicBool,
    /// Memory whose bytes connections may move in place.
    pub(crate) kept: Arc<Kept>,
    /// Public counters.
    pub counters: Counters,
}

/// One end of a session.
#[derive(Clone)]
pub struct Channel {
    pub(crate) inner: Arc<Inner>,
}

impl Inner {
    /// What the ends of a channel share, on its first connection, and what receives.
    pub(crate) fn new(
        conn: Arc<dyn Connection>,
        execution: Arc<session::Execution>,
        bounds: session::Bounds,
    ) -> std::io::Result<(Arc<Self>, session::Receiver)> {
        let (sender, receiver) = session::new(bounds, execution);
        let kept = Arc::<Kept>::default();
        conn.attend(&kept);
        let inner = Self {
            lanes: Lanes::new(),
            board: sender.board().clone(),
            outgoing: Mutex::new(Outgoing::new(sender, conn)),
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
            kept,
            counters: Counters::default(),
        };
        Ok((Arc::new(inner), receiver))
    }

    pub(crate) fn check(&self) -> Result<(), Closed> {
        if self.is_over()
            && let Some(c) = lock(&self.closed).clone()
        {
            return Err(c);
        }
        Ok(())
    }

    /// Whether the session is over.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.signals.is_closed.load(Ordering::Acquire)
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
    pub(crate) fn broken(&self, conn: &Arc<dyn Connection>, epoch: u64) {
        conn.shutdown();
        let mut out = lock(&self.outgoing);
        if out.session.epoch() == epoch {
            out.detach();
        }
    }

    /// Whether the peer owes anything: an answer, or the word that it has what was sent.
    pub(crate) fn peer_owes(&self) -> bool {
        self.board.is_owed() || self.watch.waiting() > 0 || self.owed.get().is_some_and(|f| f())
    }

    /// Tells the sending thread that there is something to send.
    #[inline]
    pub(crate) fn notify(&self) {
        if self.announce() {
            self.signals.work.open();
        }
    }

    /// Says that there is something to send. Returns whether the sending thread sleeps, or has been
    /// woken and does not run yet.
    #[inline]
    pub(crate) fn announce(&self) -> bool {
        // Left alone when it is set: whoever clears it collects afterwards, and so
        // finds what was queued before this look at it.
        if !self.signals.pending.load(Ordering::Relaxed) {
            self.signals.pending.store(true, Ordering::Release);
        }
        // Either we see it asleep or it sees `pending`.
        fence(Ordering::SeqCst);
        self.signals.work.has_waiters()
    }

    /// As `notify`, whether there is something or not.
    #[cold]
    pub(crate) fn wake(&self) {
        self.signals.pending.store(true, Ordering::Release);
        self.signals.work.open();
    }

    /// The peer has everything up to `seq`. Returns how many bytes that frees.
    pub(crate) fn acknowledged(
        &self,
        epoch: u64,
        seq: u64,
        spent: &mut Spent,
    ) -> Result<usize, Stop> {
        let mut out = lock(&self.outgoing);
        let before = out.session.bytes();
        out.session
            .acknowledged(epoch, seq, |frame, _, scarce| spent.add(frame, scarce))?;
        let freed = before - out.session.bytes();
        self.made_room(out);
        spent.let_go();
        Ok(freed)
    }

    /// The session goes on over another connection.
    pub(crate) fn attach(
        &self,
        conn: &Arc<dyn Connection>,
        epoch: u64,
        peer_last: u64,
    ) -> Result<(), Stop> {
        let mut spent = Spent::default();
        let mut out = lock(&self.outgoing);
        out.session.attach(epoch, peer_last, |frame, _, scarce| {
            spent.add(frame, scarce)
        })?;
        out.drop_sides();
        conn.attend(&self.kept);
        out.conn = Some(conn.clone());
        self.made_room(out);
        self.counters.resumed.fetch_add(1, Ordering::Relaxed);
        self.wake();
        Ok(())
    }

    /// The peer has some frames more.
    fn made_room(&self, out: MutexGuard<'_, Outgoing>) {
        let held = out.held;
        drop(out);
        if held {
            self.notify();
        }
        self.progress.open();
    }

    /// Keeps frames for other records.
    pub(crate) fn reuse(&self, spent: impl Iterator<Item = Arc<Frame>>) {
        let mut surplus = Vec::new();
        let mut out = lock(&self.outgoing);
        surplus.extend(spent.filter_map(|f| out.spares.put(f)));
        drop(out);
        drop(surplus);
    }

    /// The side connections that a frame on connection `epoch` has parts on.
    pub(crate) fn sides_expected(&self, epoch: u64, sides: usize) -> Result<Vec<Arc<Side>>, Stop> {
        let mut out = lock(&self.outgoing);
        out.session.sides_expected(epoch, sides)?;
        let all = out.sides.get(..sides).ok_or(Stop::Stale)?;
        Ok(all.to_vec())
    }

    /// See [`Channel::offer_side`].
    pub(crate) fn offer_side(&self, conn: Arc<dyn Connection>) -> u64 {
        let mut out = lock(&self.outgoing);
        let number = out.session.offer_side();
        if !self.is_over() {
            out.offered = Some((number, conn));
        }
        number
    }

    /// See [`Channel::attach_side`].
    pub(crate) fn attach_side(
        self: &Arc<Self>,
        conn: Arc<dyn Connection>,
        number: u64,
        epoch: u64,
    ) -> io::Result<()> {
        let mut out = lock(&self.outgoing);
        let open = out.session.open_side(epoch, number);
        open.map_err(|_| ErrorKind::NotConnected)?;
        self.start_side(&mut out, Some(conn), (epoch, number))?;
        drop(out);
        self.notify();
        Ok(())
    }

    /// The peer has named a side connection.
    pub(crate) fn side_named(self: &Arc<Self>, epoch: u64, number: u64) {
        let mut out = lock(&self.outgoing);
        if out.session.side_named(epoch, number) == Ok(Named::Take) {
            let offered = out.offered.take_if(|(n, _)| *n == number);
            // Without one the peer is not told of any.
            let conn = offered.map(|(_, conn)| conn);
            let _ = self.start_side(&mut out, conn, (epoch, number));
        }
    }

    fn start_side(
        self: &Arc<Self>,
        out: &mut Outgoing,
        conn: Option<Arc<dyn Connection>>,
        (epoch, number): (u64, u64),
    ) -> io::Result<()> {
        let me = Arc::downgrade(self);
        let lost = move || {
            me.upgrade()
                .is_some_and(|i| lock(&i.outgoing).session.side_lost(epoch, number))
        };
        let started = match (conn, &out.conn) {
            (Some(conn), Some(main)) => Side::start(conn, main.clone(), Box::new(lost)),
            _ => Err(ErrorKind::NotConnected.into()),
        };
        if started.is_err() {
            out.session.side_lost(epoch, number);
        }
        out.sides.push(started?);
        Ok(())
    }
}
