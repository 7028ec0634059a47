//! One end of a measurement between two devices: what writes and reads of a queue pair do, without
//! a ring.
//!
//! One end at a time is active; the other one calls [`Trial::serve`] meanwhile.

use super::verbs::{Access, Address, Device, Pair, Read, Region, Room, Write};
use crate::Memory;
use std::io::{self, ErrorKind};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// Bytes of memory: as many as an end of a session locks.
const MEMORY: usize = 4 << 20;
/// Bytes of a write, and how many are under way.
const CHUNK: usize = 1 << 20;
const DEPTH: u64 = 16;
/// Writes of the peer that this end is ready for.
const READY: u32 = 256;
/// How long nothing may come of a request.
const PATIENCE: Duration = Duration::from_secs(10);
/// In an immediate: the peer is to answer.
const ANSWER: u32 = 1;

/// What the other end has to know of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Card {
    /// Where the queue pair is reached.
    pub address: Address,
    /// Where its memory begins.
    pub at: u64,
    /// The key of that.
    pub key: u32,
}

/// See the module.
pub struct Trial {
    pair: Box<dyn Pair>,
    start: *mut u8,
    region: Region,
    peer: Option<Card>,
    /// Dropped after the queue pair.
    _memory: Vec<u8>,
}

impl Trial {
    /// A queue pair of a device, with memory.
    pub fn new(device: &dyn Device) -> io::Result<Self> {
        let pair = device.pair(Room {
            sends: 2 * DEPTH as u32,
            receives: READY,
            inline: 8,
        })?;
        let mut memory = vec![0; MEMORY];
        let (start, len) = (memory.as_mut_ptr(), memory.len());
        // SAFETY: fields are dropped in their order, and nobody looks at what is in there.
        let region = unsafe { pair.register(Memory { start, len }, Access::Open)? };
        pair.receive(READY)?;
        Ok(Self {
            pair,
            start,
            region,
            peer: None,
            _memory: memory,
        })
    }

    /// What the other end has to know.
    pub fn card(&self) -> Card {
        Card {
            address: self.pair.address(),
            at: self.start as u64,
            key: self.region.keys.remote,
        }
    }

    /// Connects it to the other end's.
    pub fn connect(&mut self, peer: Card) -> io::Result<()> {
        self.pair.connect(&peer.address)?;
        self.peer = Some(peer);
        Ok(())
    }

