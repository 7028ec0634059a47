//! Receiving, acknowledging and resuming.

use crate::frames::Spent;
use crate::quiet::{self, Quiet};
use crate::side::{self, Side};
use crate::watch::patience;
use crate::{Channel, Closed, Ending, Inner, Keeper, Verdict, lock};
use busbar_transport::Connection;
use busbar_wire::frame::{self, Kind};
use busbar_wire::limits;
use busbar_wire::window::{Arrival, RecvCursor};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How many of a frame's first bytes a [`Sink`] sees before it says where the rest goes: a record's
/// header and one u64.
pub const PEEK: usize = 24;

/// A frame from this size on is read without reading ahead of it.
const LARGE: usize = 256 << 10;

/// A network is fast if one stream has carried this many bytes a second ...
const FAST: f64 = 1.5e9;
/// ... for as many bytes as this, many times what may have gathered in buffers on the way, ...
const ENOUGH: usize = 64 << 20;
/// ... of long frames not further apart than this ...
const PAUSE: Duration = Duration::from_millis(2);
/// ... in at most this time.
const LONGEST: Duration = Duration::from_millis(50);

/// Takes what arrives. Called from the receiving thread, frame by frame, in order, each once.
pub trait Sink: Send {
    /// A frame of `len` bytes begins with `head` (up to [`PEEK`] bytes). Returns where its other
    /// bytes go, or `None` for a buffer of the channel's. May be called again for the same frame
    /// when a connection breaks inside it, so it must have no effect that a repeat would double.
    ///
    /// The memory stays writable until `deliver` is called or the channel ends.
    fn place(&mut self, len: usize, head: &[u8]) -> Option<(*mut u8, usize)>;

    /// The frame is complete. `body` is all of it, or its head alone when `place` gave a place.
    /// The buffer may be kept; what is left in it is reused. An error ends the session with that
    /// sentence as its reason.
    fn deliver(&mut self, body: &mut Vec<u8>) -> Result<(), String>;

    /// The session is over.
    fn closed(&mut self, why: &Closed);
}

/// A connection with a buffer in front, so that small frames cost less than a system call each.
struct Buffered<'a> {
    source: Source<'a>,
    buf: &'a mut [u8],
    start: usize,
    end: usize,
    /// How much to ask for at once: little behind a large frame, since what follows is likely
    /// another whose bytes should go where they belong without a stop here.
    ahead: usize,
}

/// From this many missing bytes on, they are received straight into their place.
const DIRECT: usize = 16 << 10;

/// A connection, and what is done while it has nothing.
struct Source<'a> {
    inner: &'a Inner,
    conn: &'a dyn Connection,
    quiet: Quiet<'a>,
    spent: &'a mut Spent,
}

impl Source<'_> {
    /// Uses the memory of a few frames that the peer has again. Says whether there were any.
    fn tidy(&mut self) -> bool {
        self.spent.some().map(|s| self.inner.reuse(s)).is_some()
    }

    /// Receives at least one byte: looks for it while that is worth it, then sleeps.
    fn receive(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let watch = &self.inner.watch;
        loop {
            if let Some(n) = self.conn.try_recv(out)? {
                watch.touch();
                self.quiet.heard();
                return Ok(n);
            }
            if self.tidy() {
                continue;
            }
            if watch.alert() {
                std::thread::yield_now();
            } else {
                self.quiet.judge()?;
                let tick = self.quiet.tick();
                let conn = self.conn;
                self.quiet
                    .during(|| watch.sleep(|alarm| conn.wait(alarm, tick)))?;
            }
        }
    }
}

