//! Moves bytes between two peers and knows nothing of what they mean.
//!
//! A [`Dialer`] makes connections to a peer, an [`Acceptor`] takes those that peers make, and both
//! give a [`Connection`]: [`tcp`] for networks, [`tls`] for those that nobody
//! trusts, [`mem`] for a client and a worker in one process,
//! [`fault`] around either to break it on purpose. A connection is used by one sending and one
//! receiving thread at a time; `shutdown` may come from any thread and makes both return an error
//! at once. [`shared`] is memory between processes of one host, and [`handover`] how one of them
//! gives another a connection; over a [`baton`] they agree on turns. [`rdma`] moves a connection
//! that is open to a queue pair. [`lock`] is how every crate takes locks.
//!
//! The traits ask for no more than an RDMA queue pair can do: whole slices are sent, and bytes are
//! received in order. What a slice refers to must not change before `send` returns, so a queue pair
//! copies it, unless it lies in memory of which it was told that it stays ([`Kept`]).

mod alarm;
pub mod baton;
pub mod fault;
pub mod handover;
mod kept;
pub mod lock;
pub mod mem;
pub mod rdma;
mod readiness;
pub mod shared;
pub mod stream;
pub mod tcp;
pub mod tls;

pub use alarm::{Alarm, wait_any, wait_readable};
pub use kept::{Kept, Memory, Owner};
pub use readiness::Readiness;

use std::any::Any;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

/// Makes connections to one peer.
pub trait Dialer: Send + Sync {
    /// Connects, within `limit`.
    fn dial(&self, limit: Duration) -> io::Result<Arc<dyn Connection>>;

    /// Who is dialed, for messages.
    fn peer(&self) -> String;
}

/// Takes the connections that peers make.
pub trait Acceptor: Send + Sync {
    /// The next one; `TimedOut` if none comes within `limit`.
    fn accept(&self, limit: Duration) -> io::Result<Arc<dyn Connection>>;
}

/// What bytes pass on their way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Path {
    /// A socket.
    #[default]
    Tcp,
    /// A queue pair.
    Rdma,
}

impl Path {
    /// As people and documents have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Rdma => "rdma",
        }
    }
}

/// What keeps memory from others.
pub type Held = Arc<dyn Any + Send + Sync>;

/// A reliable, ordered, two-way stream of bytes.
pub trait Connection: Send + Sync {
    /// Sends every byte of every slice, or fails.
    fn send(&self, bufs: &mut [IoSlice<'_>]) -> io::Result<()>;

    /// As [`Connection::send`], of memory that is somebody else's once `held` is dropped: that is
    /// when its bytes are needed no more, which is later where the peer's adapter reads them.
    fn send_held(&self, bufs: &mut [IoSlice<'_>], held: Held) -> io::Result<()> {
        let sent = self.send(bufs);
        drop(held);
        sent
    }

    /// Receives at least one byte, and at most `buf.len()`; 0 means that the peer has closed.
    fn recv(&self, buf: &mut [u8]) -> io::Result<usize>;

    /// Receives what is there without waiting; `None` when nothing is. A connection that cannot
    /// tell waits, as `recv` does.
    fn try_recv(&self, buf: &mut [u8]) -> io::Result<Option<usize>> {
        self.recv(buf).map(Some)
    }

    /// Waits until there is something to receive, the end included, or `alarm` rings, or `limit` is
    /// over. Whether there is something; true where that cannot be told. May return early.
    fn wait(&self, _alarm: Option<BorrowedFd<'_>>, _limit: Option<Duration>) -> io::Result<bool> {
        Ok(true)
    }

    /// Bounds every later receive; `None` waits for ever. Does nothing where that cannot be done.
    fn recv_timeout(&self, _limit: Option<Duration>) -> io::Result<()> {
        Ok(())
    }

    /// Tells of memory that stays, whose bytes may be moved in place from now on. Where they
    /// cannot, as with TCP, nothing happens.
    fn attend(&self, _kept: &Arc<Kept>) {}

    /// Ends both directions now; blocked calls return.
    fn shutdown(&self);

    /// Whether the connection has ended, though there may be bytes left to receive. Says no where
    /// it cannot tell.
    fn hung_up(&self) -> bool {
        false
    }

    /// How the peer ended the connection, once `recv` has said that it did.
    fn was_reset(&self) -> bool {
        false
    }

    /// How long a round trip takes, as far as it is known.
    fn round_trip(&self) -> Duration {
        Duration::ZERO
    }

    /// Our address and the peer's, as this end sees them, on a network.
    fn ends(&self) -> Option<[SocketAddr; 2]> {
        None
    }

    /// Which way its bytes go.
    fn path(&self) -> Path {
        Path::Tcp
    }

    /// What can be read when there may be something to receive, to wait for it beside others.
    fn socket(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Encrypts what goes over `below`, which both ends have beside this connection, with keys that
    /// come from this one's and from `context`, which must never be the same twice. `None` where
    /// this one is not encrypted.
    fn seal(&self, _below: &Arc<dyn Connection>, _context: &[u8]) -> Option<Arc<dyn Connection>> {
        None
    }

    /// Who is at the other end, for messages.
    fn peer(&self) -> String;

    /// Receives exactly `buf.len()` bytes.
    fn recv_exact(&self, mut buf: &mut [u8]) -> io::Result<()> {
        while !buf.is_empty() {
            match self.recv(buf)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => buf = &mut buf[n..],
            }
        }
        Ok(())
    }
}
