//! A connection whose bytes the peer's adapter writes into a ring in our memory.
//!
//! Each end has one block of memory: a page that the peer writes its word into, the ring that the
//! peer fills, and a ring of the same size that holds what was sent. A byte has the same place in
//! the sender's ring and in the receiver's. What one call sends is gathered there and goes as one
//! write with immediate (two where the ring ends), whose immediate says how many bytes they are.
//!
//! Nothing is sent that the peer is not ready for. It says, in its word, how many bytes have been
//! taken out of the ring and how many writes it can take more; the word is a write with immediate,
//! too, so it wakes who sleeps. No more than [`WORDS`] words are ever under way, since none is said
//! before a quarter of either has come anew.
//!
//! Long slices of memory that stays ([`Kept`]) are not gathered. They are lent: in their place the
//! ring has a [`Reference`], the last bytes of a write whose immediate says so, and the receiver's
//! adapter reads the bytes from where they lie to where they belong. What is lent is a window of
//! its own, which the receiver ends by taking the reference out of the ring: it does so when it
//! has all bytes. Where any of this cannot be had, bytes are gathered, or read into a buffer of the
//! ring's.
//!
//! The connection that this was set up over stays open. Its end is the peer's end, and a byte on it
//! says that the peer has given up on this path but lives.

use super::block::{BUFFER, Block, PAGE, READS, RING, Reference};
use super::verbs::{Access, Address, Device, Pair, Region, Room, Write};
use crate::lock::lock;
use crate::{Alarm, Connection, Held, Kept, Memory, Owner, wait_any};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// The most bytes of a write: the peer takes them out while more come.
pub(super) const MOST: usize = RING / 4;
/// Writes with bytes that the peer is ready for.
const WRITES: u64 = 256;
/// Words that may be under way beside them.
const WORDS: u64 = 16;
/// What the peer may have under way: a word comes of each loan, too.
const RECEIVES: u32 = (WRITES + WORDS) as u32 + WINDOWS as u32;
/// A completion is asked for at least so often: what has none keeps its place in the ring.
const SIGNAL_BYTES: u64 = RING as u64 / 8;
const SIGNAL_WRITES: u64 = WRITES / 8;
/// In the immediate of a word, and in the id of its completion.
const WORD: u32 = 1 << 31;
const WORD_ID: u64 = 1 << 63;
/// In the immediate of a write that ends with a reference.
pub(super) const LENDS: u32 = 1 << 30;
/// In the id of a read, ...
pub(super) const READ_ID: u64 = 1 << 62;
/// ... and in that of the closing of a window, whose number is the rest of it.
pub(super) const CLOSE_ID: u64 = 1 << 61;
/// A slice is lent from this size on: what a fabric's round trip costs more than two copies.
pub(super) const LEND: usize = 64 << 10;
/// Slices that may be lent at a time.
pub(super) const WINDOWS: usize = 32;
pub(super) const LENDS_NOTHING: &str = "the peer lends, and does not say what";
/// How long to look for the end of a read before sleeping until it.
pub(super) const LOOK: Duration = Duration::from_micros(50);
/// The longest sleep of whoever waits for room.
pub(super) const LONGEST_SLEEP: Duration = Duration::from_millis(200);
/// Looks that find nothing, after which the other connection is looked at.
pub(super) const LOOKS: u32 = 256;
/// On the other connection: this path is given up.
const GIVEN_UP: u8 = 0x21;

/// What the peer has to know of a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// Where its block begins.
    pub(super) at: u64,
    /// The key of that.
    pub(super) key: u32,
}

/// One end that is not connected yet.
pub(super) struct Half {
    pair: Box<dyn Pair>,
    regions: Regions,
    block: Block,
}

/// What is registered of a block, each part for one thing.
pub(super) struct Regions {
    incoming: Region,
    outgoing: Region,
    pub(super) buffer: Region,
}

