//! What the device prints comes out of the driver as this process's stdout, and a failed
//! assertion's message as its stderr; both belong on the client's.

use crate::lock::lock;
use crate::outbox::Outbox;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard};

/// The longest line of stderr that is put together before it goes on as it is.
const LONGEST: usize = 64 << 10;

struct Pipes {
    out: OwnedFd,
    err: OwnedFd,
    /// The beginning of a line of stderr.
    begun: Vec<u8>,
    /// This process's own stderr.
    own: std::fs::File,
}

/// The captured outputs. Cheap to clone.
#[derive(Clone)]
pub(super) struct Printed {
    pipes: Arc<Mutex<Pipes>>,
    outbox: Outbox,
}

unsafe extern "C" {
    static stdout: *mut libc::FILE;
}

/// A pipe in the place of descriptor `of`: its reading end, which does not block.
fn replace(of: i32) -> Option<OwnedFd> {
    let mut fds = [0; 2];
    // SAFETY: room for two descriptors; dup2 replaces one that every process has.
    unsafe {
        if libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return None;
        }
        libc::fcntl(fds[1], libc::F_SETPIPE_SZ, 1 << 20);
        libc::fcntl(fds[0], libc::F_SETFL, libc::O_NONBLOCK);
        libc::dup2(fds[1], of);
        libc::close(fds[1]);
        Some(OwnedFd::from_raw_fd(fds[0]))
    }
}

/// Whether a line is the driver's message of a failed assertion: file, line, function, block,
/// thread and what did not hold. Whatever else comes out there is for the server's log.
fn is_assertion(line: &[u8]) -> bool {
    let line = String::from_utf8_lossy(line);
    line.contains(": block: [") && line.contains("Assertion `") && line.contains("` failed")
}

impl Printed {
    /// Puts pipes in the place of stdout and stderr.
    pub(super) fn capture(outbox: Outbox) -> Option<Self> {
        // SAFETY: a copy of a descriptor that every process has.
        let own = unsafe {
            let fd = libc::fcntl(2, libc::F_DUPFD_CLOEXEC, 3);
            (fd >= 0).then(|| std::fs::File::from_raw_fd(fd))?
        };
        let pipes = Pipes {
            out: replace(1)?,
            err: replace(2)?,
            begun: Vec::new(),
            own,
        };
        let me = Self {
            pipes: Arc::new(Mutex::new(pipes)),
            outbox,
        };
        let reader = me.clone();
        // Whoever prints more than a pipe holds would wait for ever for somebody to read.
        let watch = move || reader.watch();
        let named = std::thread::Builder::new().name("printed".into());
        named.spawn(watch).ok()?;
        Some(me)
    }

    fn lock(&self) -> MutexGuard<'_, Pipes> {
        lock(&self.pipes)
    }

    /// Passes on whatever comes, for as long as the process lives.
    fn watch(&self) {
        let (out, err) = {
            let p = self.lock();
            (p.out.as_raw_fd(), p.err.as_raw_fd())
        };
        loop {
            if readable(out, err, -1) {
                self.drain();
            }
        }
    }

    /// Passes on what has been printed so far.
    pub(super) fn flush(&self) {
        // SAFETY: the C library's own stream. A full pipe is emptied by the thread that watches it.
        unsafe { libc::fflush(stdout) };
        self.drain();
    }

    /// Passes on what has been printed and gives stderr back: a process that ends would take with
    /// it what still lies in a pipe.
    pub(super) fn close(&self) {
        // SAFETY: two live descriptors.
        unsafe { libc::dup2(self.lock().own.as_raw_fd(), 2) };
        self.flush();
    }

    fn drain(&self) {
        let mut p = self.lock();
        // Every call that waits comes here, and next to none of them has printed.
        if !readable(p.out.as_raw_fd(), p.err.as_raw_fd(), 0) {
            return;
        }
        let mut buf = vec![0u8; 64 << 10];
        while let Some(n) = read(&p.out, &mut buf) {
            self.outbox.output(&buf[..n]);
        }
        let mut told = Vec::new();
        while let Some(n) = read(&p.err, &mut buf) {
            p.begun.extend_from_slice(&buf[..n]);
            while let Some(end) = p.begun.iter().position(|b| *b == b'\n') {
                let rest = p.begun.split_off(end + 1);
                let line = std::mem::replace(&mut p.begun, rest);
                if is_assertion(&line) {
                    told.extend_from_slice(&line);
                } else {
                    let _ = p.own.write_all(&line);
                }
            }
            if p.begun.len() > LONGEST {
                let part = std::mem::take(&mut p.begun);
                let _ = p.own.write_all(&part);
            }
        }
        if !told.is_empty() {
            self.outbox.complaint(&told);
        }
    }
}

/// Whether one of two live descriptors has something, within so many milliseconds (-1: any number).
fn readable(one: RawFd, other: RawFd, within: i32) -> bool {
    let mut fds = [one, other].map(|fd| libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    });
    // SAFETY: as many live entries as said.
    unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, within) > 0 }
}

fn read(from: &OwnedFd, buf: &mut [u8]) -> Option<usize> {
    // SAFETY: the buffer is as long as said.
    let n = unsafe { libc::read(from.as_raw_fd(), buf.as_mut_ptr().cast(), buf.len()) };
    usize::try_from(n).ok().filter(|n| *n > 0)
}

#[cfg(test)]
mod tests {
    use super::is_assertion;

    #[test]
    fn only_assertions_are_for_the_client() {
        assert!(is_assertion(
            b"a.cu:14: void must(int): block: [0,0,0], thread: [3,0,0] Assertion `holds` failed.\n"
        ));
        assert!(!is_assertion(b"busbar worker: Assertion `x` failed.\n"));
        assert!(!is_assertion(b"free(): invalid pointer\n"));
    }
}
