//! TCP, tuned for many small frames and a few very large ones.

use crate::{Acceptor, Connection, Dialer};
use std::any::Any;
use std::io::{self, IoSlice, Read};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A TCP connection.
#[derive(Debug)]
pub struct Tcp {
    /// See [`Address::guarded`]. Before the stream, so that it is dropped first.
    _guard: Option<Box<dyn Any + Send + Sync>>,
    stream: TcpStream,
    reset: AtomicBool,
}

/// Bytes asked for as socket buffer in each direction: enough for 10 Gb/s over 10 ms.
const SOCKET_BUFFER: i32 = 8 << 20;
/// As many parts as the kernel takes at once.
const MOST_PARTS: usize = 1024;
/// How long a peer may leave data unacknowledged before the kernel calls the link dead.
const USER_TIMEOUT_MS: i32 = 20_000;

impl Tcp {
    /// Takes over a connected stream.
    pub fn new(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        let fd = stream.as_raw_fd();
        // The kernel clamps what it does not want to give; a failure here costs speed, not safety.
        // Setting SO_RCVBUF would switch off auto-tuning, so only the send side is raised.
        let _ = set(fd, libc::SOL_SOCKET, libc::SO_SNDBUF, SOCKET_BUFFER);
        let _ = set(fd, libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1);
        let _ = set(fd, libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, 5);
        let _ = set(fd, libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, 5);
        let _ = set(fd, libc::IPPROTO_TCP, libc::TCP_KEEPCNT, 4);
        let _ = set(
            fd,
            libc::IPPROTO_TCP,
            libc::TCP_USER_TIMEOUT,
            USER_TIMEOUT_MS,
        );
        Ok(Self {
            _guard: None,
            stream,
            reset: AtomicBool::new(false),
        })
    }

