//! Queueing and sending.

use crate::frames::{Bulk, Frame, Sent, Spares, Spent};
use crate::lanes::{self, soon};
use crate::side::{self, Side};
use crate::switches::Switch;
use crate::watch::{look, patience};
use crate::{Channel, Closed, Inner, Link, lock};
use busbar_transport::Connection;
use busbar_wire::frame::{self, Kind};
use busbar_wire::{limits, record};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// A frame body is closed at this size, so that sending starts while the producer goes on.
const SEAL: usize = 32 << 10;
/// Frames put into one system call.
const BATCH: usize = 16;
/// What has gathered up to this size is copied into a frame: the lane keeps its buffer, which is in
/// its processor's cache, and the frame its own.
const COPIED: usize = 4 << 10;
/// A data segment of at least this many bytes is not copied when the caller can keep it in place.
const BORROW_FROM: usize = 16 << 10;

/// Bulk bytes up to here are sent by their producer while the sending thread wakes up.
const AT_ONCE: usize = 128 << 10;

/// A place in what is queued: see [`Channel::mark`].
#[derive(Debug, Clone, Copy)]
pub struct Mark(u64);

/// Records that have been collected from the lanes and are not in the window yet.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Tail {
    /// Records with bulk bytes, which have never been in a lane.
    bulky: u64,
    buf: Vec<u8>,
    sealed: VecDeque<Arc<Frame>>,
    spares: Spares,
    /// The lanes were left alone, because the window is full.
    held: bool,
}

impl Tail {
    fn seal_if_long(&mut self) {
        if self.buf.len() >= SEAL {
            self.seal();
        }
    }

    /// Moves everything into the window, where it gets its numbers.
    fn enter(&mut self, link: &mut Link) {
        self.seal();
        while let Some(f) = self.sealed.pop_front() {
            let n = f.len();
            link.window.push(Sent::new(f), n);
        }
    }

    fn seal(&mut self) {
        if !self.buf.is_empty() {
            let frame = self.spares.seal(&mut self.buf);
            self.sealed.push_back(frame);
        }
    }
}

/// What one system call is to send.
struct Batch {
    conn: Arc<dyn Connection>,
    side: Option<Arc<Side>>,
    /// Frames of the window, with their numbers.
    frames: Vec<(u64, Arc<Frame>)>,
}

/// What the sending thread's futex says.
const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;
/// It has been woken, and its core may take a while.
const WAKING: u32 = 2;

/// Writes the header of a record of `len` bytes into the place that was left for it.
#[inline]
fn head(record: &mut [u8], len: usize, op: u16, call: u32, aux: u32) {
    let h = record::Header {
        len: len as u32,
        op,
        flags: 0,
        call,
        aux,
    };
    record[..record::HEADER].copy_from_slice(&h.to_bytes());
}

impl Channel {
    /// Queues one record, which is sent soon. `fields` appends the payload. Returns once the record
    /// is queued, which waits only while more than the window's worth of bytes is not acknowledged,
    /// and the calling thread's lane is full besides.
    #[inline]
    pub fn push(
        &self,
        op: u16,
        call: u32,
        aux: u32,
        fields: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), Closed> {
        self.put(op, call, aux, fields)?;
        self.inner.notify_small();
        Ok(())
    }

    /// As [`Channel::push`], but nobody is told: [`Channel::flush`] sends it.
    #[inline]
    pub fn put(
        &self,
        op: u16,
        call: u32,
        aux: u32,
        fields: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), Closed> {
        let inner = &*self.inner;
        inner.check()?;
        let staged = inner.lanes.put(|buf| {
            let start = buf.len();
            buf.extend_from_slice(&[0; record::HEADER]);
            fields(buf);
            let len = buf.len() - start;
            debug_assert!(len <= limits::MAX_FRAME_BODY);
            head(&mut buf[start..], len, op, call, aux);
        });
        if staged >= lanes::FULL || !Switch::Gather.on() {
            inner.collect()?;
        }
        Ok(())
    }

    /// Queues one record whose payload ends in bulk bytes, to be sent soon. The record has a frame
    /// of its own, so that its receiver can place the bytes where they belong without another copy.
    pub fn push_bulk(
        &self,
        op: u16,
        call: u32,
        aux: u32,
        fields: impl FnOnce(&mut Vec<u8>),
        bulk: Bulk<'_>,
    ) -> Result<(), Closed> {
        let small = bulk.len() <= AT_ONCE;
        self.put_bulk(op, call, aux, fields, bulk)?;
        if small {
            self.inner.notify_small();
        } else {
            self.inner.notify();
        }
        Ok(())
    }

