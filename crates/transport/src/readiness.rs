//! Waiting for many sockets at once.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::null_mut;

/// The most sockets that are told of at once; of the others the next call tells.
const AT_ONCE: usize = 64;

/// Sockets, each under a number. It can be waited for itself: it is readable when one of them is.
#[derive(Debug)]
pub struct Readiness(OwnedFd);

impl Readiness {
    /// None yet.
    pub fn new() -> io::Result<Self> {
        // SAFETY: no preconditions; a new descriptor is ours.
        unsafe {
            match libc::epoll_create1(libc::EPOLL_CLOEXEC) {
                -1 => Err(io::Error::last_os_error()),
                fd => Ok(Self(OwnedFd::from_raw_fd(fd))),
            }
        }
    }

    /// One more.
    pub fn add(&self, socket: BorrowedFd<'_>, number: u64) -> io::Result<()> {
        let mut event = libc::epoll_event {
            events: libc::EPOLLIN as u32,
            u64: number,
        };
        let (all, one) = (self.0.as_raw_fd(), socket.as_raw_fd());
        // SAFETY: open descriptors, and a live structure.
        match unsafe { libc::epoll_ctl(all, libc::EPOLL_CTL_ADD, one, &raw mut event) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// One less, which is open still: whoever is handed its copy may not close that.
    pub fn remove(&self, socket: BorrowedFd<'_>) {
        let (all, one) = (self.0.as_raw_fd(), socket.as_raw_fd());
        // SAFETY: open descriptors. It fails only where the socket is not among these.
        unsafe { libc::epoll_ctl(all, libc::EPOLL_CTL_DEL, one, null_mut()) };
    }

    /// The numbers of those that can be read, or have failed; without waiting.
    pub fn now(&self) -> Vec<u64> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; AT_ONCE];
        // SAFETY: as many live entries as said.
        let n = unsafe {
            let most = AT_ONCE as i32;
            libc::epoll_wait(self.0.as_raw_fd(), events.as_mut_ptr(), most, 0)
        };
        let known = &events[..usize::try_from(n).unwrap_or(0)];
        known.iter().map(|e| e.u64).collect()
    }
}

impl AsFd for Readiness {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
