//! A connection over a network, in clear or encrypted, which one process can hand to another.

use crate::tcp::{Address, Tcp};
use crate::tls::{Client, Handed, Tls};
use crate::{Connection, Dialer};
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// How long a server has for a handshake, however long it took to reach it.
const LEAST_WAIT: Duration = Duration::from_secs(1);

/// Such a connection.
pub enum Stream {
    /// Whoever is in between reads and changes it.
    Clear(Tcp),
    /// Nobody does.
    Encrypted(Box<Tls>),
}

impl Stream {
    fn inner(&self) -> &dyn Connection {
        match self {
            Self::Clear(tcp) => tcp,
            Self::Encrypted(tls) => &**tls,
        }
    }

    fn tcp(&self) -> &Tcp {
        match self {
            Self::Clear(tcp) => tcp,
            Self::Encrypted(tls) => tls.tcp(),
        }
    }

    /// Whether it is.
    pub fn is_encrypted(&self) -> bool {
        matches!(self, Self::Encrypted(_))
    }

    /// Bounds every later send; `None` waits for ever.
    pub fn send_timeout(&self, d: Option<Duration>) -> io::Result<()> {
        self.tcp().send_timeout(d)
    }

    /// Gives it up for another process.
    pub fn hand_over(self) -> Handed {
        match self {
            Self::Clear(tcp) => Handed {
                fd: tcp.into_fd(),
                keys: Zeroizing::default(),
            },
            Self::Encrypted(tls) => tls.hand_over(),
        }
    }

    /// Goes on with one from another process; see [`Handed`].
    pub fn take_over(fd: OwnedFd, keys: &[u8]) -> io::Result<Self> {
        let tcp = Tcp::from_fd(fd)?;
        if keys.is_empty() {
            return Ok(Self::Clear(tcp));
        }
        Ok(Self::Encrypted(Box::new(Tls::take_over(tcp, keys)?)))
    }
}

impl Handed {
    /// The same once more. Only one of the two may ever send.
    pub fn copy(&self) -> io::Result<Self> {
        Ok(Self {
            fd: self.fd.try_clone()?,
            keys: self.keys.clone(),
        })
    }

    /// Goes on with it here.
    pub fn take(self) -> io::Result<Stream> {
        Stream::take_over(self.fd, &self.keys)
    }
}

impl Connection for Stream {
    fn send(&self, bufs: &mut [IoSlice<'_>]) -> io::Result<()> {
        self.inner().send(bufs)
    }

    fn recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.inner().recv(buf)
    }

    fn try_recv(&self, buf: &mut [u8]) -> io::Result<Option<usize>> {
        self.inner().try_recv(buf)
    }

    fn wait(&self, alarm: Option<BorrowedFd<'_>>, limit: Option<Duration>) -> io::Result<bool> {
        self.inner().wait(alarm, limit)
    }

    fn recv_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        self.inner().recv_timeout(limit)
    }

    fn shutdown(&self) {
        self.inner().shutdown();
    }

    fn hung_up(&self) -> bool {
        self.inner().hung_up()
    }

    fn was_reset(&self) -> bool {
        self.inner().was_reset()
    }

    fn round_trip(&self) -> Duration {
        self.inner().round_trip()
    }

    fn ends(&self) -> Option<[SocketAddr; 2]> {
        self.inner().ends()
    }

    fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.inner().socket()
    }

    fn seal(&self, below: &Arc<dyn Connection>, context: &[u8]) -> Option<Arc<dyn Connection>> {
        self.inner().seal(below, context)
    }

    fn peer(&self) -> String {
        self.inner().peer()
    }
}

/// Dials a server, in clear or encrypted.
pub struct Route {
    address: Address,
    tls: Option<Client>,
}

impl Route {
    /// The way to a server; who is there must show what `tls` knows it by.
    pub fn new(address: Address, tls: Option<Client>) -> Self {
        Self { address, tls }
    }

    /// Connects, within `limit`: a connection that can be handed to another process.
    pub fn connect(&self, limit: Duration) -> io::Result<Stream> {
        let begin = Instant::now();
        let tcp = self.address.connect(limit)?;
        match &self.tls {
            None => Ok(Stream::Clear(tcp)),
            Some(tls) => {
                let left = limit.saturating_sub(begin.elapsed()).max(LEAST_WAIT);
                Ok(Stream::Encrypted(Box::new(tls.connect(tcp, left)?)))
            }
        }
    }

    /// Whether nobody can listen in.
    pub fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }
}

impl Dialer for Route {
    fn dial(&self, limit: Duration) -> io::Result<Arc<dyn Connection>> {
        match self.connect(limit)? {
            Stream::Clear(tcp) => Ok(Arc::new(tcp)),
            Stream::Encrypted(tls) => Ok(Arc::new(*tls)),
        }
    }

    fn peer(&self) -> String {
        self.address.peer()
    }
}
