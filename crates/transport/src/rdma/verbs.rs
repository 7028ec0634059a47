//! What a connection asks of an RDMA device, and no more: one reliable connected queue pair, RDMA
//! WRITE with immediate, RDMA READ, memory windows, completions. [`super::ib`] has devices of this
//! machine, [`super::soft`] one in memory.

use crate::Memory;
use std::any::Any;
use std::io;
use std::os::fd::BorrowedFd;

/// Where a queue pair is reached, as the peer has to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Address {
    /// The port's address.
    pub gid: [u8; 16],
    /// The port's short address; 0 on Ethernet.
    pub lid: u16,
    /// Number of the queue pair.
    pub pair: u32,
    /// Number of the first packet that it sends.
    pub packet: u32,
    /// Largest packet, as verbs count: 1 for 256 bytes to 5 for 4096.
    pub mtu: u8,
}

/// Who reads and writes registered memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Writes of this end take bytes from it.
    Sent,
    /// Writes of the peer put bytes there.
    Written,
    /// Reads of this end put bytes there, and the peer reads what is lent to it.
    Lent,
    /// As [`Access::Lent`], without being locked: the device has pages brought in as it gets to
    /// them (on-demand paging). An error where it cannot.
    Paged,
    /// The peer reads and writes all of it, as this end does: for what nothing depends on.
    Open,
}

/// What registered memory is called.
#[derive(Debug, Clone, Copy, Default)]
pub struct Keys {
    /// In requests of this end.
    pub local: u32,
    /// In those of the peer.
    pub remote: u32,
    /// As the device has it.
    pub raw: u64,
}

/// Registered memory, until this is dropped.
pub struct Region {
    /// What it is called.
    pub keys: Keys,
    /// Ends it when dropped.
    pub(super) _end: Box<dyn Any + Send + Sync>,
}

/// How many requests a queue pair must hold.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    /// Sent, and not known to be done.
    pub sends: u32,
    /// Waiting for something to come.
    pub receives: u32,
    /// Bytes that a request may carry in itself.
    pub inline: u32,
}

/// One RDMA WRITE with immediate.
#[derive(Debug, Clone, Copy)]
pub struct Write {
    /// What its completion is called.
    pub id: u64,
    /// Where the bytes lie here, in registered memory unless it is `inline`.
    pub from: *const u8,
    /// How many they are; none at all is allowed.
    pub len: usize,
    /// The local key of that memory.
    pub local: u32,
    /// Where they go at the peer.
    pub to: u64,
    /// The remote key of that memory.
    pub remote: u32,
    /// What the peer is told.
    pub immediate: u32,
    /// Whether there is a completion if all goes well.
    pub signalled: bool,
    /// Whether the bytes are taken at once, so that their memory is free again.
    pub inline: bool,
}

/// One RDMA READ, of which there is a completion.
#[derive(Debug, Clone, Copy)]
pub struct Read {
    /// What its completion is called.
    pub id: u64,
    /// Where the bytes go, in registered memory.
    pub to: *mut u8,
    /// How many they are.
    pub len: usize,
    /// The local key of that memory.
    pub local: u32,
    /// Where they lie at the peer.
    pub from: u64,
    /// The key under which the peer has lent them.
    pub remote: u32,
}

/// What of registered memory is lent to the peer: it may read that, and no more, until the window
/// is closed.
#[derive(Debug, Clone, Copy)]
pub struct Loan {
    /// Where it begins.
    pub at: *const u8,
    /// How many bytes it has.
    pub len: usize,
}

/// Makes queue pairs. A port of an adapter, in most cases.
pub trait Device: Send + Sync {
    /// What it is called, for people.
    fn name(&self) -> String;

    /// A queue pair that is not connected yet.
    fn pair(&self, room: Room) -> io::Result<Box<dyn Pair>>;
}

/// A queue pair with its completion queues and windows, which all end with it.
pub trait Pair: Send + Sync {
    /// Where the peer reaches it.
    fn address(&self) -> Address;

    /// Makes memory known.
    ///
    /// # Safety
    /// It stays mapped until what is returned is dropped, or this queue pair; and where the peer
    /// may write, nothing depends on what is in it.
    unsafe fn register(&self, memory: Memory, access: Access) -> io::Result<Region>;

    /// Makes a window: its number, from 0 on. An error where the device has none.
    fn window(&self) -> io::Result<usize>;

    /// Queues the opening of a window that is closed, ahead of what is queued later: the key that
    /// the peer reads with.
    ///
    /// # Safety
    /// The region is one of this queue pair's device, for [`Access::Lent`], has those bytes, and is
    /// kept until the window is closed.
    unsafe fn open(&self, window: usize, region: &Region, loan: Loan) -> io::Result<u32>;

    /// Queues the closing of a window. Once there is the completion `id`, the peer cannot read any
    /// more.
    fn close(&self, window: usize, id: u64) -> io::Result<()>;

    /// Queues a read.
    ///
    /// # Safety
    /// `to` has `len` writable bytes, which nobody else touches before there is a completion of it
    /// or [`Pair::stop`] has returned.
    unsafe fn read(&self, read: &Read) -> io::Result<()>;

    /// Ends the queue pair: no memory of this end is read or written once this has returned.
    fn stop(&self);

    /// Connects it to the peer's. That one may write from then on.
    fn connect(&self, peer: &Address) -> io::Result<()>;

    /// Queues a write.
    ///
    /// # Safety
    /// `from` has `len` readable bytes. Unless it is inline they are not changed before a
    /// completion of this write or of a later one has been taken.
    unsafe fn write(&self, write: &Write) -> io::Result<()>;

    /// Is ready for `n` writes of the peer more.
    fn receive(&self, n: u32) -> io::Result<()>;

    /// Takes what is known of requests, oldest first: their ids. An error is that of the first that
    /// has failed, and the end of the queue pair.
    fn sent(&self, ids: &mut [u64]) -> io::Result<usize>;

    /// Takes what the peer's writes say, in their order: how many have come.
    fn received(&self, immediates: &mut [u32]) -> io::Result<usize>;

    /// Asks for an event when the peer's next write has come. Those that are here already must be
    /// looked for afterwards.
    fn arm(&self) -> io::Result<()>;

    /// As [`Pair::arm`], for the next completion of a request of this end.
    fn arm_sent(&self) -> io::Result<()>;

    /// Readable when there is an event.
    fn events(&self) -> BorrowedFd<'_>;

    /// Takes all events.
    fn clear_events(&self) -> io::Result<()>;

    /// Readable when something is said of the device; none where nothing ever is.
    fn troubles(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Takes what is said of the device: an error if it cannot be used any more.
    fn take_troubles(&self) -> io::Result<()> {
        Ok(())
    }
}
