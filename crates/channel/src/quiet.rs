//! A peer that says nothing.
//!
//! TCP keeps a connection for as long as the peer's kernel answers, or whatever stands between. So
//! an end that may not wait for ever asks a peer that owes it something and has been silent for
//! half of its patience: a peer that lives answers a ping at once, whatever it is busy with. Time
//! in which this end itself stood still does not count, since it is added up from short waits.

use crate::Inner;
use std::fmt;
use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The peer has not answered.
#[derive(Debug)]
struct Silence;

impl fmt::Display for Silence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the peer says nothing")
    }
}

impl std::error::Error for Silence {}

/// Whether an error of a connection is [`Quiet::judge`]'s.
pub(crate) fn was_silence(e: &io::Error) -> bool {
    e.get_ref().is_some_and(|e| e.is::<Silence>())
}

/// Waits are cut into so many parts of the patience.
pub(crate) const TICKS: u32 = 4;

/// How long a peer has been silent on a connection.
pub(crate) struct Quiet<'a> {
    inner: &'a Inner,
    limit: Option<Duration>,
    silent: Duration,
    asked: bool,
}

impl<'a> Quiet<'a> {
    /// A new connection, on which the peer may be silent for `limit`.
    pub(crate) fn new(inner: &'a Inner, limit: Option<Duration>) -> Self {
        Self {
            inner,
            limit,
            silent: Duration::ZERO,
            asked: false,
        }
    }

    /// Something was received.
    pub(crate) fn heard(&mut self) {
        (self.silent, self.asked) = (Duration::ZERO, false);
    }

    /// How long to wait before [`Quiet::judge`] is asked again.
    pub(crate) fn tick(&self) -> Option<Duration> {
        self.limit.map(|d| d / TICKS)
    }

    /// Waits by `wait`, in which nothing is heard.
    pub(crate) fn during(&mut self, wait: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let Some(tick) = self.tick() else {
            return wait();
        };
        let start = Instant::now();
        let done = wait();
        // This process, or its machine, may have been stopped meanwhile.
        self.silent += start.elapsed().min(tick);
        done
    }

    /// Whether the peer owes anything: an answer, or the word that it has what was sent.
    fn is_owed(&self) -> bool {
        self.inner.in_flight.load(Ordering::Acquire) > 0
            || self.inner.watch.waiting() > 0
            || self.inner.owed.get().is_some_and(|f| f())
    }

    /// An error when the peer has been silent for too long. Asks it when it might.
    pub(crate) fn judge(&mut self) -> io::Result<()> {
        let Some(limit) = self.limit else {
            return Ok(());
        };
        if !self.is_owed() {
            self.heard();
        } else if !self.asked && self.silent >= limit / 2 {
            // Not from here: the connection may take nothing. Then it has something to answer.
            self.asked = true;
            self.silent = limit / 2;
            self.inner.ping_due.store(true, Ordering::Release);
            self.inner.notify();
        } else if self.asked && self.silent >= limit {
            return Err(io::Error::new(io::ErrorKind::TimedOut, Silence));
        }
        Ok(())
    }
}
