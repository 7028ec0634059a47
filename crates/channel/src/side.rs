//! A session's second connection, which carries half of each long frame where the network is fast.
//!
//! One TCP stream moves what one core at each end can copy. With a second stream two cores copy at
//! a time. A frame that is sent so says it in its header; the last [`share`] of its bytes come over
//! the side connection, everything else over the main one. Both are read in order, and a frame has
//! arrived when both parts have, so nothing else changes: not the order, not what is acknowledged,
//! not what is sent again.
//!
//! A side connection belongs to one main connection, and the two ends must agree on which: a part
//! that is read into another frame would be wrong bytes in a program's memory. So the pair is made
//! on the main connection itself. The end that takes a new connection numbers it; the end that
//! opened it names that number on its main connection, as [`Side::to_name`] has it, and is answered
//! in the same way. A main connection has one side connection in its life. If that fails once it
//! has been used, so has the main one; the session then resumes as ever, at first without one.

use crate::frames::Frame;
use crate::quiet::TICKS;
use crate::watch::{look, patience};
use crate::{Inner, Link, lock, spawn};
use busbar_transport::Connection;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Frames of at least this size are sent in two parts.
pub(crate) const FROM: usize = 256 << 10;

/// How many of the last bytes of a frame of `len` bytes take the side connection.
pub(crate) fn share(len: usize) -> usize {
    (len / 2) & !4095
}

/// Things for one thread to take, in order.
struct Inbox<T> {
    list: Mutex<List<T>>,
    count: AtomicUsize,
    came: Condvar,
}

struct List<T> {
    things: VecDeque<T>,
    /// Nobody takes anything any more.
    closed: bool,
}

impl<T> Default for Inbox<T> {
    fn default() -> Self {
        Self {
            list: Mutex::new(List {
                things: VecDeque::new(),
                closed: false,
            }),
            count: AtomicUsize::new(0),
            came: Condvar::new(),
        }
    }
}

impl<T> Inbox<T> {
    /// Whether somebody will take it.
    fn put(&self, thing: T) -> bool {
        let mut list = lock(&self.list);
        if list.closed {
            return false;
        }
        list.things.push_back(thing);
        self.count.store(list.things.len(), Ordering::Release);
        self.came.notify_one();
        true
    }

    /// The next thing; `None`, and this is closed, once `over` is set and nothing is left.
    fn take(&self, over: &AtomicBool) -> Option<T> {
        let ended = || over.load(Ordering::Acquire);
        look(patience().after, || {
            self.count.load(Ordering::Acquire) > 0 || ended()
        });
        let mut list = lock(&self.list);
        while list.things.is_empty() && !ended() {
            list = self.came.wait(list).unwrap_or_else(PoisonError::into_inner);
        }
        let thing = list.things.pop_front();
        list.closed = thing.is_none();
        self.count.store(list.things.len(), Ordering::Release);
        thing
    }

    /// The next thing, if it comes within `limit`.
    fn take_within(&self, limit: Duration) -> Option<T> {
        let end = Instant::now() + limit;
        look(patience().after.min(limit), || {
            self.count.load(Ordering::Acquire) > 0
        });
        let mut list = lock(&self.list);
        while list.things.is_empty() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            let came = self.came.wait_timeout(list, left);
            list = came.unwrap_or_else(PoisonError::into_inner).0;
        }
        let thing = list.things.pop_front();
        self.count.store(list.things.len(), Ordering::Release);
        thing
    }

    /// Takes nothing any more. Returns whether anything was left.
    fn close(&self) -> bool {
        let mut list = lock(&self.list);
        list.closed = true;
        let left = !list.things.is_empty();
        list.things.clear();
        left
    }

    /// Whoever waits looks again.
    fn rouse(&self) {
        drop(lock(&self.list));
        self.came.notify_all();
    }
}

/// Bytes of a frame on their way out.
struct Piece {
    ptr: *const u8,
    len: usize,
    /// Keeps what the frame keeps.
    _frame: Arc<Frame>,
}

// SAFETY: the bytes are the frame's, which may be read from any thread while it lives.
unsafe impl Send for Piece {}

