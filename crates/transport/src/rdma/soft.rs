//! A device in memory, with what verbs promise and no more, and faults on command.
//!
//! It is meant to be less kind than an adapter: bytes that are not inline are read when a write is
//! executed and not when it is queued, a queue that is overrun is an error, and so is a key that is
//! not the memory's. All queue pairs of a [`Fabric`] reach each other.

use super::verbs::{Access, Address, Device, Keys, Loan, Pair, Read, Region, Room, Write};
use crate::lock::lock;
use crate::{Alarm, Memory};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex};

/// How a request ends, by the numbers that verbs have for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Memory of this end that is not registered.
    LocalProtection = 4,
    /// It was queued when the queue pair had failed.
    Flushed = 5,
    /// Memory of the peer that may not be written, or not be read.
    RemoteAccess = 10,
    /// The peer does not answer.
    Unreachable = 12,
    /// The peer was not ready to receive.
    NotReady = 13,
}

fn failed(fault: Fault) -> io::Error {
    super::failed(fault as u32)
}

/// What connects devices, and what is wrong with it.
#[derive(Clone, Default)]
pub struct Fabric(Arc<Mutex<Net>>);

#[derive(Default)]
struct Net {
    pairs: HashMap<u32, State>,
    /// Numbers of queue pairs and keys are never used twice.
    made: u32,
    keys: u32,
    refuses: bool,
    pages: bool,
    no_windows: bool,
    cut: bool,
    held: bool,
    did: Did,
    /// All bytes that were written, if somebody listens in.
    tap: Option<Vec<u8>>,
    spoils: bool,
}

/// What has been done on a fabric.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Did {
    /// Requests that were queued. Each has rung a doorbell.
    pub requests: u64,
    /// Writes that were executed.
    pub writes: u64,
    /// Reads that were.
    pub reads: u64,
    /// Completions of requests that were taken.
    pub completions: u64,
    /// Registrations.
    pub registrations: u64,
}

impl std::ops::Sub for Did {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            requests: self.requests - before.requests,
            writes: self.writes - before.writes,
            reads: self.reads - before.reads,
            completions: self.completions - before.completions,
            registrations: self.registrations - before.registrations,
        }
    }
}

/// Who may use memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum May {
    Be(Access),
    /// The peer reads it through a window, which has this number.
    BeRead(usize),
}

impl May {
    /// Whether it may be lent, and read to.
    fn lend(self) -> bool {
        matches!(self, Self::Be(Access::Lent | Access::Paged))
    }
}

struct Known {
    start: usize,
    len: usize,
    keys: Keys,
    may: May,
}

impl Known {
    fn has(&self, at: usize, len: usize) -> bool {
        at.checked_sub(self.start)
            .is_some_and(|from| from <= self.len && len <= self.len - from)
    }
}

enum Posted {
    /// And what it carries in itself.
    Write(Write, Option<Vec<u8>>),
    Read(Read),
    Open {
        window: usize,
        /// Of the whole region.
        of: u32,
        start: usize,
        len: usize,
        key: u32,
    },
    Close {
        window: usize,
        id: u64,
    },
}

impl Posted {
    /// What its completion is called, and whether there is one if all goes well.
    fn id(&self) -> (u64, bool) {
        match self {
            Self::Write(w, _) => (w.id, w.signalled),
            Self::Read(r) => (r.id, true),
            Self::Open { .. } => (0, false),
            Self::Close { id, .. } => (*id, true),
        }
    }
}

// SAFETY: whoever queued it keeps the memory usable from any thread.
unsafe impl Send for Posted {}

struct State {
    room: Room,
    alarm: Arc<Alarm>,
    peer: Option<u32>,
    error: bool,
    regions: Vec<Known>,
    windows: usize,
    queue: VecDeque<Posted>,
    /// Requests that have no completion yet that was taken.
    used: u32,
    /// Those that the next completion is also of.
    silent: u32,
    sent: VecDeque<(u64, u32, Option<Fault>)>,
    /// Receives that are ready, and what has come.
    ready: u32,
    got: VecDeque<Result<u32, Fault>>,
    armed: bool,
    armed_sent: bool,
}