    /// Connects to `addr` (`HOST:PORT`), trying every address it resolves to within `timeout`.
    pub fn connect(addr: &str, timeout: Duration) -> io::Result<Self> {
        let deadline = Instant::now() + timeout;
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        let all: Vec<_> = addr.to_socket_addrs()?.collect();
        for (i, a) in all.iter().enumerate() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                last = io::ErrorKind::TimedOut.into();
                break;
            }
            // One that swallows everything must leave some time to those after it.
            let share = left / (all.len() - i) as u32;
            match TcpStream::connect_timeout(a, share) {
                Ok(s) => return Self::new(s),
                Err(e) => last = e,
            }
        }
        Err(last)
    }

    /// Makes the kernel send a reset instead of an orderly close when the process dies, so that the
    /// worker can tell a dead client from one that a middle box cut off.
    pub fn reset_on_death(&self, on: bool) {
        let v = libc::linger {
            l_onoff: on.into(),
            l_linger: 0,
        };
        // SAFETY: the pointer is to a live `linger` of the size given.
        unsafe {
            libc::setsockopt(
                self.stream.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_LINGER,
                (&raw const v).cast(),
                size_of::<libc::linger>() as u32,
            );
        }
    }

    /// Bounds every later send; `None` waits for ever.
    pub fn send_timeout(&self, d: Option<Duration>) -> io::Result<()> {
        self.stream.set_write_timeout(d)
    }

    /// Sends what the socket takes at once, if that is all; else the peer misses it.
    pub(crate) fn send_now(&self, bytes: &[u8]) {
        let how = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
        // SAFETY: as many readable bytes as said.
        unsafe { libc::send(self.raw_fd(), bytes.as_ptr().cast(), bytes.len(), how) };
    }

    /// Sends no more, and lets the peer read what was sent last: what it has sent itself and nobody
    /// has read would take that away from it. Takes so long at most.
    pub fn last_words(&self, limit: Duration) {
        let _ = self.stream.shutdown(Shutdown::Write);
        let (until, mut room) = (Instant::now() + limit, [0; 1 << 10]);
        for _ in 0..64 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero()
                || self.recv_timeout(Some(left)).is_err()
                || !matches!(self.recv(&mut room), Ok(n) if n > 0)
            {
                break;
            }
        }
    }

    /// The first bytes to come, which stay to be received; fewer at the end, or once the limit of
    /// receiving is over.
    pub fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        let how = libc::MSG_PEEK | libc::MSG_WAITALL;
        // SAFETY: as many writable bytes as said.
        let n = unsafe { libc::recv(self.raw_fd(), buf.as_mut_ptr().cast(), buf.len(), how) };
        usize::try_from(n).map_err(|_| io::Error::last_os_error())
    }

    /// Another handle of the same connection.
    pub fn copy(&self) -> io::Result<Self> {
        Self::new(self.stream.try_clone()?)
    }

    /// The socket, to be handed to another process.
    pub fn into_fd(self) -> OwnedFd {
        self.stream.into()
    }

    /// Takes over a socket from another process.
    pub fn from_fd(fd: OwnedFd) -> io::Result<Self> {
        Self::new(TcpStream::from(fd))
    }

    /// The number of the socket.
    pub fn raw_fd(&self) -> i32 {
        self.stream.as_raw_fd()
    }

    /// A TCP connection over a raw descriptor that the caller owns.
    ///
    /// # Safety
    /// `fd` is an open stream socket that nothing else closes.
    pub unsafe fn from_raw_fd(fd: i32) -> io::Result<Self> {
        // SAFETY: passed on to the caller.
        Self::from_fd(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    /// Sends some bytes. Never by `write`: a connection that its peer has closed would raise
    /// SIGPIPE, which is the death of the program that we are a guest in.
    fn send_some(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        // SAFETY: zero is a valid value of the structure.
        let mut m: libc::msghdr = unsafe { std::mem::zeroed() };
        m.msg_iov = bufs.as_ptr().cast_mut().cast();
        m.msg_iovlen = bufs.len().min(MOST_PARTS) as _;
        let fd = self.stream.as_raw_fd();
        // SAFETY: an `IoSlice` is laid out as an `iovec`, and the kernel only reads what they name.
        let n = unsafe { libc::sendmsg(fd, &raw const m, libc::MSG_NOSIGNAL) };
        usize::try_from(n).map_err(|_| io::Error::last_os_error())
    }

    fn note(&self, e: io::Error) -> io::Error {
        if e.kind() == io::ErrorKind::ConnectionReset || e.kind() == io::ErrorKind::BrokenPipe {
            self.reset.store(true, Ordering::Relaxed);
        }
        e
    }
}

/// Dials a server by its `HOST:PORT`.
pub struct Address {
    server: String,
    guard: fn(&Tcp) -> Option<Box<dyn Any + Send + Sync>>,
}

impl Address {
    /// The server of that name.
    pub fn new(server: &str) -> Self {
        Self::guarded(server, |_| None)
    }

    /// The same; what `guard` makes of each connection is dropped just before that is closed.
    pub fn guarded(server: &str, guard: fn(&Tcp) -> Option<Box<dyn Any + Send + Sync>>) -> Self {
        let server = server.into();
        Self { server, guard }
    }
}

impl Address {
    /// Connects, within `limit`.
    pub fn connect(&self, limit: Duration) -> io::Result<Tcp> {
        let mut conn = Tcp::connect(&self.server, limit)?;
        conn._guard = (self.guard)(&conn);
        Ok(conn)
    }
}

impl Dialer for Address {
    fn dial(&self, limit: Duration) -> io::Result<Arc<dyn Connection>> {
        Ok(Arc::new(self.connect(limit)?))
    }

    fn peer(&self) -> String {
        self.server.clone()
    }
}

impl Acceptor for TcpListener {
    fn accept(&self, limit: Duration) -> io::Result<Arc<dyn Connection>> {
        let until = Instant::now() + limit;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            crate::wait_readable(&[self.as_fd()], Some(left))?;
            self.set_nonblocking(true)?;
            let next = TcpListener::accept(self);
            self.set_nonblocking(false)?;
            match next {
                Ok((stream, _)) => return Ok(Arc::new(Tcp::new(stream)?)),
                Err(e) if e.kind() != io::ErrorKind::WouldBlock => return Err(e),
                Err(_) if left.is_zero() => return Err(io::ErrorKind::TimedOut.into()),
                Err(_) => {}
            }
        }
    }
}

/// The most clients that the system holds for a server until it accepts them. Whoever comes when
/// they are so many asks again after a second, and of the 128 of the standard library a flood
/// leaves none for others. The system may hold fewer (`net.core.somaxconn`).
const MOST_HELD: i32 = 4096;

/// Has the system hold so many.
pub fn hold_many(listener: &TcpListener) {
    // SAFETY: a call on a live socket, which listens already; at worst it stays as it was.
    unsafe { libc::listen(listener.as_raw_fd(), MOST_HELD) };
}

/// Has a socket count as readable from so many bytes on. At its end, and where the system has no
/// room for as many, it does so before. A call that receives waits for as many, too.
pub fn readable_from(stream: &TcpStream, bytes: usize) -> io::Result<()> {
    let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
    set(
        stream.as_raw_fd(),
        libc::SOL_SOCKET,
        libc::SO_RCVLOWAT,
        bytes,
    )
}