/// Where bytes on their way in belong.
struct Place(*mut u8, usize);

// SAFETY: whoever hands it over does not touch the memory until it is told that it is filled.
unsafe impl Send for Place {}

/// A side connection and its two threads, which end with it.
pub(crate) struct Side {
    conn: Arc<dyn Connection>,
    main: Arc<dyn Connection>,
    /// What the end that did not open it calls it.
    number: u64,
    /// The peer has been told that this end listens to it.
    named: AtomicBool,
    /// The peer listens to it.
    heard: AtomicBool,
    /// A part of a frame has gone over it, or should have.
    used: AtomicBool,
    over: AtomicBool,
    /// Bytes received.
    received: AtomicU64,
    out: Inbox<Piece>,
    places: Inbox<Place>,
    filled: Inbox<bool>,
}

impl Side {
    fn start(
        conn: Arc<dyn Connection>,
        main: Arc<dyn Connection>,
        number: u64,
        heard: bool,
    ) -> io::Result<Arc<Self>> {
        let side = Arc::new(Self {
            conn,
            main,
            number,
            named: AtomicBool::new(false),
            heard: AtomicBool::new(heard),
            used: AtomicBool::new(false),
            over: AtomicBool::new(false),
            received: AtomicU64::new(0),
            out: Inbox::default(),
            places: Inbox::default(),
            filled: Inbox::default(),
        });
        let s = side.clone();
        spawn("busbar-side-out".into(), move || s.send())?;
        let s = side.clone();
        // A thread that was started ends by this, too.
        spawn("busbar-side-in".into(), move || s.receive()).inspect_err(|_| side.shut())?;
        Ok(side)
    }

    /// Whether frames may be sent in two parts.
    pub(crate) fn ready(&self) -> bool {
        self.heard.load(Ordering::Acquire) && !self.over.load(Ordering::Acquire)
    }

    /// Its number, once: what the peer must be told on the main connection. From then on it may
    /// use this one.
    pub(crate) fn to_name(&self) -> Option<u64> {
        (!self.named.swap(true, Ordering::Relaxed)).then_some(self.number)
    }

    /// Sends the last `len` bytes of what a frame borrows, which end at `end`.
    pub(crate) fn part(&self, frame: &Arc<Frame>, end: *const u8, len: usize) {
        self.used.store(true, Ordering::SeqCst);
        let sent = self.out.put(Piece {
            ptr: end.wrapping_sub(len),
            len,
            _frame: frame.clone(),
        });
        if !sent {
            // The frame will never be whole.
            self.main.shutdown();
        }
    }

    /// The next `len` bytes that come belong at `ptr`. To be followed by [`Side::landed`], before
    /// which the memory belongs to this.
    pub(crate) fn expect(&self, ptr: *mut u8, len: usize) {
        self.used.store(true, Ordering::SeqCst);
        if !self.places.put(Place(ptr, len)) {
            self.filled.put(false);
        }
    }

    /// Waits for what was expected; an error when it will not come, or nothing does for as long as
    /// `silence`.
    pub(crate) fn landed(&self, silence: Option<Duration>) -> io::Result<()> {
        if let Some(silence) = silence {
            let (mut before, mut silent) = (self.received.load(Ordering::Relaxed), 0);
            // In short waits: time in which this process stands still counts for one.
            while silent < TICKS {
                if let Some(filled) = self.filled.take_within(silence / TICKS) {
                    let gone = || ErrorKind::ConnectionAborted.into();
                    return if filled { Ok(()) } else { Err(gone()) };
                }
                let now = self.received.load(Ordering::Relaxed);
                silent = if now == before { silent + 1 } else { 0 };
                before = now;
            }
            self.fail();
        }
        // There is an answer for each place.
        let never = AtomicBool::new(false);
        match self.filled.take(&never) {
            Some(true) => Ok(()),
            _ => Err(ErrorKind::ConnectionAborted.into()),
        }
    }

    /// Ends it, and its threads.
    pub(crate) fn shut(&self) {
        self.over.store(true, Ordering::SeqCst);
        self.conn.shutdown();
        self.out.rouse();
        self.places.rouse();
    }