impl Buffered<'_> {
    fn read_exact(&mut self, out: &mut [u8]) -> io::Result<()> {
        let have = (self.end - self.start).min(out.len());
        out[..have].copy_from_slice(&self.buf[self.start..self.start + have]);
        self.start += have;
        let mut done = have;
        while done < out.len() {
            let left = out.len() - done;
            if left >= DIRECT {
                match self.source.receive(&mut out[done..])? {
                    0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                    n => done += n,
                }
            } else {
                let most = self.ahead.clamp(left, self.buf.len());
                let n = self.source.receive(&mut self.buf[..most])?;
                if n == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
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

struct Receiver<'a> {
    inner: &'a Arc<Inner>,
    sink: Box<dyn Sink>,
    /// How long the peer may be silent.
    silence: Option<Duration>,
    cursor: RecvCursor,
    body: Vec<u8>,
    since_ack: usize,
    /// When the present run of long frames began, and how many bytes they were.
    long_since: Instant,
    long: usize,
    last_long: Instant,
    /// The network has been found to be fast.
    told: bool,
}

impl Receiver<'_> {
    /// Receives frames until the connection or the session ends.
    fn frames(&mut self, conn: &Arc<dyn Connection>, buf: &mut [u8]) -> Result<(), Stop> {
        let mut spent = Spent::default();
        let mut input = Buffered {
            source: Source {
                inner: self.inner,
                conn: &**conn,
                quiet: Quiet::new(self.inner, self.silence),
                spent: &mut spent,
            },
            buf,
            start: 0,
            end: 0,
            ahead: usize::MAX,
        };
        loop {
            let mut h = [0; frame::HEADER];
            input.read_exact(&mut h)?;
            let h = frame::Header::parse(&h).map_err(|e| Stop::Fatal(e.to_string()))?;
            let len = h.len as usize;
            input.ahead = if len >= LARGE {
                frame::HEADER + PEEK
            } else {
                usize::MAX
            };
            self.inner
                .counters
                .received
                .fetch_add((frame::HEADER + len) as u64, Ordering::Relaxed);
            match h.kind {
                Kind::Data => {
                    let side = match h.flags {
                        frame::SIDE if len >= side::FROM => Some(self.side(conn)?),
                        0 => None,
                        _ => return Err(Stop::Fatal("a short frame in two parts".into())),
                    };
                    self.data(&mut input, h.seq, len, side.as_deref())?;
                    if len >= LARGE {
                        self.speed(len);
                    }
                    self.since_ack += frame::HEADER + len;
                    if self.since_ack >= limits::ACK_EVERY {
                        self.ack();
                    }
                }
                Kind::Ack if len == 0 => {}
                Kind::Ping if len == 0 => {
                    if h.flags == frame::SIDE {
                        self.inner.side_named(conn, h.seq);
                    }
                    self.ack();
                }
                _ => {
                    return Err(Stop::Fatal(
                        "a frame of this kind does not belong here".into(),
                    ));
                }
            }
            let freed = self
                .inner
                .acknowledged(h.ack, input.source.spent)
                .map_err(|e| Stop::Fatal(e.to_string()))?;
            input.source.tidy();
            if freed >= LARGE {
                self.speed(freed);
            }
        }
    }

    /// The side connection that a frame says it has a part on.
    fn side(&self, conn: &Arc<dyn Connection>) -> Result<Arc<Side>, Stop> {
        if let Some(side) = self.inner.side_of(conn) {
            return Ok(side);
        }
        let link = lock(&self.inner.link);
        if link.conn.as_ref().is_some_and(|c| Arc::ptr_eq(c, conn)) {
            let why = "a frame in two parts, and no connection for the second";
            return Err(Stop::Fatal(why.into()));
        }
        Err(Stop::Io(io::ErrorKind::ConnectionAborted.into()))
    }

    /// Long frames have gone through. When many have in a short time, whoever asked is told.
    fn speed(&mut self, bytes: usize) {
        let Some(tell) = self.inner.on_fast.get().filter(|_| !self.told) else {
            return;
        };
        // With few cores the streams would take them from each other.
        if patience().after.is_zero() {
            return;
        }
        let now = Instant::now();
        let first = now.duration_since(self.last_long) > PAUSE
            || now.duration_since(self.long_since) > LONGEST;
        self.last_long = now;
        if first {
            (self.long_since, self.long) = (now, 0);
            return;
        }
        self.long += bytes;
        let seconds = now.duration_since(self.long_since).as_secs_f64();
        if self.long >= ENOUGH && self.long as f64 >= FAST * seconds {
            self.told = true;
            if lock(&self.inner.link).side.is_some() {
                return;
            }
            tell(&Channel {
                inner: self.inner.clone(),
            });
        }
    }

    fn ack(&mut self) {
        self.since_ack = 0;
        self.inner.ack_due.store(true, Ordering::Release);
        self.inner.notify();
    }

    fn data(
        &mut self,
        input: &mut Buffered<'_>,
        seq: u64,
        len: usize,
        side: Option<&Side>,
    ) -> Result<(), Stop> {
        // A frame counts as received only when all of it is here: until then the cursor stays, and
        // a new connection brings it again from its first byte.
        let mut cursor = self.cursor;
        let arrival = cursor.arrive(seq).map_err(|e| Stop::Fatal(e.to_string()))?;
        let peek = len.min(PEEK);
        self.body.clear();
        self.body.resize(peek, 0);
        input.read_exact(&mut self.body)?;
        let place = match arrival {
            Arrival::Next => self.sink.place(len, &self.body),
            Arrival::Seen => None,
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
        let aside = side.map_or(0, |_| side::share(len));
        // SAFETY: `Sink::place` vouches for `n` writable bytes, or they are the body's. A frame
        // that has a part on the side is far longer than that part and its head.
        let (rest, end) = unsafe {
            let main = n - aside;
            (std::slice::from_raw_parts_mut(p, main), p.add(main))
        };
        if let Some(side) = side {
            side.expect(end, aside);
        }
        let main = input.read_exact(rest);
        if let Some(side) = side {
            if main.is_err() {
                side.shut();
            }
            // Before this nothing else may touch the memory.
            let landed = side.landed(self.silence);
            main?;
            landed?;
        } else {
            main?;
        }
        if arrival == Arrival::Next {
            self.cursor = cursor;
            self.inner.cursor_last.store(seq, Ordering::Release);
            self.sink.deliver(&mut self.body).map_err(Stop::Sink)?;
        }
        Ok(())
    }
}

/// The receiving thread.
pub(crate) fn run(
    inner: &Arc<Inner>,
    first: Arc<dyn Connection>,
    sink: Box<dyn Sink>,
    mut keeper: Box<dyn Keeper>,
) {
    let mut r = Receiver {
        inner,
        sink,
        silence: keeper.silence(),
        cursor: RecvCursor::default(),
        body: Vec::new(),
        since_ack: 0,
        long_since: Instant::now(),
        long: 0,
        last_long: Instant::now(),
        told: false,
    };
    let mut buf = vec![0; 128 << 10];
    // Kept here and not read from the link: a connection that the sender found broken, and took
    // from there, must still be judged by how it ended.
    let mut conn = first;
    let why = loop {
        let present = conn;
        let how = match r.frames(&present, &mut buf) {
            Ok(()) => Ending::Eof,
            Err(Stop::Sink(m)) => break m,
            Err(Stop::Fatal(m)) => break format!("the peer broke the protocol: {m}"),
            // Another connection would bring the same.
            Err(Stop::Io(e)) if e.raw_os_error() == Some(libc::EFAULT) => {
                break "memory that an answer belongs in cannot be written".into();
            }
            Err(Stop::Io(e)) => {
                inner.broken(&present);
                match e.kind() {
                    _ if present.was_reset() => Ending::Reset,
                    io::ErrorKind::UnexpectedEof => Ending::Eof,
                    _ if quiet::was_silence(&e) => Ending::Silent,
                    _ => Ending::Failed,
                }
            }
        };
        drop(present);
        if how == Ending::Eof && inner.closing.load(Ordering::Acquire) {
            break "both ends have closed the session".into();
        }
        if inner.signals.is_closed.load(Ordering::Acquire) {
            break "closed".into();
        }
        match resume(inner, &mut *keeper, how, r.cursor.last()) {
            Ok(c) => {
                conn = c;
                r.told = false;
            }
            Err(m) => break m,
        }
    };
    inner.end(Closed(why.into()));
    if let Some(c) = lock(&inner.closed).clone() {
        r.sink.closed(&c);
    }
}

fn resume(
    inner: &Inner,
    keeper: &mut dyn Keeper,
    how: Ending,
    last: u64,
) -> Result<Arc<dyn Connection>, String> {
    let lost = Instant::now();
    loop {
        if inner.signals.is_closed.load(Ordering::Acquire) {
            return Err("closed".into());
        }
        match keeper.detached(how, lost.elapsed(), last) {
            Verdict::Resume(conn, peer_last) => {
                let mut freed = 0;
                let mut spent = Spent::default();
                {
                    let mut link = lock(&inner.link);
                    link.window
                        .resume(peer_last, |f, n| {
                            freed += n;
                            spent.add(f);
                        })
                        .map_err(|e| format!("the session cannot be resumed: {e}"))?;
                    inner.acked.store(peer_last, Ordering::Release);
                    link.drop_side();
                    link.number += 1;
                    link.conn = Some(conn.clone());
                }
                // A session that ended meanwhile found no connection to shut down.
                if inner.signals.is_closed.load(Ordering::Acquire) {
                    inner.broken(&conn);
                    return Err("closed".into());
                }
                spent.let_go();
                inner.made_room(freed);
                inner.counters.resumed.fetch_add(1, Ordering::Relaxed);
                inner.room.notify_all();
                inner.wake();
                return Ok(conn);
            }
            Verdict::Wait(d) => std::thread::sleep(d),
            Verdict::End(m) => return Err(m),
        }
    }
}
