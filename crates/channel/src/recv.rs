//! Receiving, acknowledging and resuming.

use super::prelude::*;
use crate::frames::Spent;
use crate::gate::Wait;
use crate::inner::{Channel, Closed, Inner};
use crate::keeper::{Ending, Keeper, Lost, Verdict};
use crate::watch::patience;
use busbar_transport::Path;
use busbar_wire::frame::{self, Header};
use busbar_wire::session::{self, Arriving, Aside, Execution};
use std::io;

/// How many of a frame's first bytes a [`Sink`] sees before it says where the rest goes: a record's
/// header and one u64.
pub const PEEK: usize = 24;

/// A frame from this size on is read without reading ahead of it.
const LARGE: usize = 256 << 10;

/// A network is fast if one stream has carried this many bytes a second, or several this many each,
/// so that cores are what they wait for ...
const FAST: f64 = 1.5e9;
const FAST_EACH: f64 = 1.2e9;
/// ... for as many bytes of long frames as this, many times what may have gathered in buffers on
/// the way, ...
const ENOUGH: usize = 64 << 20;
/// ... in at most this time, pauses included.
const LONGEST: Duration = Duration::from_millis(50);

/// Takes what arrives. Called from the receiving thread, frame by frame, in order, each once.
pub trait Sink: Send {
    /// A frame of `len` bytes begins with `head` (up to [`PEEK`] bytes). Returns where its other
    /// bytes go, or `None` for a buffer of the channel's. May be called again for the same frame
    /// when a connection breaks inside it, so it must have no effect that a repeat would double.
    ///
    /// The memory stays writable until `deliver` is called or the channel ends.
    fn place(&mut self, len: usize, head: &[u8]) -> Option<(*mut u8, usize)>;

    /// Frame `seq` is complete. `body` is all of it, or its head alone when `place` gave a place.
    /// The buffer may be kept; what is left in it is reused. An error ends the session with that
    /// sentence as its reason.
    fn deliver(&mut self, seq: u64, body: &mut Vec<u8>) -> Result<(), String>;

    /// Where frames that are delivered wait to be executed. Unless told otherwise, they are when
    /// `deliver` returns.
    fn execution(&self) -> Arc<Execution> {
        Arc::default()
    }

    /// The session is over.
    fn closed(&mut self, why: &Closed);
}

/// A connection with a buffer in front, so that small frames cost less than a system call each.
struct Input<'a> {
    inner: &'a Arc<Inner>,
    conn: &'a dyn Connection,
    epoch: u64,
    /// It is a queue pair.
    rdma: bool,
    session: &'a mut session::Receiver,
    spent: Spent,
    buf: &'a mut [u8],
    start: usize,
    end: usize,
    /// How much to ask for at once: little behind a large frame, since what follows is likely
    /// another whose bytes should go where they belong without a stop here.
    ahead: usize,
}

/// From this many missing bytes on, they are received straight into their place.
pub(crate) const DIRECT: usize = 16 << 10;

