//! A device in memory, with what verbs promise and no more, and faults on command.
//!
//! It is meant to be less kind than an adapter: bytes that are not inline are read when a write is
//! executed and not when it is queued, a queue that is overrun is an error, and so is a key that is
//! not the memory's. All queue pairs of a [`Fabric`] reach each other.

use super::verbs::{Address, Device, Keys, Pair, Room, Write};
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
    /// Memory of the peer that may not be written.
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
    cut: bool,
    held: bool,
    writes: u64,
    /// All bytes that were written, if somebody listens in.
    tap: Option<Vec<u8>>,
    spoils: bool,
}

struct Region {
    start: usize,
    len: usize,
    keys: Keys,
    from_afar: bool,
}

impl Region {
    fn has(&self, at: usize, len: usize) -> bool {
        at.checked_sub(self.start)
            .is_some_and(|from| from <= self.len && len <= self.len - from)
    }
}

struct Posted {
    write: Write,
    /// What it carries in itself.
    inline: Option<Vec<u8>>,
}

// SAFETY: whoever queued it keeps the memory readable from any thread.
unsafe impl Send for Posted {}

struct State {
    room: Room,
    alarm: Arc<Alarm>,
    peer: Option<u32>,
    error: bool,
    regions: Vec<Region>,
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
}

impl State {
    fn tell(&mut self, what: Result<u32, Fault>) {
        self.got.push_back(what);
        if std::mem::take(&mut self.armed) {
            self.alarm.ring();
        }
    }

    fn done(&mut self, write: &Write, fault: Option<Fault>) {
        self.silent += 1;
        if write.signalled || fault.is_some() {
            let of = std::mem::take(&mut self.silent);
            self.sent.push_back((write.id, of, fault));
        }
    }

    /// All that is queued ends.
    fn fail(&mut self) {
        self.error = true;
        while let Some(p) = self.queue.pop_front() {
            self.done(&p.write, Some(Fault::Flushed));
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
                    self.writes += 1;
                    if let Some(state) = self.pairs.get_mut(&number) {
                        state.done(&posted.write, None);
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
                        state.done(&posted.write, Some(fault));
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
        let w = &posted.write;
        let own = self.pairs.get(&number).ok_or(Fault::Unreachable)?;
        let from = w.from as usize;
        let known = |r: &Region| r.keys.local == w.local && r.has(from, w.len);
        if posted.inline.is_none() && w.len > 0 && !own.regions.iter().any(known) {
            return Err(Fault::LocalProtection);
        }
        let there = match self.pairs.get_mut(&peer) {
            Some(there) if !self.cut && !there.error && there.peer == Some(number) => there,
            _ => return Err(Fault::Unreachable),
        };
        if there.ready == 0 {
            return Ok(false);
        }
        let to = w.to as usize;
        let open = |r: &Region| r.from_afar && r.keys.remote == w.remote && r.has(to, w.len);
        if w.len > 0 && !there.regions.iter().any(open) {
            return Err(Fault::RemoteAccess);
        }
        let from = posted.inline.as_ref().map_or(w.from, |b| b.as_ptr());
        // SAFETY: both places are registered or our own, and whoever registered them keeps them
        // mapped until the queue pair is gone, which takes the lock that is held here.
        unsafe { std::ptr::copy_nonoverlapping(from, to as *mut u8, w.len) };
        if w.len > 0 && std::mem::take(&mut self.spoils) {
            // SAFETY: as above.
            unsafe { *(to as *mut u8).add(w.len - 1) ^= 1 };
        }
        there.ready -= 1;
        there.tell(Ok(w.immediate));
        if let Some(tap) = self.tap.as_mut().filter(|_| w.len > 0) {
            // SAFETY: as above.
            tap.extend_from_slice(unsafe { std::slice::from_raw_parts(from, w.len) });
        }
        Ok(true)
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

    /// Whether nothing reaches anybody, as with a link that is down.
    pub fn cut(&self, cut: bool) {
        lock(&self.0).cut = cut;
    }

    /// Whether writes wait to be executed.
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
        regions.map(|r| r.len).sum()
    }

    /// How many writes have been executed.
    pub fn writes(&self) -> u64 {
        lock(&self.0).writes
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
            queue: VecDeque::new(),
            used: 0,
            silent: 0,
            sent: VecDeque::new(),
            ready: 0,
            got: VecDeque::new(),
            armed: false,
        };
        net.pairs.insert(number, state);
        Ok(Box::new(Soft {
            net: self.0.clone(),
            number,
            alarm,
        }))
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

impl Pair for Soft {
    fn address(&self) -> Address {
        Address {
            pair: self.number,
            mtu: 5,
            ..Address::default()
        }
    }

    unsafe fn register(&self, memory: Memory, from_afar: bool) -> io::Result<Keys> {
        let mut net = lock(&self.net);
        if net.refuses {
            return Err(io::Error::from_raw_os_error(libc::ENOMEM));
        }
        net.keys += 2;
        let keys = Keys {
            local: net.keys,
            remote: net.keys + 1,
        };
        if let Some(state) = net.pairs.get_mut(&self.number) {
            state.regions.push(Region {
                start: memory.start as usize,
                len: memory.len,
                keys,
                from_afar,
            });
        }
        Ok(keys)
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
        self.with(|s| {
            let too_long = inline
                .as_ref()
                .is_some_and(|b| b.len() > s.room.inline as usize);
            if too_long || s.used >= s.room.sends {
                return Err(io::Error::from_raw_os_error(libc::ENOMEM));
            }
            s.used += 1;
            let write = *write;
            match s.error {
                true => s.done(&write, Some(Fault::Flushed)),
                false => s.queue.push_back(Posted { write, inline }),
            }
            Ok(())
        })?;
        lock(&self.net).advance(self.number);
        Ok(())
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
        self.with(|s| {
            let mut n = 0;
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
        })
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