/// The first of the bytes that are there, which stay to be received. 0 at the end.
pub fn peek_now(stream: &TcpStream, buf: &mut [u8]) -> io::Result<usize> {
    let how = libc::MSG_PEEK | libc::MSG_DONTWAIT;
    // SAFETY: as many writable bytes as said.
    let n = unsafe { libc::recv(stream.as_raw_fd(), buf.as_mut_ptr().cast(), buf.len(), how) };
    usize::try_from(n).map_err(|_| io::Error::last_os_error())
}

/// How many bytes have come and are not received.
pub fn unread(stream: &TcpStream) -> usize {
    let mut n = 0i32;
    // SAFETY: a live socket, and a pointer to a live number.
    unsafe { libc::ioctl(stream.as_raw_fd(), libc::FIONREAD, &raw mut n) };
    usize::try_from(n).unwrap_or(0)
}

fn set(fd: i32, level: i32, name: i32, value: i32) -> io::Result<()> {
    // SAFETY: the pointer is to a live i32 of the size given.
    let rc = unsafe {
        libc::setsockopt(
            fd,
            level,
            name,
            (&raw const value).cast(),
            size_of::<i32>() as u32,
        )
    };
    if rc == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

impl Connection for Tcp {
    fn send(&self, mut bufs: &mut [IoSlice<'_>]) -> io::Result<()> {
        IoSlice::advance_slices(&mut bufs, 0);
        while !bufs.is_empty() {
            match self.send_some(bufs) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => IoSlice::advance_slices(&mut bufs, n),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.note(e)),
            }
        }
        Ok(())
    }

    fn recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            match (&self.stream).read(buf) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                r => return r.map_err(|e| self.note(e)),
            }
        }
    }

    fn try_recv(&self, buf: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            // SAFETY: as many writable bytes as said.
            let n = unsafe {
                libc::recv(
                    self.raw_fd(),
                    buf.as_mut_ptr().cast(),
                    buf.len(),
                    libc::MSG_DONTWAIT,
                )
            };
            if let Ok(n) = usize::try_from(n) {
                return Ok(Some(n));
            }
            let e = io::Error::last_os_error();
            match e.kind() {
                io::ErrorKind::Interrupted => {}
                io::ErrorKind::WouldBlock => return Ok(None),
                _ => return Err(self.note(e)),
            }
        }
    }

    fn wait(&self, alarm: Option<BorrowedFd<'_>>, limit: Option<Duration>) -> io::Result<bool> {
        let ours = self.stream.as_fd();
        match alarm {
            Some(alarm) => crate::wait_readable(&[ours, alarm], limit),
            None => crate::wait_readable(&[ours], limit),
        }
    }

    fn recv_timeout(&self, d: Option<Duration>) -> io::Result<()> {
        self.stream.set_read_timeout(d)
    }

    /// An IPv4 address always in its own form.
    fn ends(&self) -> Option<[SocketAddr; 2]> {
        let plain = |a: SocketAddr| SocketAddr::new(a.ip().to_canonical(), a.port());
        let (ours, theirs) = (
            self.stream.local_addr().ok()?,
            self.stream.peer_addr().ok()?,
        );
        Some([plain(ours), plain(theirs)])
    }

    fn hung_up(&self) -> bool {
        let mut polled = libc::pollfd {
            fd: self.raw_fd(),
            events: libc::POLLRDHUP,
            revents: 0,
        };
        // SAFETY: one live entry; it does not wait.
        unsafe { libc::poll(&raw mut polled, 1, 0) > 0 }
    }

    fn shutdown(&self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    fn socket(&self) -> Option<BorrowedFd<'_>> {
        Some(self.stream.as_fd())
    }

    fn was_reset(&self) -> bool {
        self.reset.load(Ordering::Relaxed)
    }

    fn round_trip(&self) -> Duration {
        // SAFETY: zero is a valid value of the structure.
        let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
        let mut size = size_of::<libc::tcp_info>() as libc::socklen_t;
        // SAFETY: the pointers are to live values, and `size` is the first one's.
        let rc = unsafe {
            libc::getsockopt(
                self.stream.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                (&raw mut info).cast(),
                &raw mut size,
            )
        };
        match rc {
            0 => Duration::from_micros(info.tcpi_rtt.into()),
            _ => Duration::ZERO,
        }
    }

    fn peer(&self) -> String {
        self.stream
            .peer_addr()
            .map_or_else(|_| "a closed connection".into(), |a| a.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crowd_that_nobody_has_accepted_keeps_nobody_out() {
        let most = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        hold_many(&listener);
        let at = listener.local_addr().unwrap();
        let limit = Duration::from_secs(20);
        let crowd = most.trim().parse::<usize>().unwrap().min(400);
        let all: Result<Vec<_>, _> = (0..crowd)
            .map(|_| TcpStream::connect_timeout(&at, limit))
            .collect();
        assert_eq!(all.unwrap().len(), crowd);
    }
}
