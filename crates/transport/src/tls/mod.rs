//! TLS 1.3 over TCP.
//!
//! The handshake is rustls's; the records behind it are our own, on ring's ciphers. So bytes are
//! encrypted in one pass while they are gathered, are decrypted where they are to go, and a
//! connection that is open can be handed to another process: [`Tls::hand_over`].
//!
//! There is no renegotiation, resumption or early data, and keys change long before a cipher's
//! limit. A stream that ends without having said so is a link that was cut: what is above must
//! know when it has all.

mod handshake;
mod identity;
mod input;
mod output;
mod over;
mod schedule;
#[cfg(test)]
pub(crate) mod tests;
mod words;

pub use handshake::{Client, Own, Server, Stranger, Trust, begins_with_tls};
pub use identity::{Certificate, Fingerprint, certificates, private_key};

use crate::Connection;
use crate::lock::lock;
use crate::tcp::Tcp;
use input::Input;
use output::Output;
use over::Over;
use schedule::{Half, SECRET, Secret, Suite};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, TryLockError};
use std::time::{Duration, Instant};
use words::{BAD_RECORD, CLOSE, bad};
use zeroize::Zeroizing;

/// An encrypted connection.
pub struct Tls {
    tcp: Tcp,
    tx: Mutex<Output>,
    rx: Mutex<Input>,
    /// The peer asks for a new key of ours.
    asked: AtomicBool,
    /// Bounds receives.
    limit: Mutex<Option<Duration>>,
}

/// A connection on its way to another process.
pub struct Handed {
    /// The socket.
    pub fd: OwnedFd,
    /// What it takes to go on with an encrypted one; empty for one in clear.
    pub keys: Zeroizing<Vec<u8>>,
}

impl Tls {
    fn new(tcp: Tcp, tx: Half, rx: Half, plain: &[u8], raw: &[u8]) -> Self {
        Self {
            tcp,
            tx: Mutex::new(Output::new(tx)),
            rx: Mutex::new(Input::new(rx, plain, raw)),
            asked: AtomicBool::new(false),
            limit: Mutex::new(None),
        }
    }

    /// The connection below.
    pub fn tcp(&self) -> &Tcp {
        &self.tcp
    }

    /// Gives the connection up, for another process to go on with. Nothing may be sent or received
    /// on it here afterwards: two that use one key for different bytes betray both.
    pub fn hand_over(self) -> Handed {
        let (tx, rx) = (lock(&self.tx), lock(&self.rx));
        let [plain, raw] = rx.left();
        let mut keys = Zeroizing::new(Vec::with_capacity(128 + plain.len() + raw.len()));
        keys.push(tx.half().suite as u8);
        for half in [tx.half(), rx.half()] {
            keys.extend_from_slice(&half.secret()[..]);
            keys.extend_from_slice(&half.records.to_le_bytes());
        }
        keys.extend_from_slice(&(plain.len() as u64).to_le_bytes());
        keys.extend_from_slice(plain);
        keys.extend_from_slice(raw);
        drop((tx, rx));
        Handed {
            fd: self.tcp.into_fd(),
            keys,
        }
    }

    /// Goes on with a connection from another process.
    pub fn take_over(tcp: Tcp, keys: &[u8]) -> io::Result<Self> {
        let parsed = || {
            let (suite, mut rest) = keys.split_first()?;
            let suite = Suite::from_u8(*suite)?;
            let mut half = || {
                let (secret, after) = rest.split_first_chunk::<SECRET>()?;
                let (records, after) = after.split_first_chunk::<8>()?;
                rest = after;
                let secret: Secret = Zeroizing::new(*secret);
                Some(Half::new(suite, secret, u64::from_le_bytes(*records)))
            };
            let (tx, rx) = (half()?, half()?);
            let (plain, rest) = rest.split_first_chunk::<8>()?;
            let (plain, raw) = rest.split_at_checked(u64::from_le_bytes(*plain) as usize)?;
            (rest.len() <= Input::MOST).then_some((tx, rx, plain, raw))
        };
        let (tx, rx, plain, raw) = parsed().ok_or_else(|| bad("keys that are not whole"))?;
        Ok(Self::new(tcp, tx, rx, plain, raw))
    }

    /// Receives through the records. `next` reads from the socket.
    fn through(
        &self,
        buf: &mut [u8],
        next: impl FnMut(&mut [u8]) -> io::Result<Option<usize>>,
    ) -> io::Result<Option<usize>> {
        let mut rx = lock(&self.rx);
        let got = rx.recv(buf, next);
        if std::mem::take(&mut rx.asks) {
            self.asked.store(true, Ordering::Release);
        }
        if let Err(e) = &got
            && e.kind() == io::ErrorKind::InvalidData
        {
            self.say(BAD_RECORD);
            self.tcp.shutdown();
        }
        got
    }

    /// Tells the peer of the end, if that can be done without waiting.
    fn say(&self, [level, what]: [u8; 2]) {
        let mut tx = match self.tx.try_lock() {
            Ok(tx) => tx,
            Err(TryLockError::Poisoned(tx)) => tx.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        tx.alert(level, what, |record| self.tcp.send_now(record));
    }
}

impl Connection for Tls {
    fn send(&self, bufs: &mut [IoSlice<'_>]) -> io::Result<()> {
        let mut tx = lock(&self.tx);
        let update = self.asked.swap(false, Ordering::AcqRel);
        tx.send(&self.tcp, bufs, update)
    }

    fn recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        if buf.is_empty() {
            return Ok(0);
        }
        let limit = *lock(&self.limit);
        let until = limit.map(|d| Instant::now() + d);
        let mut again = false;
        let next = |room: &mut [u8]| {
            // A record that comes byte by byte has one deadline.
            if let Some(until) = until
                && std::mem::replace(&mut again, true)
            {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                self.tcp.recv_timeout(Some(left))?;
            }
            self.tcp.recv(room).map(Some)
        };
        let got = self.through(buf, next);
        if again {
            self.tcp.recv_timeout(limit)?;
        }
        got.map(Option::unwrap_or_default)
    }

    fn try_recv(&self, buf: &mut [u8]) -> io::Result<Option<usize>> {
        if buf.is_empty() {
            return Ok(Some(0));
        }
        self.through(buf, |room| self.tcp.try_recv(room))
    }

    /// What has come already counts; a part of a record may wake who waits.
    fn wait(&self, alarm: Option<BorrowedFd<'_>>, limit: Option<Duration>) -> io::Result<bool> {
        if lock(&self.rx).ready() {
            return Ok(true);
        }
        self.tcp.wait(alarm, limit)
    }

    fn recv_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        *lock(&self.limit) = limit;
        self.tcp.recv_timeout(limit)
    }

    fn shutdown(&self) {
        self.say(CLOSE);
        self.tcp.shutdown();
    }

    fn hung_up(&self) -> bool {
        self.tcp.hung_up()
    }

    fn was_reset(&self) -> bool {
        self.tcp.was_reset()
    }

    fn round_trip(&self) -> Duration {
        self.tcp.round_trip()
    }

    fn ends(&self) -> Option<[SocketAddr; 2]> {
        self.tcp.ends()
    }

    fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.tcp.socket()
    }

    fn seal(&self, below: &Arc<dyn Connection>, context: &[u8]) -> Option<Arc<dyn Connection>> {
        let tx = lock(&self.tx).half().branch(context);
        let rx = lock(&self.rx).half().branch(context);
        Some(Arc::new(Over::new(below.clone(), tx, rx)))
    }

    fn peer(&self) -> String {
        self.tcp.peer()
    }
}