impl State {
    fn tell(&mut self, what: Result<u32, Fault>) {
        self.got.push_back(what);
        if std::mem::take(&mut self.armed) {
            self.alarm.ring();
        }
    }

    fn done(&mut self, posted: &Posted, fault: Option<Fault>) {
        let (id, signalled) = posted.id();
        self.silent += 1;
        if signalled || fault.is_some() {
            let of = std::mem::take(&mut self.silent);
            self.sent.push_back((id, of, fault));
            if std::mem::take(&mut self.armed_sent) {
                self.alarm.ring();
            }
        }
    }

    /// Opens a window, or closes it.
    fn turn_window(&mut self, posted: &Posted) -> Result<(), Fault> {
        let opened = |k: &Known, n| k.may == May::BeRead(n);
        match *posted {
            Posted::Open {
                window,
                of,
                start,
                len,
                key,
            } => {
                let lent = |k: &Known| k.keys.local == of && k.may.lend();
                let whole = self.regions.iter().find(|k| lent(k));
                let known = whole.is_some_and(|k| k.has(start, len));
                if !known || self.regions.iter().any(|k| opened(k, window)) {
                    return Err(Fault::LocalProtection);
                }
                let keys = Keys {
                    remote: key,
                    ..Keys::default()
                };
                let may = May::BeRead(window);
                self.regions.push(Known {
                    start,
                    len,
                    keys,
                    may,
                });
            }
            Posted::Close { window, .. } => self.regions.retain(|k| !opened(k, window)),
            Posted::Write(..) | Posted::Read(_) => {}
        }
        Ok(())
    }

    /// All that is queued ends.
    fn fail(&mut self) {
        self.error = true;
        while let Some(p) = self.queue.pop_front() {
            self.done(&p, Some(Fault::Flushed));
        }
        for _ in 0..std::mem::take(&mut self.ready) {
            self.tell(Err(Fault::Flushed));
        }
    }
}

impl Net {
    /// Executes what a queue pair has queued, as far as that can be done.
    fn advance(&mut self, number: u32) {
        while !self.held {
            let Some(state) = self.pairs.get_mut(&number) else {
                return;
            };
            let Some(peer) = state.peer.filter(|_| !state.error) else {
                return;
            };
            let Some(posted) = state.queue.pop_front() else {
                return;
            };
            match self.execute(number, peer, &posted) {
                Ok(true) => {
                    if let Some(state) = self.pairs.get_mut(&number) {
                        state.done(&posted, None);
                    }
                }
                // The peer is not ready, and this end tries for as long as it takes.
                Ok(false) => {
                    if let Some(state) = self.pairs.get_mut(&number) {
                        state.queue.push_front(posted);
                    }
                    return;
                }
                Err(fault) => {
                    if let Some(state) = self.pairs.get_mut(&number) {
                        state.done(&posted, Some(fault));
                        state.fail();
                    }
                    if fault == Fault::RemoteAccess
                        && let Some(peer) = self.pairs.get_mut(&peer)
                    {
                        peer.fail();
                    }
                }
            }
        }
    }

    fn execute(&mut self, number: u32, peer: u32, posted: &Posted) -> Result<bool, Fault> {
        match posted {
            Posted::Write(w, inline) => self.write(number, peer, w, inline.as_deref()),
            Posted::Read(r) => self.read(number, peer, r).map(|()| true),
            Posted::Open { .. } | Posted::Close { .. } => {
                let own = self.pairs.get_mut(&number).ok_or(Fault::Unreachable)?;
                own.turn_window(posted).map(|()| true)
            }
        }
    }

    /// The peer, if it can be reached.
    fn there(&mut self, number: u32, peer: u32) -> Result<&mut State, Fault> {
        let cut = self.cut;
        let there = self.pairs.get_mut(&peer);
        let reached = |s: &&mut State| !cut && !s.error && s.peer == Some(number);
        there.filter(reached).ok_or(Fault::Unreachable)
    }