    /// As [`Channel::push_bulk`], but nobody is told: [`Channel::flush`] sends it.
    pub fn put_bulk(
        &self,
        op: u16,
        call: u32,
        aux: u32,
        fields: impl FnOnce(&mut Vec<u8>),
        bulk: Bulk<'_>,
    ) -> Result<(), Closed> {
        let inner = &*self.inner;
        let n = bulk.len();
        let mut body = match bulk {
            Bulk::Copy(_) if n > 4 * SEAL => {
                let mut b = lock(&inner.tail).spares.bulk();
                b.reserve(n + 256);
                b
            }
            Bulk::Copy(_) => Vec::with_capacity(n + 256),
            _ => Vec::with_capacity(256),
        };
        body.extend_from_slice(&[0; record::HEADER]);
        fields(&mut body);
        let len = body.len() + n;
        debug_assert!(len <= limits::MAX_FRAME_BODY);
        head(&mut body, len, op, call, aux);
        let mut keep = None;
        let in_place = n >= BORROW_FROM && Switch::Borrow.on();
        let borrowed = match bulk {
            Bulk::Borrow(p, n) if in_place => Some((p, n)),
            Bulk::Shared(p, n, k) if in_place => {
                keep = Some(k.clone());
                Some((p, n))
            }
            Bulk::Borrow(p, n) | Bulk::Shared(p, n, _) => {
                // SAFETY: the caller vouches for `n` readable bytes at `p`.
                body.extend_from_slice(unsafe { std::slice::from_raw_parts(p, n) });
                None
            }
            Bulk::Copy(b) => {
                body.extend_from_slice(b);
                None
            }
        };
        // Borrowed bytes cost no memory of ours, but count: an endless producer must be slowed.
        let mut tail = inner.wait_for_room(lock(&inner.tail))?;
        inner.collect_into(&mut tail);
        tail.seal();
        inner.add_in_flight(&tail, len);
        tail.bulky += 1;
        tail.sealed.push_back(Arc::new(Frame {
            body,
            borrowed,
            _keep: keep,
        }));
        Ok(())
    }

    /// How many records have been queued so far. A record is counted in the same step in which it
    /// gets its place in the order.
    pub fn records(&self) -> u64 {
        let tail = soon(&self.inner.tail);
        tail.bulky + self.inner.lanes.records()
    }

    /// Sends what is queued from this thread; if another is at it already, that one does. Called
    /// before waiting for a reply: it saves the hand-over to the sending thread.
    pub fn flush(&self) {
        if !self.try_send() {
            self.inner.wake();
        }
    }

    /// Waits until the peer has everything that was queued before the call.
    pub fn drain(&self) -> Result<(), Closed> {
        self.received(self.mark())
    }

    /// What has been queued so far, for [`Channel::received`].
    pub fn mark(&self) -> Mark {
        let inner = &*self.inner;
        let mut tail = lock(&inner.tail);
        inner.collect_into(&mut tail);
        let mut link = lock(&inner.link);
        tail.enter(&mut link);
        let seq = link.window.last();
        drop(link);
        drop(tail);
        // The sending thread, or whoever is at it, may have found nothing before.
        inner.notify();
        Mark(seq)
    }

    /// Waits until the peer has everything up to a mark.
    pub fn received(&self, Mark(seq): Mark) -> Result<(), Closed> {
        let inner = &*self.inner;
        let most = patience().waiting;
        let arrived = || inner.acked.load(Ordering::Acquire) >= seq;
        let over = || inner.signals.is_closed.load(Ordering::Acquire);
        // Whoever is sending sends this, too, or leaves it to us.
        look(most, || arrived() || over() || self.try_send());
        self.flush();
        let _expecting = self.expect();
        // An answer to a ping is lost with its connection, so each connection is asked.
        let mut asked = None::<Arc<dyn Connection>>;
        loop {
            inner.check()?;
            if arrived() {
                return Ok(());
            }
            let resumed = inner.counters.resumed.load(Ordering::Relaxed);
            {
                let link = lock(&inner.link);
                if !link.window.has_next()
                    && let Some(conn) = link.conn.clone()
                {
                    drop(link);
                    if !asked.as_ref().is_some_and(|a| Arc::ptr_eq(a, &conn)) {
                        inner.ping(&conn);
                        asked = Some(conn);
                    }
                }
            }
            let other = || inner.counters.resumed.load(Ordering::Relaxed) != resumed;
            if asked.is_some() && look(most, || arrived() || over() || other()) {
                continue;
            }
            let tail = lock(&inner.tail);
            drop(inner.room.wait_timeout(tail, Duration::from_millis(20)));
        }
    }

