//! Orders to a running relay: lines on standard input or a Unix socket, and signals.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::mpsc::Sender;
use std::thread;

use anyhow::Context;

use crate::relay::Relay;
use crate::units::parse_duration;

/// Something the main thread has to act on.
pub enum Event {
    /// A line, and where its answer goes; without a stream it goes to standard output.
    Line(String, Option<UnixStream>),
    /// Report and go on.
    Report,
    /// Report and end.
    Quit,
}

/// A set of the signals the relay answers to.
fn signals() -> libc::sigset_t {
    // SAFETY: all zeros is a valid sigset_t, and the calls only write to it.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGUSR1] {
            libc::sigaddset(&mut set, signal);
        }
        set
    }
}

/// Keeps the signals from ending the process. Call before any thread starts: threads inherit it.
pub fn block_signals() {
    let set = signals();
    // SAFETY: the set outlives the call; the old mask is not wanted.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) };
}

/// Turns signals into events: SIGUSR1 reports, SIGINT and SIGTERM end.
pub fn listen_to_signals(events: Sender<Event>) {
    thread::spawn(move || {
        let set = signals();
        loop {
            let mut signal = 0;
            // SAFETY: both pointers are to locals.
            if unsafe { libc::sigwait(&set, &mut signal) } != 0 {
                continue;
            }
            let event = if signal == libc::SIGUSR1 {
                Event::Report
            } else {
                Event::Quit
            };
            if events.send(event).is_err() {
                return;
            }
        }
    });
}

/// Takes lines from standard input; its end ends the relay.
pub fn listen_to_stdin(events: Sender<Event>) {
    thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            if events.send(Event::Line(line, None)).is_err() {
                return;
            }
        }
        // The receiver is gone only if the relay is ending anyway.
        let _ = events.send(Event::Quit);
    });
}

/// Takes lines from connections to a Unix socket at `path`.
pub fn listen_to_socket(path: &Path, events: Sender<Event>) -> anyhow::Result<()> {
    // One left behind by an earlier run would refuse the bind; any other error shows there.
    let _ = std::fs::remove_file(path);
    let listener = UnixListener::bind(path)
        .with_context(|| format!("cannot listen for orders at {}", path.display()))?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let events = events.clone();
            thread::spawn(move || {
                let Ok(answers) = stream.try_clone() else {
                    return;
                };
                for line in BufReader::new(stream).lines() {
                    let (Ok(line), Ok(answers)) = (line, answers.try_clone()) else {
                        return;
                    };
                    if events.send(Event::Line(line, Some(answers))).is_err() {
                        return;
                    }
                }
            });
        }
    });
    Ok(())
}

/// Sends an answer where the order came from.
pub fn answer(text: &str, to: Option<UnixStream>) {
    // Whoever asked may have gone; the order has been carried out all the same.
    let _ = match to {
        Some(mut stream) => writeln!(stream, "{text}"),
        None => writeln!(std::io::stdout(), "{text}"),
    };
}

/// Carries out an order; returns the answer, or `None` to end.
pub fn obey(relay: &Relay, line: &str) -> Option<String> {
    let (word, rest) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
    let timed = |order: fn(&Relay, std::time::Duration)| match parse_duration(rest) {
        Ok(lasts) => {
            order(relay, lasts);
            "ok".to_string()
        }
        Err(error) => format!("error: {error}"),
    };
    Some(match word {
        "stall" => timed(Relay::stall),
        "cut" => timed(Relay::cut),
        "resume" => {
            relay.resume();
            "ok".into()
        }
        "stats" => serde_json::to_string(&relay.report()).unwrap_or_else(|e| format!("error: {e}")),
        "quit" => return None,
        _ => {
            format!("error: no order {word:?}; orders are stall DUR, cut DUR, resume, stats, quit")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay::Options;
    use crate::units::LinkSpec;

    #[test]
    fn orders_are_obeyed_or_refused_with_a_reason() {
        let options = Options::new("127.0.0.1:0", "127.0.0.1:9", LinkSpec::default());
        let relay = Relay::start(options).unwrap();
        for order in ["stall 1ms", " cut 1ms ", "resume"] {
            assert_eq!(obey(&relay, order).as_deref(), Some("ok"), "{order}");
        }
        let stats = obey(&relay, "stats").unwrap();
        let stats: serde_json::Value = serde_json::from_str(&stats).unwrap();
        assert_eq!(stats["connections"], 0);
        for order in ["", "stall", "stall 5", "cut soon", "dance"] {
            let answer = obey(&relay, order).unwrap();
            assert!(answer.starts_with("error: "), "{order}: {answer}");
        }
        assert_eq!(obey(&relay, "quit"), None);
    }
}
