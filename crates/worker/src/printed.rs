//! What the device prints comes out of a driver as this process's stdout, and a failed assertion's
//! message as its stderr; both belong on the client's, ahead of the answer of the call that waited
//! for the kernel.

use crate::outbox::Outbox;
use crate::prelude::*;
use busbar_channel::alone;
use busbar_control::text::one_line;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// The longest line of stderr that is put together before it goes on as it is.
const LONGEST: usize = 64 << 10;

struct Pipes {
    out: OwnedFd,
    err: Option<Stderr>,
}

struct Stderr {
    pipe: OwnedFd,
    /// The beginning of a line.
    begun: Vec<u8>,
    /// This process's own.
    own: File,
}

/// The captured outputs. Cheap to clone.
#[derive(Clone)]
pub struct Printed {
    /// None when they could not be captured.
    pipes: Option<Arc<Mutex<Pipes>>>,
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

/// What the client is told of a line, if that is the driver's message of a failed assertion: file,
/// line, function, block, thread and what did not hold. Whatever else comes out there is for the
/// server's log. The program's terminal obeys nothing that is in it.
fn assertion(line: &[u8]) -> Option<String> {
    let line = String::from_utf8_lossy(line);
    let is =
        line.contains(": block: [") && line.contains("Assertion `") && line.contains("` failed");
    is.then(|| one_line(line.trim_end_matches('\n'), LONGEST) + "\n")
}

impl Stderr {
    fn capture() -> Option<Self> {
        // SAFETY: a copy of a descriptor that every process has.
        let own = unsafe {
            let fd = libc::fcntl(2, libc::F_DUPFD_CLOEXEC, 3);
            (fd >= 0).then(|| File::from_raw_fd(fd))?
        };
        let (pipe, begun) = (replace(2)?, Vec::new());
        Some(Self { pipe, begun, own })
    }

    /// What is for the client of all that has come.
    fn read(&mut self, buf: &mut [u8]) -> String {
        let mut told = String::new();
        while let Some(n) = read(&self.pipe, buf) {
            self.begun.extend_from_slice(&buf[..n]);
            while let Some(end) = self.begun.iter().position(|b| *b == b'\n') {
                let rest = self.begun.split_off(end + 1);
                let line = std::mem::replace(&mut self.begun, rest);
                match assertion(&line) {
                    Some(text) => told += &text,
                    None => _ = self.own.write_all(&line),
                }
            }
            if self.begun.len() > LONGEST {
                let part = std::mem::take(&mut self.begun);
                let _ = self.own.write_all(&part);
            }
        }
        told
    }
}

impl Printed {
    /// Puts pipes in the place of stdout and, if told so, of stderr.
    pub fn capture(outbox: Outbox, err: bool) -> Self {
        if alone::is_set() {
            // Nobody reads while somebody prints.
            return Self {
                pipes: None,
                outbox,
            };
        }
        let err = if err { Stderr::capture() } else { None };
        let pipes = replace(1).map(|out| Arc::new(Mutex::new(Pipes { out, err })));
        let me = Self { pipes, outbox };
        let reader = me.clone();
        // Whoever prints more than a pipe holds would wait for ever for somebody to read.
        let watch = move || reader.watch();
        let named = std::thread::Builder::new().name("printed".into());
        let _ = named.spawn(watch);
        me
    }

    /// Passes on whatever comes, for as long as the process lives.
    fn watch(&self) {
        let Some(pipes) = &self.pipes else { return };
        let fds = lock(pipes).fds();
        loop {
            if readable(fds, -1) {
                self.drain();
            }
        }
    }

    /// Passes on what has been printed so far.
    pub fn flush(&self) {
        // SAFETY: the C library's own stream. A full pipe is emptied by the thread that watches it.
        unsafe { libc::fflush(stdout) };
        self.drain();
    }

    /// Passes on what has been printed and gives stderr back: a process that ends would take with
    /// it what still lies in a pipe.
    pub fn close(&self) {
        let pipes = self.pipes.as_ref().map(|p| lock(p));
        if let Some(err) = pipes.as_ref().and_then(|p| p.err.as_ref()) {
            // SAFETY: two live descriptors.
            unsafe { libc::dup2(err.own.as_raw_fd(), 2) };
        }
        drop(pipes);
        self.flush();
    }

    fn drain(&self) {
        let Some(pipes) = &self.pipes else { return };
        let mut p = lock(pipes);
        // Every call that waits comes here, and next to none of them has printed.
        if !readable(p.fds(), 0) {
            return;
        }
        let mut buf = vec![0u8; 64 << 10];
        while let Some(n) = read(&p.out, &mut buf) {
            self.outbox.output(&buf[..n]);
        }
        let told = p.err.as_mut().map(|e| e.read(&mut buf)).unwrap_or_default();
        if !told.is_empty() {
            self.outbox.complaint(told.as_bytes());
        }
    }
}

impl Pipes {
    /// What is read from; a negative one is none.
    fn fds(&self) -> [RawFd; 2] {
        let err = self.err.as_ref().map_or(-1, |e| e.pipe.as_raw_fd());
        [self.out.as_raw_fd(), err]
    }
}

/// Whether one of these has something, within so many milliseconds (-1: any number).
fn readable(fds: [RawFd; 2], within: i32) -> bool {
    let mut fds = fds.map(|fd| libc::pollfd {
        fd,
        events: libc::POLLIN,
        revents: 0,
    });
    // SAFETY: as many entries as said, of live descriptors or none.
    unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, within) > 0 }
}

fn read(from: &OwnedFd, buf: &mut [u8]) -> Option<usize> {
    // SAFETY: the buffer is as long as said.
    let n = unsafe { libc::read(from.as_raw_fd(), buf.as_mut_ptr().cast(), buf.len()) };
    usize::try_from(n).ok().filter(|n| *n > 0)
}

#[cfg(test)]
mod tests {
    use super::assertion;

    #[test]
    fn only_assertions_are_for_the_client() {
        let line =
            "a.cu:14: void must(int): block: [0,0,0], thread: [3,0,0] Assertion `x` failed.\n";
        assert_eq!(assertion(line.as_bytes()).as_deref(), Some(line));
        assert_eq!(assertion(b"busbar worker: Assertion `x` failed.\n"), None);
        assert_eq!(assertion(b"free(): invalid pointer\n"), None);
    }

    #[test]
    fn a_terminal_obeys_nothing_of_an_assertion() {
        let line = b"a\x1b[2J\r.cu: block: [0,0,0] Assertion `\x07\xff` failed.\n";
        let told = assertion(line).unwrap();
        assert!(
            told.contains("\\u{1b}[2J\\r") && told.contains("\\u{7}"),
            "{told}"
        );
        assert_eq!(
            told.chars().filter(|c| c.is_control()).count(),
            1,
            "the end of the line"
        );
    }
}