    /// As [`Channel::flush`]; says whether this thread has sent what there was.
    fn try_send(&self) -> bool {
        let role = self.inner.sender.try_lock();
        role.map(|_role| self.inner.pump()).is_ok()
    }
}

impl Inner {
    /// Brings what is in the lanes into one order. Waits while the window is full.
    #[cold]
    fn collect(&self) -> Result<(), Closed> {
        let mut tail = self.wait_for_room(lock(&self.tail))?;
        self.collect_into(&mut tail);
        if !Switch::Gather.on() {
            tail.seal();
        }
        Ok(())
    }

    fn collect_into(&self, tail: &mut Tail) {
        tail.held = false;
        // Both closures add to it, one at a time.
        let tail = RefCell::new(tail);
        let newer = self.lanes.collect(
            |batch| {
                let mut tail = tail.borrow_mut();
                let free = tail.buf.is_empty();
                if free {
                    self.add_in_flight(&tail, batch.len());
                    if batch.len() <= COPIED {
                        tail.buf.extend_from_slice(batch);
                    } else {
                        std::mem::swap(&mut tail.buf, batch);
                    }
                    tail.seal_if_long();
                }
                free
            },
            |record| {
                let mut tail = tail.borrow_mut();
                self.add_in_flight(&tail, record.len());
                if tail.buf.len() + record.len() > limits::MAX_FRAME_BODY {
                    tail.seal();
                }
                tail.buf.extend_from_slice(record);
                tail.seal_if_long();
            },
        );
        if newer {
            self.signals.pending.store(true, Ordering::Release);
        }
    }

