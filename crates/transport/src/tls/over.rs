//! Records over another connection than the one that their keys come from.

use super::input::Input;
use super::output::Output;
use super::schedule::Half;
use crate::lock::lock;
use crate::{Connection, Path};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A connection that is encrypted by what two ends know from another one.
pub(super) struct Over {
    below: Arc<dyn Connection>,
    tx: Mutex<Output>,
    rx: Mutex<Input>,
    /// The peer asks for a new key of ours.
    asked: AtomicBool,
}

impl Over {
    pub(super) fn new(below: Arc<dyn Connection>, tx: Half, rx: Half) -> Self {
        Self {
            below,
            tx: Mutex::new(Output::new(tx)),
            rx: Mutex::new(Input::new(rx, &[], &[])),
            asked: AtomicBool::new(false),
        }
    }

    fn through(
        &self,
        buf: &mut [u8],
        next: impl FnMut(&mut [u8]) -> io::Result<Option<usize>>,
    ) -> io::Result<Option<usize>> {
        if buf.is_empty() {
            return Ok(Some(0));
        }
        let mut rx = lock(&self.rx);
        let got = rx.recv(buf, next);
        if std::mem::take(&mut rx.asks) {
            self.asked.store(true, Ordering::Release);
        }
        if matches!(&got, Err(e) if e.kind() == io::ErrorKind::InvalidData) {
            self.below.shutdown();
        }
        got
    }
}

impl Connection for Over {
    fn send(&self, bufs: &mut [IoSlice<'_>]) -> io::Result<()> {
        let mut tx = lock(&self.tx);
        let update = self.asked.swap(false, Ordering::AcqRel);
        tx.send(&*self.below, bufs, update)
    }

    fn recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        let next = |room: &mut [u8]| self.below.recv(room).map(Some);
        self.through(buf, next).map(Option::unwrap_or_default)
    }

    fn try_recv(&self, buf: &mut [u8]) -> io::Result<Option<usize>> {
        self.through(buf, |room| self.below.try_recv(room))
    }

    fn wait(&self, alarm: Option<BorrowedFd<'_>>, limit: Option<Duration>) -> io::Result<bool> {
        if lock(&self.rx).ready() {
            return Ok(true);
        }
        self.below.wait(alarm, limit)
    }

    fn recv_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        self.below.recv_timeout(limit)
    }

    fn shutdown(&self) {
        self.below.shutdown();
    }

    fn hung_up(&self) -> bool {
        self.below.hung_up()
    }

    fn was_reset(&self) -> bool {
        self.below.was_reset()
    }

    fn round_trip(&self) -> Duration {
        self.below.round_trip()
    }

    fn ends(&self) -> Option<[SocketAddr; 2]> {
        self.below.ends()
    }

    fn path(&self) -> Path {
        self.below.path()
    }

    fn peer(&self) -> String {
        self.below.peer()
    }
}