    fn write(
        &mut self,
        number: u32,
        peer: u32,
        w: &Write,
        inline: Option<&[u8]>,
    ) -> Result<bool, Fault> {
        let own = self.pairs.get(&number).ok_or(Fault::Unreachable)?;
        let from = w.from as usize;
        let known = |k: &Known| k.keys.local == w.local && k.has(from, w.len);
        if inline.is_none() && w.len > 0 && !own.regions.iter().any(known) {
            return Err(Fault::LocalProtection);
        }
        let spoils = self.spoils;
        let there = self.there(number, peer)?;
        if there.ready == 0 {
            return Ok(false);
        }
        let to = w.to as usize;
        let open = |k: &Known| {
            matches!(k.may, May::Be(Access::Written | Access::Open))
                && k.keys.remote == w.remote
                && k.has(to, w.len)
        };
        if w.len > 0 && !there.regions.iter().any(open) {
            return Err(Fault::RemoteAccess);
        }
        let from = inline.map_or(w.from, <[u8]>::as_ptr);
        // SAFETY: both places are registered or our own, and whoever registered them keeps them
        // mapped until the queue pair is gone, which takes the lock that is held here.
        unsafe { std::ptr::copy_nonoverlapping(from, to as *mut u8, w.len) };
        if w.len > 0 && spoils {
            // SAFETY: as above.
            unsafe { *(to as *mut u8).add(w.len - 1) ^= 1 };
        }
        there.ready -= 1;
        there.tell(Ok(w.immediate));
        self.did.writes += 1;
        self.spoils &= w.len == 0;
        if let Some(tap) = self.tap.as_mut().filter(|_| w.len > 0) {
            // SAFETY: as above.
            tap.extend_from_slice(unsafe { std::slice::from_raw_parts(from, w.len) });
        }
        Ok(true)
    }

    fn read(&mut self, number: u32, peer: u32, r: &Read) -> Result<(), Fault> {
        let own = self.pairs.get(&number).ok_or(Fault::Unreachable)?;
        let to = r.to as usize;
        let known = |k: &Known| {
            (k.may.lend() || k.may == May::Be(Access::Open))
                && k.keys.local == r.local
                && k.has(to, r.len)
        };
        if !own.regions.iter().any(known) {
            return Err(Fault::LocalProtection);
        }
        let there = self.there(number, peer)?;
        let from = r.from as usize;
        let lent = |k: &Known| {
            matches!(k.may, May::BeRead(_) | May::Be(Access::Open))
                && k.keys.remote == r.remote
                && k.has(from, r.len)
        };
        if !there.regions.iter().any(lent) {
            return Err(Fault::RemoteAccess);
        }
        // SAFETY: as with writes.
        unsafe { std::ptr::copy(from as *const u8, r.to, r.len) };
        self.did.reads += 1;
        Ok(())
    }
}

impl Fabric {
    /// A device at this fabric.
    pub fn device(&self) -> Arc<dyn Device> {
        Arc::new(self.clone())
    }

    /// Whether memory can be registered from now on.
    pub fn refuse_memory(&self, refuses: bool) {
        lock(&self.0).refuses = refuses;
    }

    /// Whether it can be registered without being locked from now on.
    pub fn page(&self, pages: bool) {
        lock(&self.0).pages = pages;
    }

    /// Whether windows can be made from now on.
    pub fn refuse_windows(&self, refuses: bool) {
        lock(&self.0).no_windows = refuses;
    }

    /// Whether nothing reaches anybody, as with a link that is down.
    pub fn cut(&self, cut: bool) {
        lock(&self.0).cut = cut;
    }

    /// Whether requests wait to be executed.
    pub fn hold(&self, held: bool) {
        let mut net = lock(&self.0);
        net.held = held;
        let all: Vec<_> = net.pairs.keys().copied().collect();
        all.into_iter().for_each(|number| net.advance(number));
    }

    /// All queue pairs fail, as when an adapter is reset.
    pub fn fail_all(&self) {
        lock(&self.0).pairs.values_mut().for_each(State::fail);
    }

    /// Changes the last byte of the next write.
    pub fn spoil(&self) {
        lock(&self.0).spoils = true;
    }

