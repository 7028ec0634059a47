//! A session's side connections, which carry parts of each long frame where the network is fast.
//!
//! One TCP stream moves what one core at each end can copy, or encrypt. With more streams more
//! cores do at a time. A frame that is sent so says it in its header; the last parts of its bytes
//! come over side connections, one over each, everything else over the main one. All are read in
//! order, and a frame has arrived when all parts have, so nothing else changes: not the order, not
//! what is acknowledged, not what is sent again.
//!
//! A side connection belongs to one main connection, and the two ends must agree on which, and on
//! their order: a part that is read into another frame, or place, would be wrong bytes in a
//! program's memory. `wire::session` pairs them, and says whether a main connection is lost with a
//! side connection. Here are the threads that move the bytes.

use super::prelude::*;
use crate::frames::Frame;
use crate::gate::{Gate, Wait};
use crate::thread::spawn;
use crate::watch::{look, patience};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::sync::atomic::AtomicUsize;

/// Things for one thread to take, in order.
struct Inbox<T> {
    list: Mutex<List<T>>,
    count: AtomicUsize,
    came: Gate,
}

struct List<T> {
    things: VecDeque<T>,
    /// Nobody takes anything any more.
    closed: bool,
}

impl<T> Inbox<T> {
    fn new(name: &'static str) -> Self {
        Self {
            list: Mutex::new(List {
                things: VecDeque::new(),
                closed: false,
            }),
            count: AtomicUsize::new(0),
            came: Gate::new(name),
        }
    }

    /// Whether somebody will take it.
    fn put(&self, thing: T) -> bool {
        let mut list = lock(&self.list);
        if list.closed {
            return false;
        }
        list.things.push_back(thing);
        self.count.store(list.things.len(), Ordering::Release);
        drop(list);
        self.came.open();
        true
    }

    /// The next thing. `None` when it does not come within the wait, or when `over` is set and
    /// nothing is left; then this is closed.
    fn take(&self, wait: &Wait, most: Duration, over: Option<&AtomicBool>) -> Option<T> {
        let ended = || over.is_some_and(|o| o.load(Ordering::Acquire));
        let came = || self.count.load(Ordering::Acquire) > 0 || ended();
        look(patience().after.min(most), came);
        self.came.wait(wait, came);
        let mut list = lock(&self.list);
        let thing = list.things.pop_front();
        list.closed = thing.is_none() && ended();
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
}

const IDLE: Wait = Wait::idle("a side connection's thread");
const DUE: Wait = Wait::due("the receiving thread");

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
    /// Tells the session that it does not have this one any more. Whether the main one is lost with
    /// it.
    lost: Box<dyn Fn() -> bool + Send + Sync>,
    over: AtomicBool,
    /// Bytes received.
    received: AtomicU64,
    out: Inbox<Piece>,
    places: Inbox<Place>,
    filled: Inbox<bool>,
}

impl Side {
    pub(crate) fn start(
        conn: Arc<dyn Connection>,
        main: Arc<dyn Connection>,
        lost: Box<dyn Fn() -> bool + Send + Sync>,
    ) -> io::Result<Arc<Self>> {
        let side = Arc::new(Self {
            conn,
            main,
            lost,
            over: AtomicBool::new(false),
            received: AtomicU64::new(0),
            out: Inbox::new("halves to send"),
            places: Inbox::new("halves to receive"),
            filled: Inbox::new("the other half of a frame"),
        });
        let s = side.clone();
        spawn("busbar-side-out".into(), move || s.send())?;
        let s = side.clone();
        // A thread that was started ends by this, too.
        spawn("busbar-side-in".into(), move || s.receive()).inspect_err(|_| side.shut())?;
        Ok(side)
    }

    /// Sends `len` bytes at `ptr` of what a frame borrows.
    pub(crate) fn part(&self, frame: &Arc<Frame>, ptr: *const u8, len: usize) {
        let sent = self.out.put(Piece {
            ptr,
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
        if !self.places.put(Place(ptr, len)) {
            self.filled.put(false);
        }
    }

    /// Waits for what was expected; an error when it will not come, or nothing does in `ticks`
    /// waits of a `tick` each. In short waits, since time in which this process stands still counts
    /// for one of them.
    pub(crate) fn landed(&self, tick: Option<Duration>, ticks: u32) -> io::Result<()> {
        if let Some(tick) = tick {
            let (mut before, mut silent) = (self.received.load(Ordering::Relaxed), 0);
            while silent < ticks {
                if let Some(filled) = self.filled.take(&DUE.within(tick), tick, None) {
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
        match self.filled.take(&DUE, Duration::MAX, None) {
            Some(true) => Ok(()),
            _ => Err(ErrorKind::ConnectionAborted.into()),
        }
    }

    /// Ends it, and its threads.
    pub(crate) fn shut(&self) {
        self.over.store(true, Ordering::SeqCst);
        self.conn.shutdown();
        self.out.came.open();
        self.places.came.open();
    }

    fn fail(&self) {
        self.shut();
        if (self.lost)() {
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
        while let Some(p) = self.out.take(&IDLE, Duration::MAX, Some(&self.over)) {
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
        let next = || self.places.take(&IDLE, Duration::MAX, Some(&self.over));
        while let Some(Place(ptr, len)) = next() {
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