impl Half {
    pub(super) fn new(device: &dyn Device) -> io::Result<Self> {
        let pair = device.pair(Room {
            // Of windows, the opening and the closing.
            sends: (WRITES + 2 * WORDS + 2 * WINDOWS as u64 + READS) as u32,
            receives: RECEIVES,
            inline: 16,
        })?;
        let block = Block::new()?;
        let part = |start, len| Memory { start, len };
        // SAFETY: the block is dropped after the queue pair, as fields are in their order; bytes
        // that the peer may write are copied before anything depends on them.
        let regions = unsafe {
            Regions {
                incoming: pair.register(part(block.start, PAGE + RING), Access::Written)?,
                outgoing: pair.register(part(block.outgoing(), RING), Access::Sent)?,
                buffer: pair.register(part(block.buffer(), BUFFER), Access::Lent)?,
            }
        };
        pair.receive(RECEIVES)?;
        Ok(Self {
            pair,
            regions,
            block,
        })
    }

    pub(super) fn address(&self) -> Address {
        self.pair.address()
    }

    pub(super) fn place(&self) -> Place {
        Place {
            at: self.block.start as u64,
            key: self.regions.incoming.keys.remote,
        }
    }

    /// Connects it, with `control` beside it from now on.
    pub(super) fn connect(
        self,
        control: Arc<dyn Connection>,
        address: &Address,
        peer: Place,
    ) -> io::Result<Ring> {
        self.pair.connect(address)?;
        Ok(Ring {
            pair: self.pair,
            regions: self.regions,
            block: self.block,
            me: Owner::default(),
            kept: OnceLock::new(),
            lent: AtomicU64::new(0),
            peer,
            control,
            out: Mutex::default(),
            queue: Mutex::default(),
            input: Mutex::default(),
            sent: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            asleep: Asleep {
                sender: AtomicBool::new(false),
                receiver: AtomicBool::new(false),
            },
            room: Alarm::new()?,
            came: Alarm::new()?,
            limit: Mutex::new(None),
            over: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            failed: OnceLock::new(),
        })
    }
}

/// What the sending thread keeps.
#[derive(Default)]
pub(super) struct Out {
    silent_bytes: u64,
    silent_writes: u64,
}

/// What the device is known to have done.
#[derive(Default)]
pub(super) struct Queue {
    /// Bytes and writes whose place is free again as far as the device is concerned.
    bytes: u64,
    writes: u64,
    words: u64,
    /// Reads that are done.
    pub(super) reads: u64,
    /// What is lent, the first first.
    pub(super) loans: VecDeque<Lending>,
    /// What windows are open on, by their numbers, and those that are closed.
    pub(super) windows: Vec<Option<Arc<Region>>>,
    pub(super) closed: Vec<usize>,
    /// No window more can be made.
    pub(super) no_more: bool,
}

/// Bytes that are lent.
pub(super) struct Lending {
    /// Where in the stream their reference ends.
    pub(super) end: u64,
    /// The window on them.
    pub(super) window: usize,
    /// What keeps their memory from others, if anything has to.
    pub(super) _held: Option<Held>,
}

/// What has come, and what the peer was told of it.
#[derive(Default)]
pub(super) struct Input {
    pub(super) came: u64,
    pub(super) taken: u64,
    writes: u64,
    told: [u64; 2],
    probes: u64,
    words: u64,
    pub(super) looks: u32,
    /// Where in the stream references end.
    pub(super) marks: VecDeque<u64>,
    /// What is still to be read of the first of them.
    pub(super) rest: Option<Reference>,
    /// Reads that were asked for.
    pub(super) reads: u64,
}

pub(super) struct Asleep {
    pub(super) sender: AtomicBool,
    pub(super) receiver: AtomicBool,
}

/// See the module.
pub(super) struct Ring {
    /// Before the block, which it writes to until it is dropped.
    pub(super) pair: Box<dyn Pair>,
    pub(super) regions: Regions,
    pub(super) block: Block,
    /// Whose registrations of memory that stays these are.
    pub(super) me: Owner,
    pub(super) kept: OnceLock<Arc<Kept>>,
    /// How often this end has lent.
    pub(super) lent: AtomicU64,
    pub(super) peer: Place,
    pub(super) control: Arc<dyn Connection>,
    /// Locks are taken in this order. This one by whoever sends, for as long as that takes, ...
    pub(super) out: Mutex<Out>,
    /// ... this one by whoever looks for what has come, ...
    pub(super) input: Mutex<Input>,
    /// ... and this one to queue a write, by both.
    pub(super) queue: Mutex<Queue>,
    /// Bytes and writes sent.
    pub(super) sent: AtomicU64,
    pub(super) writes: AtomicU64,
    pub(super) asleep: Asleep,
    /// Rings when the peer has made room, and when something has come, for who sleeps.
    pub(super) room: Alarm,
    pub(super) came: Alarm,
    pub(super) limit: Mutex<Option<Duration>>,
    /// This end has shut it down.
    pub(super) over: AtomicBool,
    /// The other connection has ended.
    pub(super) ended: AtomicBool,
    pub(super) failed: OnceLock<(ErrorKind, String)>,
}

