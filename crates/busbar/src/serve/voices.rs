//! What workers say on their stderr, as lines of the server's log.
//!
//! Much of it is not theirs: a driver's message has a program's words in it, and on a CPU device a
//! client's own code can write there. So it comes through a pipe. Each line says from which worker
//! and session it is, is one line of text of a certain length, and there are only so many; whoever
//! writes more than is read has to wait.

use super::budget::{Allowance, Budget};
use busbar_control::text::one_line;
use busbar_transport::Alarm;
use busbar_transport::lock::lock;
use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// The longest line, in bytes.
const LONGEST: usize = 1000;
/// Lines of one worker.
const OF_ONE: Allowance = (100.0, 1.0);
/// Lines of all workers together.
const OF_ALL: Allowance = (1000.0, 20.0);
/// How much is read at once of each.
const READ: usize = 16 << 10;
/// How long is waited after each look: by this and the size of a read, what is thrown away of a
/// worker that writes without end costs little.
const PAUSE: Duration = Duration::from_millis(5);

/// The session that a worker serves, once it does.
pub(crate) type Named = Arc<OnceLock<String>>;

/// One worker's stderr.
struct Voice {
    pipe: File,
    pid: u32,
    session: Named,
    budget: Budget,
    left_out: u64,
    /// The beginning of a line.
    begun: Vec<u8>,
}

/// Hears all workers.
#[derive(Clone)]
pub(crate) struct Voices {
    new: Arc<Mutex<Vec<Voice>>>,
    alarm: Arc<Alarm>,
}

impl Voices {
    /// Starts to listen.
    pub(crate) fn start() -> io::Result<Self> {
        let me = Self {
            new: Arc::default(),
            alarm: Arc::new(Alarm::new()?),
        };
        let ears = me.clone();
        std::thread::Builder::new()
            .name("voices".into())
            .stack_size(256 << 10)
            .spawn(move || ears.listen())?;
        Ok(me)
    }

    /// Listens to a worker until its stderr is closed.
    pub(crate) fn hear(&self, pipe: OwnedFd, pid: u32, session: Named) {
        // SAFETY: plain calls on a descriptor of ours.
        unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
        lock(&self.new).push(Voice {
            pipe: pipe.into(),
            pid,
            session,
            budget: Budget::full(OF_ONE, Instant::now()),
            left_out: 0,
            begun: Vec::new(),
        });
        self.alarm.ring();
    }

    fn listen(&self) {
        let mut voices = Vec::<Voice>::new();
        let mut all = Budget::full(OF_ALL, Instant::now());
        loop {
            let mut fds = vec![self.alarm.as_fd()];
            fds.extend(voices.iter().map(|v| v.pipe.as_fd()));
            let _ = busbar_transport::wait_readable(&fds, None);
            self.alarm.silence();
            voices.append(&mut lock(&self.new));
            voices.retain_mut(|v| v.read(&mut all, |v, line| v.log(line)));
            std::thread::sleep(PAUSE);
        }
    }
}

impl Voice {
    /// Reads some of what was said. False when there will be no more.
    fn read(&mut self, all: &mut Budget, mut log: impl FnMut(&mut Self, &str)) -> bool {
        let mut some = [0; READ];
        let n = match self.pipe.read(&mut some) {
            Ok(n) => n,
            Err(e) => return matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        };
        let mut parts = some[..n].split(|b| *b == b'\n');
        let last = parts.next_back().unwrap_or_default();
        for part in parts {
            self.add(part);
            self.line(all, &mut log);
        }
        self.add(last);
        if n == 0 && !(self.begun.is_empty() && self.left_out == 0) {
            self.line(all, &mut log);
        }
        n > 0
    }

    fn add(&mut self, part: &[u8]) {
        // One more than is shown, by which it is seen to be cut.
        let room = (LONGEST + 1).saturating_sub(self.begun.len());
        self.begun.extend_from_slice(&part[..part.len().min(room)]);
    }

    fn line(&mut self, all: &mut Budget, log: &mut impl FnMut(&mut Self, &str)) {
        let now = Instant::now();
        let line = std::mem::take(&mut self.begun);
        if self.budget.now(now, OF_ONE) < 1.0 || all.now(now, OF_ALL) < 1.0 {
            self.left_out += 1;
            return;
        }
        self.budget = self.budget.spent(now, OF_ONE);
        *all = all.spent(now, OF_ALL);
        log(self, &one_line(&String::from_utf8_lossy(&line), LONGEST));
    }

    fn log(&mut self, line: &str) {
        let session = self.session.get();
        let left_out = Some(std::mem::take(&mut self.left_out)).filter(|n| *n > 0);
        tracing::warn!(session, worker = self.pid, line, left_out, "a worker says");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// What comes of what a worker writes, read by read.
    fn said(parts: &[&[u8]]) -> (Vec<String>, u64) {
        let (out, mut into) = io::pipe().unwrap();
        let voices = Voices {
            new: Arc::default(),
            alarm: Arc::new(Alarm::new().unwrap()),
        };
        voices.hear(out.into(), 1, Named::default());
        let mut voice = lock(&voices.new).pop().unwrap();
        let mut all = Budget::full(OF_ALL, Instant::now());
        let mut lines = Vec::new();
        let mut read = |v: &mut Voice| v.read(&mut all, |_, line| lines.push(line.to_string()));
        for part in parts {
            into.write_all(part).unwrap();
            assert!(read(&mut voice), "it lives");
        }
        drop(into);
        while read(&mut voice) {}
        (lines, voice.left_out)
    }

    #[test]
    fn each_line_is_one_whatever_it_is_made_of() {
        let (lines, _) = said(&[b"a\nb", b"c\rd\x1b[2J\n", b"", b"no end"]);
        assert_eq!(lines, ["a", "bc\\rd\\u{1b}[2J", "no end"]);
        let (lines, _) = said(&[&[b'x'; 3000], b"y\nz\xff\n"]);
        assert_eq!(lines[0].len(), LONGEST + '…'.len_utf8());
        assert_eq!(lines[1..], ["z\u{fffd}"]);
        assert_eq!(said(&[]).0, [""; 0]);
    }

    #[test]
    fn of_many_lines_the_first_are_kept_and_the_rest_counted() {
        let (lines, left_out) = said(&[&[b'\n'; 5000]]);
        assert!((100..110).contains(&lines.len()), "{}", lines.len());
        assert!(lines.len() as u64 + left_out >= 5000);
    }
}