    fn fail(&self) {
        self.shut();
        if self.used.load(Ordering::SeqCst) {
            self.main.shutdown();
        }
    }

    fn send(&self) {
        self.send_all();
        if self.out.close() {
            self.main.shutdown();
        }
    }

    fn send_all(&self) {
        while let Some(p) = self.out.take(&self.over) {
            // SAFETY: the frame that the piece holds keeps its bytes readable until it is
            // acknowledged, which it cannot be before they are sent on this connection; if another
            // brings the frame instead, this one is shut, and the kernel reports an address that is
            // gone as an error.
            let bytes = unsafe { std::slice::from_raw_parts(p.ptr, p.len) };
            if self.conn.send(&mut [IoSlice::new(bytes)]).is_err() {
                return self.fail();
            }
        }
    }

    fn receive(&self) {
        while let Some(Place(ptr, len)) = self.places.take(&self.over) {
            // SAFETY: `expect` hands the memory over until `landed`.
            let bytes = unsafe { std::slice::from_raw_parts_mut(ptr, len) };
            let filled = self.fill(bytes).is_ok();
            if !filled {
                self.fail();
            }
            self.filled.put(filled);
        }
    }

    fn fill(&self, mut bytes: &mut [u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            if self.over.load(Ordering::Acquire) {
                return Err(ErrorKind::ConnectionAborted.into());
            }
            let most = patience().after;
            let mut got = Ok(None);
            look(most, || {
                got = self.conn.try_recv(bytes);
                !matches!(got, Ok(None))
            });
            let n = match got? {
                Some(n) => n,
                None => self.conn.recv(bytes)?,
            };
            if n == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            self.received.fetch_add(n as u64, Ordering::Relaxed);
            bytes = &mut bytes[n..];
        }
        Ok(())
    }
}

impl Inner {
    /// The side connection of `main`, if that is the present connection and has one.
    pub(crate) fn side_of(&self, main: &Arc<dyn Connection>) -> Option<Arc<Side>> {
        let link = lock(&self.link);
        let present = link.conn.as_ref().is_some_and(|c| Arc::ptr_eq(c, main));
        link.side.clone().filter(|_| present)
    }

    /// See [`crate::Channel::offer_side`].
    pub(crate) fn offer_side(&self, conn: Arc<dyn Connection>) -> u64 {
        let mut link = lock(&self.link);
        link.offers += 1;
        let number = link.offers;
        if !self.signals.is_closed.load(Ordering::Acquire) {
            link.offered = Some((number, conn));
        }
        number
    }

    /// See [`crate::Channel::attach_side`].
    pub(crate) fn attach_side(
        &self,
        conn: Arc<dyn Connection>,
        number: u64,
        main: u64,
    ) -> io::Result<()> {
        let mut link = lock(&self.link);
        let main = match &link.conn {
            Some(conn) if link.number == main => conn.clone(),
            _ => return Err(ErrorKind::NotConnected.into()),
        };
        if link.side.is_some() {
            return Err(ErrorKind::AlreadyExists.into());
        }
        link.side = Some(Side::start(conn, main, number, false)?);
        drop(link);
        self.notify();
        Ok(())
    }

    /// The peer has named a side connection on `main`: one that this end has there, or one that was
    /// offered for it. Of anything else nothing is to be said: it has gone, and will not be used.
    pub(crate) fn side_named(&self, main: &Arc<dyn Connection>, number: u64) {
        let mut link = lock(&self.link);
        if link.conn.as_ref().is_none_or(|c| !Arc::ptr_eq(c, main)) {
            return;
        }
        if let Some(side) = &link.side {
            if side.number == number {
                side.heard.store(true, Ordering::Release);
            }
            return;
        }
        let Some((_, conn)) = link.offered.take_if(|(n, _)| *n == number) else {
            return;
        };
        // Without threads for it there is none, and the peer is not told of any.
        link.side = Side::start(conn, main.clone(), number, true).ok();
    }
}

impl Link {
    /// The main connection is gone or about to be replaced.
    pub(crate) fn drop_side(&mut self) {
        if let Some(side) = self.side.take() {
            side.shut();
        }
    }
}