impl Ring {
    /// Why it cannot go on.
    pub(super) fn check(&self) -> io::Result<()> {
        if let Some((kind, why)) = self.failed.get() {
            return Err(io::Error::new(*kind, why.clone()));
        }
        match self.over.load(Ordering::Acquire) {
            true => Err(ErrorKind::ConnectionAborted.into()),
            false => Ok(()),
        }
    }

    /// Gives this path up, and tells the peer that this end lives.
    pub(super) fn fail<T>(&self, e: &io::Error) -> io::Result<T> {
        self.check()?;
        // Whether it is the peer that has ended, or this path alone.
        let mut byte = [0];
        let _ = self.control.try_recv(&mut byte);
        let told = (e.kind(), format!("the RDMA path has failed: {e}"));
        if self.failed.set(told).is_ok() {
            let _ = self.control.send(&mut [IoSlice::new(&[GIVEN_UP])]);
            self.control.shutdown();
            self.room.ring();
            self.came.ring();
        }
        self.check()?;
        Err(ErrorKind::ConnectionAborted.into())
    }

    /// Sees which writes are done.
    pub(super) fn settle(&self, queue: &mut Queue) -> io::Result<()> {
        let mut ids = [0; 32];
        loop {
            let n = self.pair.sent(&mut ids)?;
            for id in &ids[..n] {
                if id & WORD_ID > 0 {
                    queue.words -= 1;
                    continue;
                }
                if id & READ_ID > 0 {
                    queue.reads += 1;
                    continue;
                }
                if id & CLOSE_ID > 0 {
                    let window = (id & !CLOSE_ID) as usize;
                    queue.windows[window] = None;
                    queue.closed.push(window);
                    continue;
                }
                // Of the last whose completion this is; earlier ones are done, too.
                (queue.bytes, queue.writes) =
                    (queue.bytes + (id >> 16), queue.writes + (id & 0xffff));
            }
            if n < ids.len() {
                return Ok(());
            }
        }
    }

    /// Bytes that may be sent, none if there is no write for them. A word that cannot be true is an
    /// error.
    fn free(&self) -> io::Result<u64> {
        let (sent, writes) = (
            self.sent.load(Ordering::Relaxed),
            self.writes.load(Ordering::Relaxed),
        );
        let [taken, ready] = self.block.word();
        let (taken, ready) = (taken.load(Ordering::Acquire), ready.load(Ordering::Acquire));
        if taken > sent || ready > writes {
            let why = "the peer has taken more than was sent";
            return Err(io::Error::new(ErrorKind::InvalidData, why));
        }
        let mut queue = lock(&self.queue);
        self.take_back(&mut queue, taken)?;
        self.settle(&mut queue)?;
        if writes - ready.min(queue.writes) >= WRITES {
            return Ok(0);
        }
        Ok((RING as u64).saturating_sub(sent - taken.min(queue.bytes)))
    }

    /// Waits until `wanted` bytes may be sent. Whoever waits looks for the peer's word itself: the
    /// receiving thread may be at something else.
    pub(super) fn wait_for_room(&self, wanted: usize) -> io::Result<()> {
        let enough = || -> io::Result<bool> {
            self.check()?;
            if self.ended.load(Ordering::Acquire) {
                return Err(ErrorKind::BrokenPipe.into());
            }
            Ok(self.free()? >= wanted as u64)
        };
        if enough()? {
            return Ok(());
        }
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_micros(50) {
            self.look(&mut lock(&self.input))?;
            if enough()? {
                return Ok(());
            }
            std::thread::yield_now();
        }
        loop {
            self.asleep.sender.store(true, Ordering::SeqCst);
            let slept = self.doze(&self.room, None, Some(LONGEST_SLEEP), enough);
            self.asleep.sender.store(false, Ordering::SeqCst);
            slept?;
            if enough()? {
                return Ok(());
            }
        }
    }