impl Input<'_> {
    /// Uses the memory of a few frames that the peer has again. Says whether there were any.
    fn tidy(&mut self) -> bool {
        self.spent.some().map(|s| self.inner.reuse(s)).is_some()
    }

    /// Receives at least one byte, into `out` or into the buffer: looks for it while that is worth
    /// it, then sleeps.
    fn receive(&mut self, mut out: Option<&mut [u8]>, most: usize) -> Result<usize, Stop> {
        let watch = &self.inner.watch;
        loop {
            let into = match &mut out {
                Some(out) => &mut **out,
                None => &mut self.buf[..most],
            };
            if let Some(n) = self.conn.try_recv(into)? {
                watch.touch();
                self.session.heard();
                return match n {
                    0 => Err(Stop::Io(io::ErrorKind::UnexpectedEof.into())),
                    n => Ok(n),
                };
            }
            if self.tidy() {
                continue;
            }
            if watch.alert() {
                std::thread::yield_now();
            } else {
                let limit = self.judge()?;
                let conn = self.conn;
                watch.sleep(|alarm| conn.wait(Some(alarm), limit))?;
            }
        }
    }

    /// How long to sleep, unless the peer has been silent for too long.
    fn judge(&mut self) -> Result<Option<Duration>, Stop> {
        if self.session.is_patient() {
            return Ok(None);
        }
        let now = self.inner.watch.now();
        let waits = self.session.waits(now, self.inner.peer_owes());
        let (limit, asks) = waits.map_err(|_| Stop::Silent)?;
        if asks {
            self.inner.notify();
        }
        Ok(limit)
    }

    fn read_exact(&mut self, out: &mut [u8]) -> Result<(), Stop> {
        let have = (self.end - self.start).min(out.len());
        out[..have].copy_from_slice(&self.buf[self.start..self.start + have]);
        self.start += have;
        let mut done = have;
        while done < out.len() {
            let left = out.len() - done;
            if left >= DIRECT {
                done += self.receive(Some(&mut out[done..]), 0)?;
            } else {
                let most = self.ahead.clamp(left, self.buf.len());
                let n = self.receive(None, most)?;
                let take = n.min(left);
                out[done..done + take].copy_from_slice(&self.buf[..take]);
                done += take;
                (self.start, self.end) = (take, n);
            }
        }
        Ok(())
    }
}

enum Stop {
    Io(io::Error),
    /// The peer says nothing.
    Silent,
    /// The peer broke the protocol; the session ends.
    Fatal(String),
    /// The sink ends the session, for the reason it gives.
    Sink(String),
}

impl From<io::Error> for Stop {
    fn from(e: io::Error) -> Self {
        Self::Io(e)
    }
}

impl From<session::Stop> for Stop {
    fn from(stop: session::Stop) -> Self {
        match stop {
            session::Stop::Stale => Self::Io(io::ErrorKind::ConnectionAborted.into()),
            session::Stop::Broken(e) => Self::Fatal(e.to_string()),
        }
    }
}

/// Why nothing more is taken by [`Reader::take`].
pub(crate) enum Quiet {
    /// There is no more.
    ForNow,
    /// The session is over, for this reason.
    Over(String),
}

pub(crate) struct Reader {
    pub(crate) sink: Box<dyn Sink>,
    body: Vec<u8>,
    /// When the present run of long frames began, and how many bytes they were.
    long_since: Instant,
    long: usize,
    /// How many side connections were asked for because the network is fast.
    told: usize,
}

impl Reader {
    pub(crate) fn new(sink: Box<dyn Sink>) -> Self {
        Self {
            sink,
            body: Vec::new(),
            long_since: Instant::now(),
            long: 0,
            told: 0,
        }
    }

    /// Takes the frames that a connection has, up to its end.
    pub(crate) fn take(
        &mut self,
        inner: &Arc<Inner>,
        conn: &dyn Connection,
        session: &mut session::Receiver,
        buf: &mut [u8],
    ) -> Quiet {
        let stop = self.frames(&mut Input {
            inner,
            conn,
            epoch: 0,
            rdma: false,
            session,
            spent: Spent::default(),
            buf,
            start: 0,
            end: 0,
            ahead: usize::MAX,
        });
        match stop {
            Err(Stop::Sink(m)) => Quiet::Over(m),
            Err(Stop::Fatal(m)) => Quiet::Over(format!("the peer broke the protocol: {m}")),
            _ => Quiet::ForNow,
        }
    }

