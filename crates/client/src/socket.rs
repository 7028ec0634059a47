//! The sockets of a process's sessions, and what becomes of them in a fork.

use busbar_transport::tcp::{Address, Tcp};
use std::sync::atomic::{AtomicI32, Ordering};

/// Descriptors of open sockets; -1 for none. More than a process has: one for each server and API,
/// and perhaps a second for long copies. One that finds no place is only not closed in a child.
static OPEN: [AtomicI32; 64] = [const { AtomicI32::new(-1) }; 64];

/// A connection's place in the list, for exactly as long as its descriptor is open: the number may
/// be a file of the program's afterwards.
struct Place(&'static AtomicI32);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.store(-1, Ordering::Release);
    }
}

/// Dials a session's server by its `HOST:PORT`. The connections end with this process.
pub(crate) fn address(server: &str) -> Address {
    Address::guarded(server, |tcp: &Tcp| {
        tcp.reset_on_death(true);
        let fd = tcp.raw_fd();
        let free = |p: &&AtomicI32| {
            p.compare_exchange(-1, fd, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
        };
        Some(Box::new(Place(OPEN.iter().find(free)?)))
    })
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

#[cfg(test)]
mod tests {
    use super::*;
    use busbar_transport::Dialer;
    use std::io::Read;
    use std::net::TcpListener;
    use std::time::Duration;

    #[test]
    fn every_socket_is_known_while_it_is_open_and_no_longer() {
        let l = TcpListener::bind("127.0.0.1:0").unwrap();
        let dialer = address(&l.local_addr().unwrap().to_string());
        let known = || {
            OPEN.iter()
                .filter(|p| p.load(Ordering::Acquire) >= 0)
                .count()
        };
        let pair = || {
            let here = dialer.dial(Duration::from_secs(10)).unwrap();
            (here, l.accept().unwrap().0)
        };
        let (here, there): (Vec<_>, Vec<_>) = (0..3).map(|_| pair()).unzip();
        assert_eq!(known(), 3);
        drop(here);
        assert_eq!(known(), 0);
        // Whoever is at the other end sees a reset, as of a process that has died.
        for mut t in there {
            assert!(t.read(&mut [0]).is_err());
        }
    }
}
