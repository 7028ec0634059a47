//! Receiving, acknowledging and resuming.

use crate::send::retire;
use crate::watch::Watch;
use crate::{Closed, Cursor, Ending, Inner, Keeper, Verdict, lock};
use busbar_transport::Connection;
use busbar_wire::frame::{self, Kind};
use busbar_wire::limits;
use busbar_wire::window::Arrival;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// How many of a frame's first bytes a [`Sink`] sees before it says where the rest goes: a record's
/// header and one u64.
pub const PEEK: usize = 24;

/// A frame from this size on is read without reading ahead of it.
const LARGE: usize = 256 << 10;

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
    conn: &'a dyn Connection,
    watch: &'a Watch,
    buf: &'a mut [u8],
    start: usize,
    end: usize,
    /// How much to ask for at once: little behind a large frame, since what follows is likely
    /// another whose bytes should go where they belong without a stop here.
    ahead: usize,
}

/// From this many missing bytes on, they are received straight into their place.
const DIRECT: usize = 16 << 10;

/// Receives at least one byte: looks for it while that is worth it, then sleeps.
fn receive(conn: &dyn Connection, watch: &Watch, out: &mut [u8]) -> io::Result<usize> {
    loop {
        if let Some(n) = conn.try_recv(out)? {
            watch.touch();
            return Ok(n);
        }
        if watch.alert() {
            std::thread::yield_now();
        } else {
            watch.sleep(|alarm| conn.wait(alarm))?;
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
                match receive(self.conn, self.watch, &mut out[done..])? {
                    0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                    n => done += n,
                }
            } else {
                let most = self.ahead.clamp(left, self.buf.len());
                let n = receive(self.conn, self.watch, &mut self.buf[..most])?;
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
    inner: &'a Inner,
    sink: Box<dyn Sink>,
    cursor: Cursor,
    body: Vec<u8>,
    since_ack: usize,
}

impl Receiver<'_> {
    /// Receives frames until the connection or the session ends.
    fn frames(&mut self, conn: &dyn Connection, buf: &mut [u8]) -> Result<(), Stop> {
        let mut input = Buffered {
            conn,
            watch: &self.inner.watch,
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
                    self.data(&mut input, h.seq, len)?;
                    self.since_ack += frame::HEADER + len;
                    if self.since_ack >= limits::ACK_EVERY {
                        self.ack();
                    }
                }
                Kind::Ack if len == 0 => {}
                Kind::Ping if len == 0 => self.ack(),
                _ => {
                    return Err(Stop::Fatal(
                        "a frame of this kind does not belong here".into(),
                    ));
                }
            }
            self.inner
                .acknowledged(h.ack)
                .map_err(|e| Stop::Fatal(e.to_string()))?;
        }
    }

    fn ack(&mut self) {
        self.since_ack = 0;
        self.inner.ack_due.store(true, Ordering::Release);
        self.inner.notify();
    }

    fn data(&mut self, input: &mut Buffered<'_>, seq: u64, len: usize) -> Result<(), Stop> {
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
        match place {
            Some((p, n)) => {
                if n != len - peek {
                    return Err(Stop::Fatal("a bulk record has the wrong length".into()));
                }
                // SAFETY: `Sink::place` vouches for `n` writable bytes.
                input.read_exact(unsafe { std::slice::from_raw_parts_mut(p, n) })?;
            }
            None => {
                self.body.resize(len, 0);
                input.read_exact(&mut self.body[peek..])?;
            }
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
        cursor: Cursor::default(),
        body: Vec::new(),
        since_ack: 0,
    };
    let mut buf = vec![0; 128 << 10];
    // Kept here and not read from the link: a connection that the sender found broken, and took
    // from there, must still be judged by how it ended.
    let mut conn = first;
    let why = loop {
        let present = conn;
        let how = match r.frames(&*present, &mut buf) {
            Ok(()) => Ending::Eof,
            Err(Stop::Sink(m)) => break m,
            Err(Stop::Fatal(m)) => break format!("the peer broke the protocol: {m}"),
            Err(Stop::Io(e)) => {
                inner.broken(&present);
                match e.kind() {
                    _ if present.was_reset() => Ending::Reset,
                    io::ErrorKind::UnexpectedEof => Ending::Eof,
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
            Ok(c) => conn = c,
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
                let mut spare = Vec::new();
                {
                    let mut link = lock(&inner.link);
                    link.window
                        .resume(peer_last, |f| retire(f, &mut freed, &mut spare))
                        .map_err(|e| format!("the session cannot be resumed: {e}"))?;
                    inner.acked.store(peer_last, Ordering::Release);
                    link.conn = Some(conn.clone());
                }
                // A session that ended meanwhile found no connection to shut down.
                if inner.signals.is_closed.load(Ordering::Acquire) {
                    inner.broken(&conn);
                    return Err("closed".into());
                }
                inner.release(freed, spare);
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
