//! Queueing and sending.

use super::prelude::*;
use crate::frames::{Bulk, Frame};
use crate::gate::Wait;
use crate::inner::{Channel, Closed, Inner};
use crate::lanes::{self, soon};
use crate::outgoing::{Outgoing, SEAL};
use crate::side::Side;
use crate::switches::Switch;
use crate::watch::{look, patience};
use busbar_transport::Path;
use busbar_wire::frame::HEADER;
use busbar_wire::session::Aside;
use busbar_wire::{limits, record};
use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::sync::MutexGuard;

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
pub struct Mark(pub(crate) u64);

/// What one system call is to send.
struct Batch {
    conn: Arc<dyn Connection>,
    epoch: u64,
    /// What the ends of some frames go over.
    sides: Vec<Arc<Side>>,
    parts: Vec<Part>,
}

/// A frame with its header, or a header alone.
struct Part {
    header: [u8; HEADER],
    frame: Option<Arc<Frame>>,
    aside: Aside,
}

/// Writes the header of a record of `len` bytes into the place that was left for it.
#[inline]
fn head(record: &mut [u8], len: usize, op: u32, call: u32, aux: u32) {
    let h = record::Header {
        len: len as u32,
        op: op as u16,
        api: (op >> 16) as u16,
        call,
        aux,
    };
    record[..record::HEADER].copy_from_slice(&h.to_bytes());
}

/// Whether the peer executes a record in its turn: those of the session itself go ahead of the
/// queue, and change nothing of what is known of that.
#[inline]
const fn is_counted(op: u16) -> bool {
    op < record::RESERVED
}