    /// Listens in from now on.
    pub fn tap(&self) {
        lock(&self.0).tap = Some(Vec::new());
    }

    /// What has been written since.
    pub fn tapped(&self) -> Vec<u8> {
        lock(&self.0).tap.take().unwrap_or_default()
    }

    /// How many queue pairs there are.
    pub fn pairs(&self) -> usize {
        lock(&self.0).pairs.len()
    }

    /// How many bytes are registered.
    pub fn registered(&self) -> usize {
        let net = lock(&self.0);
        let regions = net.pairs.values().flat_map(|p| &p.regions);
        let whole = regions.filter(|k| matches!(k.may, May::Be(_)));
        whole.map(|k| k.len).sum()
    }

    /// How many bytes are lent.
    pub fn lent(&self) -> usize {
        let net = lock(&self.0);
        let regions = net.pairs.values().flat_map(|p| &p.regions);
        let open = regions.filter(|k| matches!(k.may, May::BeRead(_)));
        open.map(|k| k.len).sum()
    }

    /// What has been done so far.
    pub fn did(&self) -> Did {
        lock(&self.0).did
    }
}

impl Device for Fabric {
    fn name(&self) -> String {
        "the device in memory".into()
    }

    fn pair(&self, room: Room) -> io::Result<Box<dyn Pair>> {
        let alarm = Arc::new(Alarm::new()?);
        let mut net = lock(&self.0);
        net.made += 1;
        let number = net.made;
        let state = State {
            room,
            alarm: alarm.clone(),
            peer: None,
            error: false,
            regions: Vec::new(),
            windows: 0,
            queue: VecDeque::new(),
            used: 0,
            silent: 0,
            sent: VecDeque::new(),
            ready: 0,
            got: VecDeque::new(),
            armed: false,
            armed_sent: false,
        };
        net.pairs.insert(number, state);
        Ok(Box::new(Soft {
            net: self.0.clone(),
            number,
            alarm,
        }))
    }
}

/// A registration, until it is dropped.
struct Entry {
    net: Arc<Mutex<Net>>,
    number: u32,
    key: u32,
}

impl Drop for Entry {
    fn drop(&mut self) {
        if let Some(state) = lock(&self.net).pairs.get_mut(&self.number) {
            state.regions.retain(|k| k.keys.local != self.key);
        }
    }
}

/// A queue pair of it.
struct Soft {
    net: Arc<Mutex<Net>>,
    number: u32,
    alarm: Arc<Alarm>,
}

impl Soft {
    fn with<T>(&self, f: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        let mut net = lock(&self.net);
        f(net
            .pairs
            .get_mut(&self.number)
            .ok_or(io::ErrorKind::NotConnected)?)
    }
}

impl Soft {
    fn post(&self, posted: Posted) -> io::Result<()> {
        let mut net = lock(&self.net);
        net.did.requests += 1;
        let s = net.pairs.get_mut(&self.number);
        let s = s.ok_or(io::ErrorKind::NotConnected)?;
        let too_long =
            matches!(&posted, Posted::Write(_, Some(b)) if b.len() > s.room.inline as usize);
        if too_long || s.used >= s.room.sends {
            return Err(io::Error::from_raw_os_error(libc::ENOMEM));
        }
        s.used += 1;
        match s.error {
            true => s.done(&posted, Some(Fault::Flushed)),
            false => s.queue.push_back(posted),
        }
        net.advance(self.number);
        Ok(())
    }
}

impl Pair for Soft {
    fn address(&self) -> Address {
        Address {
            pair: self.number,
            mtu: 5,
            ..Address::default()
        }
    }

    unsafe fn register(&self, memory: Memory, access: Access) -> io::Result<Region> {
        let mut net = lock(&self.net);
        match access {
            Access::Paged if !net.pages => return Err(io::ErrorKind::Unsupported.into()),
            Access::Paged => {}
            _ if net.refuses => return Err(io::Error::from_raw_os_error(libc::ENOMEM)),
            _ => {}
        }
        net.keys += 2;
        net.did.registrations += 1;
        let keys = Keys {
            local: net.keys,
            remote: net.keys + 1,
            raw: 0,
        };
        if let Some(state) = net.pairs.get_mut(&self.number) {
            state.regions.push(Known {
                start: memory.start as usize,
                len: memory.len,
                keys,
                may: May::Be(access),
            });
        }
        let entry = Entry {
            net: self.net.clone(),
            number: self.number,
            key: keys.local,
        };
        Ok(Region {
            keys,
            _end: Box::new(entry),
        })
    }