    /// Sleeps once, unless there is `enough` already: until the device, an alarm or the other
    /// connection says something.
    pub(super) fn doze(
        &self,
        own: &Alarm,
        alarm: Option<BorrowedFd<'_>>,
        limit: Option<Duration>,
        enough: impl Fn() -> io::Result<bool>,
    ) -> io::Result<()> {
        {
            let mut input = lock(&self.input);
            self.pair.arm()?;
            self.look(&mut input)?;
        }
        if enough()? {
            return Ok(());
        }
        let fds = [
            Some(self.pair.events()),
            Some(own.as_fd()),
            self.control.socket(),
            self.pair.troubles(),
            alarm,
        ];
        let [event, told, control, trouble, _] = wait_any(fds, limit)?;
        if told {
            own.silence();
        }
        let mut input = lock(&self.input);
        if event {
            self.pair.clear_events()?;
            // The event was for whoever sleeps; another may still.
            self.pair.arm()?;
        }
        self.look(&mut input)?;
        if control {
            self.hear(&mut input)?;
        }
        if trouble {
            self.pair.take_troubles()?;
        }
        Ok(())
    }

    /// What the other connection says: only its end, and that the peer has given up.
    pub(super) fn hear(&self, input: &mut Input) -> io::Result<()> {
        let mut byte = [0];
        match self.control.try_recv(&mut byte) {
            Ok(None) => Ok(()),
            Ok(Some(1)) => Err(io::Error::other(match byte[0] {
                GIVEN_UP => "the peer has given it up",
                _ => "the peer says something else",
            })),
            // What has been written before may still be on its way here.
            Ok(Some(_)) | Err(_) => {
                self.look(input)?;
                self.ended.store(true, Ordering::Release);
                Ok(())
            }
        }
    }

    /// Sees what has come.
    pub(super) fn look(&self, input: &mut Input) -> io::Result<()> {
        let mut immediates = [0; 32];
        let (came, mut word) = (input.came, false);
        loop {
            let n = self.pair.received(&mut immediates)?;
            if n == 0 {
                break;
            }
            for immediate in &immediates[..n] {
                match *immediate {
                    WORD => (word, input.words) = (true, input.words + 1),
                    // Nothing but that it came.
                    0 => input.probes += 1,
                    bytes => {
                        input.came += u64::from(bytes & !LENDS);
                        input.writes += 1;
                        if bytes & LENDS > 0 {
                            self.mark(input, bytes & !LENDS)?;
                        }
                    }
                }
            }
            self.judge(input)?;
            self.pair.receive(n as u32)?;
        }
        if came < input.came {
            self.say(input)?;
        }
        if word {
            let [taken, _] = self.block.word();
            self.take_back(&mut lock(&self.queue), taken.load(Ordering::Acquire))?;
        }
        fence(Ordering::SeqCst);
        if word && self.asleep.sender.load(Ordering::SeqCst) {
            self.room.ring();
        }
        if came < input.came && self.asleep.receiver.load(Ordering::SeqCst) {
            self.came.ring();
        }
        Ok(())
    }

    /// A peer that says more than it may is none.
    fn judge(&self, input: &Input) -> io::Result<()> {
        let sent = self.sent.load(Ordering::Acquire) / MOST as u64;
        let writes = self.writes.load(Ordering::Acquire) / (WRITES / 4);
        let why = if input.came - input.taken > RING as u64 {
            "the peer has written more than there is room for"
        } else if input.words > sent + writes + self.lent.load(Ordering::Acquire)
            || input.probes > 1
        {
            "the peer has nothing to say, and says it again and again"
        } else {
            return Ok(());
        };
        Err(io::Error::new(ErrorKind::InvalidData, why))
    }

    /// Tells the peer what there is room for, once that is worth a word.
    pub(super) fn say(&self, input: &mut Input) -> io::Result<()> {
        let now = [input.taken, input.writes];
        let worth = now[0] - input.told[0] >= MOST as u64 || now[1] - input.told[1] >= WRITES / 4;
        match worth {
            true => self.say_now(input),
            false => Ok(()),
        }
    }

