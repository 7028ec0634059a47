//! What the device prints comes out of the driver as this process's stdout; it belongs on the
//! client's.

use crate::outbox::Outbox;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

/// The captured stdout. Cheap to clone.
#[derive(Clone)]
pub(super) struct Printed {
    pipe: Arc<Mutex<OwnedFd>>,
    outbox: Outbox,
}

unsafe extern "C" {
    static stdout: *mut libc::FILE;
}

impl Printed {
    /// Puts a pipe in the place of stdout.
    pub(super) fn capture(outbox: Outbox) -> Option<Self> {
        let mut fds = [0; 2];
        // SAFETY: room for two descriptors; dup2 replaces stdout, which nothing here writes to.
        let pipe = unsafe {
            if libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) != 0 {
                return None;
            }
            libc::fcntl(fds[1], libc::F_SETPIPE_SZ, 1 << 20);
            libc::dup2(fds[1], 1);
            libc::close(fds[1]);
            OwnedFd::from_raw_fd(fds[0])
        };
        Some(Self {
            pipe: Arc::new(Mutex::new(pipe)),
            outbox,
        })
    }

    /// Passes on what has been printed so far.
    pub(super) fn flush(&self) {
        let pipe = self.pipe.lock().unwrap_or_else(PoisonError::into_inner);
        let mut buf = [0u8; 16384];
        loop {
            // SAFETY: the C library's own stream; the buffer is as long as said.
            let n = unsafe {
                libc::fflush(stdout);
                libc::read(pipe.as_raw_fd(), buf.as_mut_ptr().cast(), buf.len())
            };
            if n <= 0 {
                return;
            }
            self.outbox.output(&buf[..n as usize]);
        }
    }
}
