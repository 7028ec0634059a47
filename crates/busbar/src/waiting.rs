//! Says on a terminal that something takes its time, and takes that away again.

use std::io::{IsTerminal, Write};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What ends within this time needs no word.
const QUIET: Duration = Duration::from_secs(2);
/// How often the time is told.
const STEP: Duration = Duration::from_secs(1);
/// To the beginning of the line, and clear it.
const CLEAR: &str = "\r\x1b[K";

/// Something that is waited for, until this is dropped.
pub struct Waiting(Option<(Sender<()>, JoinHandle<()>)>);

impl Waiting {
    /// `what` goes on from now on. Where stderr is no terminal, nothing is said.
    pub fn begin(what: String) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self(None);
        }
        let (end, ended) = channel::<()>();
        let say = move |text: &str| {
            let mut err = std::io::stderr();
            let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
        };
        let run = move || {
            let (start, mut next) = (Instant::now(), QUIET);
            while ended.recv_timeout(next) == Err(RecvTimeoutError::Timeout) {
                let seconds = start.elapsed().as_secs();
                say(&format!("{CLEAR}busbar: {what} ({seconds} s)"));
                next = STEP;
            }
            if next == STEP {
                say(CLEAR);
            }
        };
        let thread = std::thread::Builder::new().name("waiting".into());
        Self(thread.spawn(run).ok().map(|t| (end, t)))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.0.take() {
            drop(end);
            let _ = thread.join();
        }
    }
}