    fn window(&self) -> io::Result<usize> {
        if lock(&self.net).no_windows {
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.with(|s| {
            s.windows += 1;
            Ok(s.windows - 1)
        })
    }

    unsafe fn open(&self, window: usize, region: &Region, loan: Loan) -> io::Result<u32> {
        let key = {
            let mut net = lock(&self.net);
            net.keys += 2;
            net.keys
        };
        self.post(Posted::Open {
            window,
            of: region.keys.local,
            start: loan.at as usize,
            len: loan.len,
            key,
        })?;
        Ok(key)
    }

    fn close(&self, window: usize, id: u64) -> io::Result<()> {
        self.post(Posted::Close { window, id })
    }

    unsafe fn read(&self, read: &Read) -> io::Result<()> {
        self.post(Posted::Read(*read))
    }

    fn stop(&self) {
        let _ = self.with(|s| {
            s.fail();
            Ok(())
        });
    }

    fn connect(&self, peer: &Address) -> io::Result<()> {
        self.with(|s| {
            s.peer = Some(peer.pair);
            Ok(())
        })
    }

    unsafe fn write(&self, write: &Write) -> io::Result<()> {
        let inline = write.inline.then(|| {
            let n = write.len;
            if n == 0 {
                return Vec::new();
            }
            // SAFETY: the caller vouches for so many bytes.
            unsafe { std::slice::from_raw_parts(write.from, n) }.to_vec()
        });
        self.post(Posted::Write(*write, inline))
    }

    fn receive(&self, n: u32) -> io::Result<()> {
        let peer = self.with(|s| {
            if s.ready + n + s.got.len() as u32 > s.room.receives {
                return Err(io::Error::from_raw_os_error(libc::ENOMEM));
            }
            s.ready += n;
            if s.error {
                s.fail();
            }
            Ok(s.peer)
        })?;
        // Who is there may have waited for this.
        peer.into_iter().for_each(|p| lock(&self.net).advance(p));
        Ok(())
    }

    fn sent(&self, ids: &mut [u64]) -> io::Result<usize> {
        let mut n = 0;
        let taken = self.with(|s| {
            while n < ids.len()
                && let Some((id, of, fault)) = s.sent.pop_front()
            {
                s.used -= of;
                if let Some(fault) = fault {
                    return Err(failed(fault));
                }
                ids[n] = id;
                n += 1;
            }
            Ok(n)
        });
        lock(&self.net).did.completions += n as u64;
        taken
    }

    fn received(&self, immediates: &mut [u32]) -> io::Result<usize> {
        self.with(|s| {
            let mut n = 0;
            while n < immediates.len()
                && let Some(what) = s.got.pop_front()
            {
                match what {
                    Ok(immediate) => immediates[n] = immediate,
                    // Those before it count.
                    Err(fault) if n > 0 => {
                        s.got.push_front(Err(fault));
                        break;
                    }
                    Err(fault) => return Err(failed(fault)),
                }
                n += 1;
            }
            Ok(n)
        })
    }

    fn arm(&self) -> io::Result<()> {
        self.with(|s| {
            s.armed = true;
            Ok(())
        })
    }

    fn arm_sent(&self) -> io::Result<()> {
        self.with(|s| {
            s.armed_sent = true;
            Ok(())
        })
    }

    fn events(&self) -> BorrowedFd<'_> {
        self.alarm.as_fd()
    }

    fn clear_events(&self) -> io::Result<()> {
        self.alarm.silence();
        Ok(())
    }
}

impl Drop for Soft {
    fn drop(&mut self) {
        lock(&self.net).pairs.remove(&self.number);
    }
}