    /// Readable when the other end has written, once [`Trial::arm`] was called.
    pub fn events(&self) -> BorrowedFd<'_> {
        self.pair.events()
    }

    /// See [`Trial::events`].
    pub fn arm(&self) -> io::Result<()> {
        self.pair.clear_events()?;
        self.pair.arm()
    }

    fn write(&self, id: u64, at: usize, len: usize, immediate: u32) -> io::Result<()> {
        let peer = self.peer.ok_or(ErrorKind::NotConnected)?;
        let write = Write {
            id,
            from: self.start.wrapping_add(at),
            len,
            local: self.region.keys.local,
            to: peer.at + at as u64,
            remote: peer.key,
            immediate,
            signalled: true,
            inline: len <= 8,
        };
        // SAFETY: `at` and `len` are inside of our memory, which only a peer changes, and that it
        // is changed while it is sent does not matter.
        unsafe { self.pair.write(&write) }
    }

    /// Completions that have come.
    fn done(&self) -> io::Result<u64> {
        self.pair.sent(&mut [0; 16]).map(|n| n as u64)
    }

    /// Calls `look` until it finds something.
    fn until<T>(&self, mut look: impl FnMut() -> io::Result<Option<T>>) -> io::Result<T> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = look()? {
                return Ok(found);
            }
            if Instant::now() > deadline {
                return Err(ErrorKind::TimedOut.into());
            }
            std::thread::yield_now();
        }
    }

    /// Takes what the other end has written, and answers where it wants that. How much it was.
    pub fn serve(&self) -> io::Result<usize> {
        let mut came = [0; 16];
        let n = self.pair.received(&mut came)?;
        if n == 0 {
            return Ok(0);
        }
        self.pair.receive(n as u32)?;
        for _ in came[..n].iter().filter(|i| **i == ANSWER) {
            self.done()?;
            self.write(0, 0, 8, 0)?;
        }
        Ok(n)
    }

    fn read(&self, id: u64, at: usize, len: usize) -> io::Result<()> {
        let peer = self.peer.ok_or(ErrorKind::NotConnected)?;
        let read = Read {
            id,
            to: self.start.wrapping_add(at),
            len,
            local: self.region.keys.local,
            from: peer.at + at as u64,
            remote: peer.key,
        };
        // SAFETY: as with writes.
        unsafe { self.pair.read(&read) }
    }

    /// Writes for so long, and at least once: how many bytes, and in which time.
    pub fn writes(&self, time: Duration) -> io::Result<(u64, Duration)> {
        self.moves(time, |id, at| self.write(id, at, CHUNK, 0))
    }

    /// As [`Trial::writes`], by reads; the other end has nothing to do with it.
    pub fn reads(&self, time: Duration) -> io::Result<(u64, Duration)> {
        self.moves(time, |id, at| self.read(id, at, CHUNK))
    }

    fn moves(
        &self,
        time: Duration,
        one: impl Fn(u64, usize) -> io::Result<()>,
    ) -> io::Result<(u64, Duration)> {
        let start = Instant::now();
        let (mut sent, mut done) = (0, 0);
        while sent == 0 || start.elapsed() < time {
            let at = sent as usize * CHUNK % MEMORY;
            one(sent, at)?;
            sent += 1;
            if sent - done == DEPTH {
                done += self.some()?;
            }
        }
        while done < sent {
            done += self.some()?;
        }
        Ok((sent * CHUNK as u64, start.elapsed()))
    }

    /// Waits for completions.
    fn some(&self) -> io::Result<u64> {
        self.until(|| Ok(Some(self.done()?).filter(|n| *n > 0)))
    }

    /// Writes a word and waits for the answer, so many times, and no more once `most` have passed:
    /// how long each took.
    pub fn round_trips(&self, count: u32, most: Duration) -> io::Result<Vec<Duration>> {
        let once = || -> io::Result<Duration> {
            let start = Instant::now();
            self.write(0, 0, 8, ANSWER)?;
            self.some()?;
            self.until(|| Ok(Some(self.serve()?).filter(|n| *n > 0)))?;
            Ok(start.elapsed())
        };
        let (begin, mut took) = (Instant::now(), vec![once()?]);
        while took.len() < count as usize && begin.elapsed() < most {
            took.push(once()?);
        }
        Ok(took)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdma::soft::Fabric;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn both(fabric: &Fabric) -> [Trial; 2] {
        let device = fabric.device();
        let mut ends = [0, 1].map(|_| Trial::new(&*device).unwrap());
        let cards = [ends[0].card(), ends[1].card()];
        ends[0].connect(cards[1]).unwrap();
        ends[1].connect(cards[0]).unwrap();
        ends
    }

    /// Runs something at one end while the other one serves.
    fn with<T>(ends: &[Trial; 2], run: impl Fn(&Trial) -> T) -> T {
        struct End<'a>(&'a Trial);
        // SAFETY: queue pairs may be used by any thread, and the memory is nobody's.
        unsafe impl Sync for End<'_> {}
        let over = AtomicBool::new(false);
        let (active, passive) = (&ends[0], End(&ends[1]));
        std::thread::scope(|s| {
            let (passive, over) = (&passive, &over);
            s.spawn(move || {
                let End(end) = passive;
                while !over.load(Ordering::SeqCst) && end.serve().is_ok() {}
            });
            let done = run(active);
            over.store(true, Ordering::SeqCst);
            done
        })
    }

    #[test]
    fn writes_and_round_trips_are_counted() {
        let fabric = Fabric::default();
        let ends = both(&fabric);
        let (bytes, time) = with(&ends, |e| e.writes(Duration::ZERO)).unwrap();
        assert_eq!(bytes, CHUNK as u64);
        assert!(time > Duration::ZERO);
        let before = fabric.did().reads;
        let (bytes, _) = with(&ends, |e| e.reads(Duration::from_millis(1))).unwrap();
        assert_eq!(bytes, (fabric.did().reads - before) * CHUNK as u64);
        // More than the other end is ready for at first.
        let n = 2 * READY;
        let trips = |most| with(&ends, |e| e.round_trips(n, most)).unwrap().len();
        assert_eq!(
            (trips(PATIENCE * 60), trips(Duration::ZERO)),
            (n as usize, 1)
        );
    }

    #[test]
    fn a_fabric_that_carries_nothing_is_an_error() {
        let fabric = Fabric::default();
        let ends = both(&fabric);
        fabric.cut(true);
        let e = with(&ends, |e| e.writes(Duration::ZERO)).unwrap_err();
        assert!(e.to_string().contains("does not answer"), "{e}");
        assert!(with(&both(&fabric), |e| e.reads(Duration::ZERO)).is_err());
        fabric.refuse_memory(true);
        assert!(Trial::new(&*fabric.device()).is_err());
    }
}
