//! A connection that fails on purpose: short transfers, and an end after a chosen number of bytes.

use crate::{Connection, Kept};
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// Wraps a connection and cuts it once `budget` bytes have passed, both directions together.
pub struct Fault {
    inner: Arc<dyn Connection>,
    budget: AtomicI64,
}

impl Fault {
    /// Cuts `inner` after `budget` bytes; a negative budget never cuts.
    pub fn new(inner: Arc<dyn Connection>, budget: i64) -> Self {
        Self {
            inner,
            budget: AtomicI64::new(if budget < 0 { i64::MAX } else { budget }),
        }
    }

    /// Takes up to `wanted` bytes from the budget; fails, and cuts, when none is left.
    fn spend(&self, wanted: usize) -> io::Result<usize> {
        let before = self.budget.fetch_sub(wanted as i64, Ordering::Relaxed);
        if before <= 0 {
            self.inner.shutdown();
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        Ok(wanted.min(before as usize))
    }
}

impl Connection for Fault {
    fn send(&self, bufs: &mut [IoSlice<'_>]) -> io::Result<()> {
        for b in bufs {
            let n = self.spend(b.len())?;
            self.inner.send(&mut [IoSlice::new(&b[..n])])?;
            if n < b.len() {
                self.inner.shutdown();
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
        }
        Ok(())
    }

    fn recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        // Short receives on purpose: whoever assumes that a frame comes in one piece is found out.
        let most = buf.len().clamp(1, 1499);
        let n = self.inner.recv(&mut buf[..most])?;
        if n > 0 {
            self.spend(n)?;
        }
        Ok(n)
    }

    fn attend(&self, kept: &Arc<Kept>) {
        self.inner.attend(kept);
    }

    fn shutdown(&self) {
        self.inner.shutdown();
    }

    fn was_reset(&self) -> bool {
        self.inner.was_reset()
    }

    fn peer(&self) -> String {
        self.inner.peer()
    }
}