    pub(super) fn say_now(&self, input: &mut Input) -> io::Result<()> {
        let now = [input.taken, input.writes];
        input.told = now;
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&now[0].to_le_bytes());
        bytes[8..].copy_from_slice(&now[1].to_le_bytes());
        let mut queue = lock(&self.queue);
        // The peer cannot have so many that it has not seen: their completions are due.
        while queue.words >= WORDS {
            self.settle(&mut queue)?;
            self.check()?;
            std::thread::yield_now();
        }
        queue.words += 1;
        // SAFETY: these bytes are live, and taken at once.
        unsafe {
            self.pair.write(&Write {
                id: WORD_ID,
                from: bytes.as_ptr(),
                len: bytes.len(),
                local: 0,
                to: self.peer.at,
                remote: self.peer.key,
                immediate: WORD,
                signalled: true,
                inline: true,
            })
        }
    }

    /// Sends a write of no bytes, that the peer sees whether it comes.
    pub(super) fn probe(&self) -> io::Result<()> {
        let mut queue = lock(&self.queue);
        queue.words += 1;
        // SAFETY: there are no bytes.
        unsafe {
            self.pair.write(&Write {
                id: WORD_ID,
                from: std::ptr::null(),
                len: 0,
                local: 0,
                to: self.peer.at,
                remote: self.peer.key,
                immediate: 0,
                signalled: true,
                inline: true,
            })
        }
    }

    /// Waits for the peer's probe.
    pub(super) fn probed(&self, limit: Duration) -> io::Result<()> {
        let until = Instant::now() + limit;
        loop {
            {
                let mut input = lock(&self.input);
                self.look(&mut input)?;
                if input.probes > 0 {
                    return Ok(());
                }
            }
            self.settle(&mut lock(&self.queue))?;
            if Instant::now() > until {
                return Err(ErrorKind::TimedOut.into());
            }
            std::thread::sleep(Duration::from_micros(50));
        }
    }

    /// Sends the next `len` bytes, which lie in their place, and end with a reference if they lend.
    pub(super) fn write(&self, out: &mut Out, len: usize, lends: u32) -> io::Result<()> {
        let sent = self.sent.load(Ordering::Relaxed);
        let at = sent as usize % RING;
        out.silent_bytes += len as u64;
        out.silent_writes += 1;
        let signalled = out.silent_bytes >= SIGNAL_BYTES || out.silent_writes >= SIGNAL_WRITES;
        let id = out.silent_bytes << 16 | out.silent_writes;
        if signalled {
            *out = Out::default();
        }
        // Before the peer can say that it has them.
        self.sent.store(sent + len as u64, Ordering::Release);
        self.writes.fetch_add(1, Ordering::Release);
        let _queue = lock(&self.queue);
        // SAFETY: the bytes lie in the ring, where they stay until `free` says that their write is
        // done.
        unsafe {
            self.pair.write(&Write {
                id,
                from: self.block.outgoing().add(at),
                len,
                local: self.regions.outgoing.keys.local,
                to: self.peer.at + (PAGE + at) as u64,
                remote: self.peer.key,
                immediate: len as u32 | lends,
                signalled,
                inline: false,
            })
        }
    }

    /// The peer has taken so many bytes, and with them what was lent there.
    pub(super) fn take_back(&self, queue: &mut Queue, taken: u64) -> io::Result<()> {
        while let Some(lent) = queue.loans.pop_front_if(|lent| lent.end <= taken) {
            let window = lent.window;
            self.pair.close(window, CLOSE_ID | window as u64)?;
        }
        Ok(())
    }

    /// A write of so many bytes has come that ends with a reference.
    pub(super) fn mark(&self, input: &mut Input, bytes: u32) -> io::Result<()> {
        let end = input.came as usize % RING;
        let whole = end == 0 || end >= Reference::SIZE;
        if (bytes as usize) < Reference::SIZE || !whole {
            return Err(io::Error::new(ErrorKind::InvalidData, LENDS_NOTHING));
        }
        input.marks.push_back(input.came);
        Ok(())
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // First, since what is registered may be in use until then.
        self.pair.stop();
        if let Some(kept) = self.kept.get() {
            kept.leave(&self.me);
        }
    }
}