    /// Receives frames until the connection or the session ends.
    fn frames(&mut self, input: &mut Input<'_>) -> Result<(), Stop> {
        let inner = input.inner;
        loop {
            let mut h = [0; frame::HEADER];
            input.read_exact(&mut h)?;
            let h = Header::parse(&h).map_err(|e| Stop::Fatal(e.to_string()))?;
            let len = h.len as usize;
            input.ahead = if len >= LARGE {
                frame::HEADER + PEEK
            } else {
                usize::MAX
            };
            let received = (frame::HEADER + len) as u64;
            inner
                .counters
                .received
                .fetch_add(received, Ordering::Relaxed);
            if input.rdma {
                let over = &inner.counters.rdma_received;
                over.fetch_add(received, Ordering::Relaxed);
            }
            match input.session.header(input.epoch, &h)? {
                Arriving::Bare => {}
                Arriving::NamesSide(number) => inner.side_named(input.epoch, number),
                Arriving::Data { new, aside } => self.body(input, len, new, aside)?,
            }
            if input.session.complete(input.epoch, &h)? {
                self.sink
                    .deliver(h.seq, &mut self.body)
                    .map_err(Stop::Sink)?;
            }
            if len >= LARGE {
                self.speed(inner, len);
            }
            if input.session.done(&h) {
                inner.notify();
            }
            if h.ack > inner.board.acked() {
                let freed = match inner.acknowledged(input.epoch, h.ack, &mut input.spent) {
                    Err(session::Stop::Stale) => 0,
                    freed => freed?,
                };
                if freed >= LARGE {
                    self.speed(inner, freed);
                }
            }
            input.tidy();
        }
    }

    /// Long frames have gone through. When many have in a short time, whoever asked is told.
    fn speed(&mut self, inner: &Arc<Inner>, bytes: usize) {
        inner.watch.hurry();
        let Some((_, tell)) = inner.on_fast.get().filter(|(most, _)| self.told < *most) else {
            return;
        };
        // With few cores the streams would take them from each other.
        if patience().after.is_zero() {
            return;
        }
        let now = Instant::now();
        if now.duration_since(self.long_since) > LONGEST {
            (self.long_since, self.long) = (now, 0);
            return;
        }
        self.long += bytes;
        let seconds = now.duration_since(self.long_since).as_secs_f64();
        if self.long < ENOUGH {
            return;
        }
        let rate = self.long as f64 / seconds;
        (self.long_since, self.long) = (now, 0);
        // One that is on its way counts when it is there.
        let sides = lock(&inner.outgoing).session.sides();
        let Some(sides) = sides.filter(|n| *n >= self.told) else {
            return;
        };
        let fast = match sides {
            0 => FAST,
            n => FAST_EACH * (n + 1) as f64,
        };
        if rate >= fast {
            self.told = sides + 1;
            tell(&Channel {
                inner: inner.clone(),
            });
        }
    }

    /// Reads the body of a data frame to where it belongs. It has arrived when all of it is here:
    /// until then a new connection brings it again from its first byte.
    fn body(
        &mut self,
        input: &mut Input<'_>,
        len: usize,
        new: bool,
        aside: Aside,
    ) -> Result<(), Stop> {
        let sides = match aside.sides {
            0 => Vec::new(),
            n => input.inner.sides_expected(input.epoch, n)?,
        };
        let peek = len.min(PEEK);
        self.body.clear();
        self.body.resize(peek, 0);
        input.read_exact(&mut self.body)?;
        let place = match new {
            true => self.sink.place(len, &self.body),
            false => None,
        };
        let (p, n) = match place {
            Some((_, n)) if n != len - peek => {
                return Err(Stop::Fatal("a bulk record has the wrong length".into()));
            }
            Some(place) => place,
            None => {
                self.body.resize(len, 0);
                let rest = &mut self.body[peek..];
                (rest.as_mut_ptr(), rest.len())
            }
        };
        // SAFETY: `Sink::place` vouches for `n` writable bytes, or they are the body's. A frame
        // that has parts aside is longer than those by one more and its head.
        let (rest, parts) = unsafe {
            let main = n - aside.bytes();
            (std::slice::from_raw_parts_mut(p, main), p.add(main))
        };
        for (i, side) in sides.iter().enumerate() {
            side.expect(parts.wrapping_add(i * aside.each), aside.each);
        }
        let main = input.read_exact(rest);
        if main.is_err() {
            sides.iter().for_each(|side| side.shut());
        }
        // Before each has said so nothing else may touch the memory.
        let (tick, ticks) = (input.session.tick(), input.session.ticks());
        let mut all = main;
        for side in &sides {
            let landed = side.landed(tick, ticks);
            if landed.is_err() {
                // Nor is anything gained by what the others still wait for.
                sides.iter().for_each(|side| side.shut());
            }
            all = all.and(landed.map_err(Stop::from));
        }
        all
    }
}