    /// Blocks while the window is full.
    fn wait_for_room<'a>(
        &'a self,
        mut tail: MutexGuard<'a, Tail>,
    ) -> Result<MutexGuard<'a, Tail>, Closed> {
        loop {
            self.check()?;
            if self.in_flight.load(Ordering::Acquire) <= limits::WINDOW_BYTES {
                return Ok(tail);
            }
            self.wake();
            let wait = Duration::from_millis(50);
            tail = self
                .room
                .wait_timeout(tail, wait)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// Asks the peer how far it is.
    pub(crate) fn ping(&self, conn: &Arc<dyn Connection>) {
        let _role = lock(&self.sender);
        // Whether the connection is any good is for others to find.
        let _ = self.bare(conn, Kind::Ping, 0, 0, 0);
    }

    /// Sends a frame that is its header and nothing else.
    fn bare(
        &self,
        conn: &Arc<dyn Connection>,
        kind: Kind,
        flags: u8,
        seq: u64,
        ack: u64,
    ) -> io::Result<()> {
        let h = frame::Header {
            len: 0,
            kind,
            flags,
            seq,
            ack,
        };
        let h = h.to_bytes();
        conn.send(&mut [IoSlice::new(&h)])?;
        let n = h.len() as u64;
        self.counters.sent.fetch_add(n, Ordering::Relaxed);
        Ok(())
    }

    /// Counts bytes in. Only ever changed under the tail's lock, so no atomic addition is needed.
    #[inline]
    fn add_in_flight(&self, _tail: &Tail, len: usize) {
        let n = self.in_flight.load(Ordering::Relaxed);
        self.in_flight.store(n + len, Ordering::Release);
    }

    /// As `notify`, where there is little to send. Until the sending thread has woken up, which may
    /// take longer than the network does, callers send it themselves, and that before they wake it:
    /// even that takes microseconds.
    #[inline]
    fn notify_small(&self) {
        if self.announce() != AWAKE {
            if let Ok(_role) = self.sender.try_lock() {
                self.pump();
            }
            self.wake();
        }
    }

    /// Tells the sending thread that there is something to send.
    #[inline]
    pub(crate) fn notify(&self) {
        if self.announce() == ASLEEP {
            self.wake();
        }
    }

    /// Says that there is something to send. Returns whether the sending thread sleeps.
    #[inline]
    fn announce(&self) -> u32 {
        // Left alone when it is set: whoever clears it takes the tail's lock afterwards, and so
        // finds what was queued before this look at it.
        if !self.signals.pending.load(Ordering::Relaxed) {
            self.signals.pending.store(true, Ordering::Release);
        }
        // Pairs with the fence in `sleep`: either we see it asleep or it sees `pending`.
        fence(Ordering::SeqCst);
        self.signals.asleep.load(Ordering::Relaxed)
    }

    #[cold]
    pub(crate) fn wake(&self) {
        self.signals.pending.store(true, Ordering::Release);
        fence(Ordering::SeqCst);
        if self
            .signals
            .asleep
            .compare_exchange(ASLEEP, WAKING, Ordering::SeqCst, Ordering::SeqCst)
            .is_err()
        {
            return;
        }
        // SAFETY: a futex wake on a live, aligned u32.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.signals.asleep.as_ptr(),
                libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
                1,
            );
        }
    }

    fn sleep(&self) {
        self.signals.asleep.store(ASLEEP, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        while self.signals.asleep.load(Ordering::SeqCst) == ASLEEP
            && !self.signals.pending.load(Ordering::Acquire)
            && !self.signals.is_closed.load(Ordering::Acquire)
        {
            // SAFETY: a futex wait on a live, aligned u32; no time-out.
            unsafe {
                libc::syscall(
                    libc::SYS_futex,
                    self.signals.asleep.as_ptr(),
                    libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
                    ASLEEP,
                    std::ptr::null::<libc::timespec>(),
                );
            }
        }
        self.signals.asleep.store(AWAKE, Ordering::SeqCst);
    }

    /// Sends until nothing is left or the connection is gone. The caller holds the sender's role.
    fn pump(&self) {
        loop {
            self.signals.pending.store(false, Ordering::Release);
            // What is put down too late to be collected here sets `pending` again.
            fence(Ordering::SeqCst);
            let Some(Batch { conn, side, frames }) = self.next_batch() else {
                return;
            };
            match self.send_batch(&conn, side.as_deref(), frames) {
                Ok(true) => {}
                Ok(false) if self.signals.pending.load(Ordering::Acquire) => {}
                Ok(false) => return,
                Err(e) => {
                    // Another connection would find no more there.
                    if e.raw_os_error() == Some(libc::EFAULT) {
                        let why = "memory that was to be sent cannot be read";
                        self.end(Closed(why.into()));
                    }
                    self.broken(&conn);
                    return;
                }
            }
        }
    }

    /// What is to be sent next, and over what; `None` without a connection.
    fn next_batch(&self) -> Option<Batch> {
        let mut tail = lock(&self.tail);
        if self.in_flight.load(Ordering::Relaxed) <= limits::WINDOW_BYTES {
            self.collect_into(&mut tail);
        } else {
            tail.held = true;
        }
        let mut link = lock(&self.link);
        tail.enter(&mut link);
        drop(tail);
        let conn = link.conn.clone()?;
        let most = if Switch::Gather.on() { BATCH } else { 1 };
        let mut frames = Vec::with_capacity(most);
        while frames.len() < most
            && let Some((seq, f)) = link.window.take_next()
        {
            frames.push((seq, f.frame.clone()));
        }
        let side = link.side.clone();
        Some(Batch { conn, side, frames })
    }

    /// Sends a batch, or an acknowledgement that is due when there are no frames to carry it.
    /// Returns whether anything was sent.
    fn send_batch(
        &self,
        conn: &Arc<dyn Connection>,
        side: Option<&Side>,
        frames: Vec<(u64, Arc<Frame>)>,
    ) -> io::Result<bool> {
        let ack = self.cursor_last.load(Ordering::Acquire);
        if let Some(number) = side.and_then(Side::to_name) {
            self.bare(conn, Kind::Ping, frame::SIDE, number, ack)?;
        }
        let asks = self.ping_due.swap(false, Ordering::AcqRel);
        if asks {
            self.bare(conn, Kind::Ping, 0, 0, ack)?;
        }
        let ack_due = self.ack_due.swap(false, Ordering::AcqRel);
        if !frames.is_empty() {
            self.send_frames(conn, side.filter(|s| s.ready()), &frames, ack)?;
        } else if ack_due {
            self.bare(conn, Kind::Ack, 0, 0, ack)?;
        } else {
            return Ok(asks);
        }
        self.ack_sent.fetch_max(ack, Ordering::Relaxed);
        Ok(true)
    }

    /// Sends frames in one system call, and their shares of it over the side connection.
    fn send_frames(
        &self,
        conn: &Arc<dyn Connection>,
        side: Option<&Side>,
        frames: &[(u64, Arc<Frame>)],
        ack: u64,
    ) -> io::Result<()> {
        // How many of a frame's last bytes take the side connection.
        let aside = |f: &Frame| match (side, f.borrowed) {
            (Some(_), Some(_)) if f.len() >= side::FROM => side::share(f.len()),
            _ => 0,
        };
        let headers: Vec<_> = frames
            .iter()
            .map(|(seq, f)| {
                frame::Header {
                    len: f.len() as u32,
                    kind: Kind::Data,
                    flags: if aside(f) > 0 { frame::SIDE } else { 0 },
                    seq: *seq,
                    ack,
                }
                .to_bytes()
            })
            .collect();
        let mut parts = Vec::with_capacity(3 * frames.len());
        let mut total = 0;
        for (h, (_, f)) in headers.iter().zip(frames) {
            parts.push(IoSlice::new(h));
            parts.push(IoSlice::new(&f.body));
            if let Some((p, n)) = f.borrowed {
                let k = aside(f);
                if let (Some(side), 1..) = (side, k) {
                    side.part(f, p.wrapping_add(n), k);
                    self.counters.aside.fetch_add(k as u64, Ordering::Relaxed);
                }
                // SAFETY: `Bulk::Borrow` keeps these bytes readable until the frame is
                // acknowledged, and we hold the frame. A frame's share of the side connection is
                // less than what it borrows.
                parts.push(IoSlice::new(unsafe {
                    std::slice::from_raw_parts(p, n - k)
                }));
            }
            total += h.len() + f.len();
        }
        conn.send(&mut parts)?;
        self.counters
            .sent
            .fetch_add(total as u64, Ordering::Relaxed);
        Ok(())
    }

    /// The peer has everything up to `seq`. Returns how many bytes that frees.
    pub(crate) fn acknowledged(
        &self,
        seq: u64,
        spent: &mut Spent,
    ) -> Result<usize, busbar_wire::WireError> {
        // Only the receiving thread, which calls this, ever changes it.
        if seq <= self.acked.load(Ordering::Relaxed) {
            return Ok(0);
        }
        let mut freed = 0;
        lock(&self.link).window.acked(seq, |f, n| {
            freed += n;
            spent.add(f);
        })?;
        self.acked.store(seq, Ordering::Release);
        spent.let_go();
        self.made_room(freed);
        Ok(freed)
    }

    /// The peer has so many bytes more.
    pub(crate) fn made_room(&self, freed: usize) {
        let tail = lock(&self.tail);
        let before = self.in_flight.load(Ordering::Relaxed);
        self.in_flight.store(before - freed, Ordering::Release);
        let held = tail.held;
        drop(tail);
        if held {
            self.notify();
        }
        if freed > 0 && before > 0 {
            self.room.notify_all();
        }
    }

    /// Keeps frames for other records.
    pub(crate) fn reuse(&self, spent: impl Iterator<Item = Arc<Frame>>) {
        let mut surplus = Vec::new();
        let mut tail = lock(&self.tail);
        surplus.extend(spent.filter_map(|f| tail.spares.put(f)));
        drop(tail);
        drop(surplus);
    }
}