impl Channel {
    /// Queues one record, which is sent soon. `fields` appends the payload. Returns once the record
    /// is queued, which waits only while more than the window's worth of bytes is not acknowledged,
    /// and the calling thread's lane is full besides. An `op` of more than 16 bits has the number
    /// of its API above them.
    #[inline]
    pub fn push(
        &self,
        op: impl Into<u32>,
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
        op: impl Into<u32>,
        call: u32,
        aux: u32,
        fields: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), Closed> {
        let (inner, op) = (&*self.inner, op.into());
        inner.check()?;
        let staged = inner.lanes.put(is_counted(op as u16), |buf| {
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
        op: impl Into<u32>,
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
        op: impl Into<u32>,
        call: u32,
        aux: u32,
        fields: impl FnOnce(&mut Vec<u8>),
        bulk: Bulk<'_>,
    ) -> Result<(), Closed> {
        let (inner, op) = (&*self.inner, op.into());
        let n = bulk.len();
        let mut body = match bulk {
            Bulk::Copy(_) if n > 4 * SEAL => {
                let mut b = lock(&inner.outgoing).spares.bulk();
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
        let split = borrowed.is_some();
        let frame = Arc::new(Frame {
            body,
            borrowed,
            _keep: keep,
        });
        // Borrowed bytes cost no memory of ours, but count: an endless producer must be slowed.
        let mut out = inner.wait_for_room(lock(&inner.outgoing))?;
        inner.collect_into(&mut out);
        out.seal();
        out.bulky += u64::from(is_counted(op as u16));
        out.session.push(frame, len, split);
        Ok(())
    }

    /// How many records have been queued so far that the peer executes in their turn. A record is
    /// counted in the same step in which it gets its place in the order.
    pub fn records(&self) -> u64 {
        let out = soon(&self.inner.outgoing);
        out.bulky + self.inner.lanes.records()
    }

    /// Sends what is queued from this thread; if another is at it already, that one does. Called
    /// before waiting for a reply: it saves the hand-over to the sending thread.
    pub fn flush(&self) {
        if !self.try_send() {
            self.inner.wake();
        }
    }

    /// What has been queued so far, for [`Channel::received`].
    pub fn mark(&self) -> Mark {
        let inner = &*self.inner;
        let mut out = lock(&inner.outgoing);
        inner.collect_into(&mut out);
        out.seal();
        let seq = out.session.last();
        drop(out);
        // The sending thread, or whoever is at it, may have found nothing before.
        inner.notify();
        Mark(seq)
    }

    /// Up to where the peer must have received before it has all that is sent from where it lies of
    /// `len` bytes at `p`; none when it has.
    pub fn lent(&self, p: u64, len: u64) -> Option<Mark> {
        let out = lock(&self.inner.outgoing);
        let last = out.session.last_of(|f| f.borrows(p, len));
        last.map(Mark)
    }

    /// Whether the peer is known to have everything up to a mark.
    pub fn has_received(&self, Mark(seq): Mark) -> bool {
        self.inner.board.acked() >= seq
    }

    /// Waits until the peer has everything up to a mark.
    pub fn received(&self, Mark(seq): Mark) -> Result<(), Closed> {
        let inner = &*self.inner;
        let most = patience().waiting;
        let arrived = || inner.board.acked() >= seq;
        let over = || inner.is_over();
        lock(&inner.outgoing).session.want(seq);
        // Whoever is sending sends this, too, or leaves it to us.
        look(most, || arrived() || over() || self.try_send());
        self.flush();
        let _expecting = self.expect();
        loop {
            inner.check()?;
            if arrived() {
                return Ok(());
            }
            let resumed = inner.counters.resumed.load(Ordering::Relaxed);
            let other = || inner.counters.resumed.load(Ordering::Relaxed) != resumed;
            let asked = lock(&inner.outgoing).session.has_asked(seq);
            if asked && look(most, || arrived() || over() || other()) {
                continue;
            }
            let mut wait = Wait::due("whoever lends memory");
            if !asked {
                // It is, as soon as all has been sent.
                wait = wait.within(Duration::from_millis(20));
            }
            let more = || arrived() || over() || other();
            inner.progress.wait(&wait, more);
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
        let mut out = self.wait_for_room(lock(&self.outgoing))?;
        self.collect_into(&mut out);
        if !Switch::Gather.on() {
            out.seal();
        }
        Ok(())
    }

    fn collect_into(&self, out: &mut Outgoing) {
        out.held = false;
        // Both closures add to it, one at a time.
        let out = RefCell::new(out);
        let newer = self.lanes.collect(
            |batch| {
                let mut out = out.borrow_mut();
                let free = out.buf.is_empty();
                if free {
                    if batch.len() <= COPIED {
                        out.buf.extend_from_slice(batch);
                    } else {
                        std::mem::swap(&mut out.buf, batch);
                    }
                    out.seal_if_long();
                }
                free
            },
            |record| {
                let mut out = out.borrow_mut();
                if out.buf.len() + record.len() > limits::MAX_FRAME_BODY {
                    out.seal();
                }
                out.buf.extend_from_slice(record);
                out.seal_if_long();
            },
        );
        if newer {
            self.signals.pending.store(true, Ordering::Release);
        }
    }

    /// Blocks while the window is full.
    fn wait_for_room<'a>(
        &'a self,
        mut out: MutexGuard<'a, Outgoing>,
    ) -> Result<MutexGuard<'a, Outgoing>, Closed> {
        loop {
            self.check()?;
            if out.has_room() {
                return Ok(out);
            }
            let seen = self.board.acked();
            drop(out);
            self.wake();
            let over = || self.is_over();
            let more = || self.board.acked() > seen || over();
            self.progress.wait(&Wait::due("a queued call"), more);
            out = lock(&self.outgoing);
        }
    }

    /// As `notify`, where there is little to send. Until the sending thread has woken up, which may
    /// take longer than the network does, callers send it themselves, and that before they wake it:
    /// even that takes microseconds.
    #[inline]
    fn notify_small(&self) {
        if self.announce() {
            if let Ok(_role) = self.sender.try_lock() {
                self.pump();
            }
            self.wake();
        }
    }

    /// Sends until nothing is left or the connection is gone. The caller holds the sender's role.
    fn pump(&self) {
        loop {
            self.signals.pending.store(false, Ordering::Release);
            // What is put down too late to be collected here sets `pending` again.
            fence(Ordering::SeqCst);
            let Some(batch) = self.next_batch() else {
                return;
            };
            if batch.parts.is_empty() {
                if self.signals.pending.load(Ordering::Acquire) {
                    continue;
                }
                return;
            }
            if let Err(e) = self.send_batch(&batch) {
                // Another connection would find no more there.
                if e.raw_os_error() == Some(libc::EFAULT) {
                    let why = "memory that was to be sent cannot be read";
                    self.end(Closed(why.into()));
                }
                self.broken(&batch.conn, batch.epoch);
                return;
            }
        }
    }

    /// What is to be sent next, and over what; `None` without a connection.
    fn next_batch(&self) -> Option<Batch> {
        let mut out = lock(&self.outgoing);
        if out.has_room() {
            self.collect_into(&mut out);
        } else {
            out.held = true;
        }
        out.seal();
        let conn = out.conn.clone()?;
        let most = if Switch::Gather.on() { BATCH } else { 1 };
        let (mut parts, mut split) = (Vec::new(), false);
        while parts.len() < most
            && let Some(t) = out.session.poll()
        {
            split |= t.aside.sides > 0;
            parts.push(Part {
                header: t.header.to_bytes(),
                frame: t.frame.cloned(),
                aside: t.aside,
            });
        }
        Some(Batch {
            conn,
            epoch: out.session.epoch(),
            sides: if split { out.sides.clone() } else { Vec::new() },
            parts,
        })
    }

    /// Sends a batch in one system call, and the ends of some frames over side connections.
    fn send_batch(&self, batch: &Batch) -> io::Result<()> {
        let mut slices = Vec::with_capacity(3 * batch.parts.len());
        let mut total = 0;
        for part in &batch.parts {
            slices.push(IoSlice::new(&part.header));
            total += HEADER;
            let Some(f) = &part.frame else { continue };
            total += f.len();
            slices.push(IoSlice::new(&f.body));
            let Some((p, n)) = f.borrowed else { continue };
            let main = n - part.aside.bytes();
            if part.aside.sides > 0 {
                let sides = batch.sides.get(..part.aside.sides);
                let sides = sides.ok_or(io::ErrorKind::NotConnected)?;
                for (i, side) in sides.iter().enumerate() {
                    let begin = main + i * part.aside.each;
                    side.part(f, p.wrapping_add(begin), part.aside.each);
                }
                let aside = part.aside.bytes() as u64;
                self.counters.aside.fetch_add(aside, Ordering::Relaxed);
            }
            // SAFETY: `Bulk::Borrow` keeps these bytes readable until the frame is acknowledged,
            // and we hold the frame. What takes side connections is less than what a frame borrows.
            let main = unsafe { std::slice::from_raw_parts(p, main) };
            slices.push(IoSlice::new(main));
        }
        batch.conn.send(&mut slices)?;
        self.counters
            .sent
            .fetch_add(total as u64, Ordering::Relaxed);
        if batch.conn.path() == Path::Rdma {
            let sent = &self.counters.rdma_sent;
            sent.fetch_add(total as u64, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// How the sending thread passes the time between records.
struct Pace {
    spin: Duration,
    nap: Duration,
    nap_for: Duration,
}

impl Pace {
    fn new() -> Self {
        Self {
            spin: patience().after.min(Duration::from_micros(30)),
            nap: Duration::from_micros(20),
            nap_for: Duration::from_millis(u64::from(Switch::Poll.on())),
        }
    }
}

/// The sending thread.
pub(crate) fn run(inner: &Inner) {
    // SAFETY: plain prctl; sleeps of some microseconds need the finest timer slack.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
    let pace = Pace::new();
    while !inner.is_over() {
        {
            let _role = lock(&inner.sender);
            inner.pump();
        }
        let idle = Instant::now();
        loop {
            if inner.signals.pending.load(Ordering::Acquire) || inner.is_over() {
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
                let signals = &inner.signals;
                // Once woken it stays awake for a while, or each record would wake it.
                signals
                    .work
                    .wait(&Wait::idle("the sending thread").once(), || {
                        signals.pending.load(Ordering::Acquire)
                            || signals.is_closed.load(Ordering::Acquire)
                    });
                break;
            }
        }
        // Without a connection there is nothing to do until one comes, and that wakes us.
        if lock(&inner.outgoing).conn.is_none() {
            inner.progress.wait(&Wait::idle("the sending thread"), || {
                inner.is_over() || lock(&inner.outgoing).conn.is_some()
            });
        }
    }
}