/// The receiving thread.
pub(crate) fn run(
    inner: &Arc<Inner>,
    mut session: session::Receiver,
    first: Arc<dyn Connection>,
    sink: Box<dyn Sink>,
    mut keeper: Box<dyn Keeper>,
) {
    let mut reader = Reader::new(sink);
    let mut buf = vec![0; 128 << 10];
    // Kept here and not read from elsewhere: a connection that the sender found broken, and let
    // go of, must still be judged by how it ended.
    let (mut conn, mut epoch) = (first, 0);
    let why = loop {
        let present = conn;
        // Others beside it would add nothing to a queue pair.
        let rdma = present.path() == Path::Rdma;
        reader.told = if rdma { usize::MAX } else { 0 };
        let stop = reader.frames(&mut Input {
            inner,
            conn: &*present,
            epoch,
            rdma,
            session: &mut session,
            spent: Spent::default(),
            buf: &mut buf,
            start: 0,
            end: 0,
            ahead: usize::MAX,
        });
        let how = match stop {
            Ok(()) => Ending::Eof,
            Err(Stop::Sink(m)) => break m,
            Err(Stop::Fatal(m)) => break format!("the peer broke the protocol: {m}"),
            // Another connection would bring the same.
            Err(Stop::Io(e)) if e.raw_os_error() == Some(libc::EFAULT) => {
                break "memory that an answer belongs in cannot be written".into();
            }
            Err(_) if present.was_reset() => Ending::Reset,
            Err(Stop::Silent) => Ending::Silent,
            Err(Stop::Io(e)) if e.kind() == io::ErrorKind::UnexpectedEof => Ending::Eof,
            Err(Stop::Io(_)) => Ending::Failed,
        };
        inner.broken(&present, epoch);
        drop(present);
        if how == Ending::Eof && inner.closing.load(Ordering::Acquire) {
            break "both ends have closed the session".into();
        }
        if inner.is_over() {
            break "closed".into();
        }
        match resume(inner, &mut *keeper, how, session.detach()) {
            Ok(next) => (conn, epoch) = next,
            Err(m) => break m,
        }
        session.attach(epoch);
    };
    inner.end(Closed(why.into()));
    if let Some(c) = lock(&inner.closed).clone() {
        reader.sink.closed(&c);
    }
}

/// Goes on over another connection: that, and its epoch. An error is why the session is over.
fn resume(
    inner: &Inner,
    keeper: &mut dyn Keeper,
    how: Ending,
    last_received: u64,
) -> Result<(Arc<dyn Connection>, u64), String> {
    let lost_at = Instant::now();
    loop {
        if inner.is_over() {
            return Err("closed".into());
        }
        let lost = Lost {
            how,
            since: lost_at.elapsed(),
            last_received,
            epoch: lock(&inner.outgoing).session.propose(),
        };
        let (conn, epoch, peer_last) = match keeper.detached(&lost) {
            Verdict::Resume {
                conn,
                epoch,
                peer_last,
            } => (conn, epoch, peer_last),
            Verdict::Wait(d) => {
                let wait = Wait::idle("the receiving thread").within(d);
                let over = || inner.is_over();
                inner.progress.wait(&wait, over);
                continue;
            }
            Verdict::End(m) => return Err(m),
        };
        match inner.attach(&conn, epoch, peer_last) {
            Ok(()) => {}
            Err(session::Stop::Stale) => {
                conn.shutdown();
                continue;
            }
            Err(session::Stop::Broken(e)) => {
                return Err(format!("the session cannot be resumed: {e}"));
            }
        }
        // A session that ended meanwhile found no connection to shut down.
        if inner.is_over() {
            inner.broken(&conn, epoch);
            return Err("closed".into());
        }
        return Ok((conn, epoch));
    }
}