/// How the sending thread passes the time between records.
struct Pace {
    spin: Duration,
    nap: Duration,
    nap_for: Duration,
}

fn pace() -> &'static Pace {
    static PACE: OnceLock<Pace> = OnceLock::new();
    PACE.get_or_init(|| Pace {
        spin: patience().after.min(Duration::from_micros(30)),
        nap: Duration::from_micros(20),
        nap_for: Duration::from_millis(u64::from(Switch::Poll.on())),
    })
}

/// The sending thread.
pub(crate) fn run(inner: &Inner) {
    // SAFETY: plain prctl; sleeps of some microseconds need the finest timer slack.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
    let pace = pace();
    while !inner.signals.is_closed.load(Ordering::Acquire) {
        {
            let _role = lock(&inner.sender);
            inner.pump();
        }
        let idle = Instant::now();
        loop {
            if inner.signals.pending.load(Ordering::Acquire)
                || inner.signals.is_closed.load(Ordering::Acquire)
            {
                break;
            }
            let t = idle.elapsed();
            if t < pace.spin {
                for _ in 0..32 {
                    std::hint::spin_loop();
                }
            } else if t < pace.nap_for {
                std::thread::sleep(pace.nap);
            } else {
                inner.sleep();
                break;
            }
        }
        // Without a connection there is nothing to do until one comes, and that wakes us.
        if lock(&inner.link).conn.is_none() && !inner.signals.is_closed.load(Ordering::Acquire) {
            inner.signals.pending.store(false, Ordering::Release);
            let tail = lock(&inner.tail);
            drop(inner.room.wait_timeout(tail, Duration::from_millis(5)));
            inner.signals.pending.store(true, Ordering::Release);
        }
    }
}
