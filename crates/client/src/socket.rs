//! The sockets of a process's sessions, and what becomes of them in a fork.

use busbar_transport::Connection;
use busbar_transport::tcp::Tcp;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

/// Descriptors of open sockets; -1 for none. More than a process has: one for each server and API,
/// and perhaps a second for long copies. One that finds no place is only not closed in a child.
static OPEN: [AtomicI32; 64] = [const { AtomicI32::new(-1) }; 64];

/// A session's connection. Its descriptor is known to [`abandon`] for exactly as long as it is
/// open: the number may be a file of the program's afterwards.
pub(crate) struct Socket {
    tcp: Tcp,
    place: Option<&'static AtomicI32>,
}

impl Socket {
    /// A connection that is to end with this process.
    pub(crate) fn new(tcp: Tcp) -> Self {
        tcp.reset_on_death(true);
        let fd = tcp.raw_fd();
        let free = |p: &&AtomicI32| {
            p.compare_exchange(-1, fd, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        };
        let place = OPEN.iter().find(free);
        Self { tcp, place }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if let Some(p) = self.place {
            p.store(-1, Ordering::Release);
        }
    }
}

/// In the child of a fork: closes the child's copies of the connections, so that the workers notice
/// when the parent dies. Safe between fork and exec: it takes no lock and allocates nothing.
pub(crate) fn abandon() {
    for place in &OPEN {
        let fd = place.swap(-1, Ordering::AcqRel);
        if fd >= 0 {
            // SAFETY: the descriptor is this process's copy; its owner is never dropped here, since
            // the threads that own it exist in the parent only.
            unsafe { libc::close(fd) };
        }
    }
}

impl Connection for Socket {
    fn send(&self, bufs: &mut [IoSlice<'_>]) -> io::Result<()> {
        self.tcp.send(bufs)
    }
    fn recv(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.tcp.recv(buf)
    }
    fn try_recv(&self, buf: &mut [u8]) -> io::Result<Option<usize>> {
        self.tcp.try_recv(buf)
    }
    fn wait(&self, alarm: BorrowedFd<'_>, limit: Option<Duration>) -> io::Result<()> {
        self.tcp.wait(alarm, limit)
    }
    fn hung_up(&self) -> bool {
        self.tcp.hung_up()
    }
    fn shutdown(&self) {
        self.tcp.shutdown();
    }
    fn was_reset(&self) -> bool {
        self.tcp.was_reset()
    }
    fn peer(&self) -> String {
        self.tcp.peer()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn every_socket_is_known_while_it_is_open_and_no_longer() {
        let l = TcpListener::bind("127.0.0.1:0").unwrap();
        let pair = || {
            let there = TcpStream::connect(l.local_addr().unwrap()).unwrap();
            (Tcp::new(l.accept().unwrap().0).unwrap(), there)
        };
        let known = |fd: i32| OPEN.iter().any(|p| p.load(Ordering::Acquire) == fd);
        let all: Vec<_> = (0..3).map(|_| pair()).collect();
        let (here, there): (Vec<_>, Vec<_>) = all.into_iter().unzip();
        let sockets: Vec<_> = here.into_iter().map(Socket::new).collect();
        let fds: Vec<_> = sockets.iter().map(|s| s.tcp.raw_fd()).collect();
        assert!(fds.iter().all(|fd| known(*fd)));
        drop(sockets);
        assert!(!fds.iter().any(|fd| known(*fd)));
        // Whoever is at the other end sees a reset, as of a process that has died.
        for mut t in there {
            assert!(t.read(&mut [0]).is_err());
        }
    }
}
