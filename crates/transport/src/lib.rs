//! Moves bytes between two peers and knows nothing of what they mean.
//!
//! One trait, [`Connection`], and its implementations: [`tcp`] for networks, [`mem`] for a client
//! and a worker in one process, [`fault`] around either to break it on purpose. A connection is
//! used by one sending and one receiving thread at a time; `shutdown` may come from any thread and
//! makes both return an error at once. [`shared`] is memory between processes of one host, and
//! [`handover`] how one of them gives another a connection.

mod alarm;
pub mod fault;
pub mod handover;
pub mod mem;
pub mod shared;
pub mod tcp;

pub use alarm::{Alarm, wait_readable};

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// A reliable, ordered, two-way stream of bytes.
pub trait Connection: Send + Sync {
    /// Sends every byte of every slice, or fails.
    fn send(&self, bufs: &mut [IoSlice<'_>]) -> io::Result<()>;

    /// Receives at least one byte, and at most `buf.len()`; 0 means that the peer has closed.
    fn recv(&self, buf: &mut [u8]) -> io::Result<usize>;

    /// Receives what is there without waiting; `None` when nothing is. A connection that cannot
    /// tell waits, as `recv` does.
    fn try_recv(&self, buf: &mut [u8]) -> io::Result<Option<usize>> {
        self.recv(buf).map(Some)
    }

    /// Waits until there is something to receive, the end included, or `alarm` rings, or `limit` is
    /// over. May return early.
    fn wait(&self, _alarm: BorrowedFd<'_>, _limit: Option<Duration>) -> io::Result<()> {
        Ok(())
    }

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
