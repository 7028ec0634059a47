//! What kernels print. Drivers print to the stdout of their process, which here is the worker; a
//! pipe takes its place, and what comes out of it goes to the client, always ahead of the answer of
//! the call that waited for the kernel.

use crate::lock::lock;
use crate::outbox::Outbox;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Arc, Mutex};

/// The worker's captured stdout.
#[derive(Clone)]
pub struct Output {
    pipe: Option<Arc<Mutex<OwnedFd>>>,
    outbox: Outbox,
}

impl Output {
    /// Captures this process's stdout. Without a pipe nothing is captured.
    pub fn capture(outbox: Outbox) -> Self {
        let mut fds = [0; 2];
        // SAFETY: room for two descriptors; only our own stdout is replaced.
        let pipe = unsafe {
            if libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
                None
            } else {
                libc::dup2(fds[1], 1);
                libc::close(fds[1]);
                libc::fcntl(fds[0], libc::F_SETFL, libc::O_NONBLOCK);
                Some(Arc::new(Mutex::new(OwnedFd::from_raw_fd(fds[0]))))
            }
        };
        let output = Self { pipe, outbox };
        let reader = output.clone();
        // A kernel that prints more than the pipe holds would wait for ever for somebody to read.
        let _ = std::thread::Builder::new()
            .name("output".into())
            .spawn(move || reader.watch());
        output
    }

    fn watch(&self) {
        let Some(pipe) = &self.pipe else { return };
        let fd = lock(pipe).as_raw_fd();
        loop {
            let mut p = libc::pollfd {
                fd,
                events: libc::POLLIN,
                revents: 0,
            };
            // SAFETY: one live descriptor.
            let n = unsafe { libc::poll(&raw mut p, 1, -1) };
            if n > 0 && p.revents & libc::POLLIN != 0 {
                self.drain();
            } else if n > 0 {
                return;
            }
        }
    }

    /// Sends on what has been printed so far.
    pub fn drain(&self) {
        let Some(pipe) = &self.pipe else { return };
        // SAFETY: flushes every stream of libc, among them the stdout that drivers print to.
        unsafe { libc::fflush(std::ptr::null_mut()) };
        let fd = lock(pipe);
        let mut waiting = 0;
        // SAFETY: asks how many bytes wait in a descriptor of ours.
        unsafe { libc::ioctl(fd.as_raw_fd(), libc::FIONREAD, &raw mut waiting) };
        while waiting > 0 {
            let mut buf = vec![0u8; 64 << 10];
            // SAFETY: the buffer has the length given.
            let n = unsafe { libc::read(fd.as_raw_fd(), buf.as_mut_ptr().cast(), buf.len()) };
            if n <= 0 {
                return;
            }
            self.outbox.output(&buf[..n as usize]);
            waiting -= n as i32;
        }
    }
}
