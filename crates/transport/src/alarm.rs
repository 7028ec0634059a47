//! Waking a thread that waits for bytes.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// Rings until it is silenced; a thread waits for it together with a connection.
#[derive(Debug)]
pub struct Alarm(OwnedFd);

impl Alarm {
    /// A silent one.
    pub fn new() -> io::Result<Self> {
        // SAFETY: no preconditions; a new descriptor is ours.
        unsafe {
            match libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) {
                -1 => Err(io::Error::last_os_error()),
                fd => Ok(Self(OwnedFd::from_raw_fd(fd))),
            }
        }
    }

    /// Wakes who waits now, or who does so next.
    pub fn ring(&self) {
        let one = 1u64;
        // SAFETY: eight readable bytes. It fails only when it rings already.
        unsafe { libc::write(self.0.as_raw_fd(), (&raw const one).cast(), 8) };
    }

    /// Ends the ringing.
    pub fn silence(&self) {
        let mut count = 0u64;
        // SAFETY: eight writable bytes. It fails only when it does not ring.
        unsafe { libc::read(self.0.as_raw_fd(), (&raw mut count).cast(), 8) };
    }
}

impl AsFd for Alarm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Waits until one of those that are there can be read, or has failed; for at most so long. Which
/// can.
pub fn wait_any<const N: usize>(
    fds: [Option<BorrowedFd<'_>>; N],
    limit: Option<Duration>,
) -> io::Result<[bool; N]> {
    let most = limit.map_or(-1, |d| d.as_millis().clamp(1, i32::MAX as u128) as i32);
    let mut polled = fds.map(|fd| libc::pollfd {
        // The kernel passes over negative ones.
        fd: fd.map_or(-1, |fd| fd.as_raw_fd()),
        events: libc::POLLIN,
        revents: 0,
    });
    loop {
        // SAFETY: as many live entries as said.
        let n = unsafe { libc::poll(polled.as_mut_ptr(), N as libc::nfds_t, most) };
        if n >= 0 {
            return Ok(polled.map(|p| p.revents != 0));
        }
        let e = io::Error::last_os_error();
        if e.kind() != io::ErrorKind::Interrupted {
            return Err(e);
        }
    }
}

/// Waits until one of them can be read, or has failed; for at most so long. Whether the first one
/// can.
pub fn wait_readable(fds: &[BorrowedFd<'_>], limit: Option<Duration>) -> io::Result<bool> {
    let most = limit.map_or(-1, |d| d.as_millis().clamp(1, i32::MAX as u128) as i32);
    let mut polled: Vec<_> = fds
        .iter()
        .map(|fd| libc::pollfd {
            fd: fd.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        })
        .collect();
    loop {
        // SAFETY: as many live entries as said.
        let n = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, most) };
        if n >= 0 {
            return Ok(polled.first().is_some_and(|p| p.revents != 0));
        }
        let e = io::Error::last_os_error();
        if e.kind() != io::ErrorKind::Interrupted {
            return Err(e);
        }
    }
}
