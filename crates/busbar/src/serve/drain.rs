//! The end of a server: it takes nothing new, lets its sessions run to their end for a while, and
//! then ends them.

use super::notify;
use super::state::Server;
use busbar_control::attach::Order;
use busbar_transport::lock::lock;
use serde_json::json;
use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long workers may take to say goodbye to their clients.
const GOODBYE: Duration = Duration::from_secs(3);

/// A time as people say it.
fn said(time: Duration) -> String {
    match time.as_secs() {
        1 => "1 second".into(),
        60 => "1 minute".into(),
        s if s > 60 && s % 60 == 0 => format!("{} minutes", s / 60),
        s => format!("{s} seconds"),
    }
}

fn tell(server: &Server, order: &Order) {
    let workers: Vec<_> = {
        let sessions = lock(&server.sessions);
        sessions.values().map(|s| s.worker.clone()).collect()
    };
    for worker in workers {
        worker.tell(order);
    }
}

/// Waits for the last session's end; whether it came.
fn wait(server: &Server, time: Duration) -> bool {
    let sessions = lock(&server.sessions);
    let some = |all: &mut HashMap<_, _>| !all.is_empty() || server.has_predecessor();
    let waited = server.told.wait_timeout_while(sessions, time, some);
    waited.is_ok_and(|(_, timer)| !timer.timed_out())
}

/// Ends all sessions, and the server.
pub(super) fn end(server: &Server, why: &str) -> ! {
    let order = Order::End { why: why.into() };
    tell(server, &order);
    wait(server, GOODBYE);
    tracing::info!(why, "the server ends");
    let _ = server.audit.note("server ends", json!({ "why": why }));
    server.audit.sync();
    let _ = writeln!(std::io::stdout(), "busbar: good-bye");
    std::process::exit(0);
}

/// The first time: begins to drain. The next time: ends.
pub(super) fn told_to_end(server: &Arc<Server>) {
    if let Some(before) = &server.succession.predecessor {
        before.drain();
    }
    if server.told_to_end.fetch_add(1, Ordering::AcqRel) > 0 {
        end(server, "the server was told to end at once");
    }
    notify::say("STOPPING=1");
    let time = server.config.drain;
    let sessions = lock(&server.sessions).len();
    tracing::info!(
        sessions,
        seconds = time.as_secs(),
        "nothing new is taken: told to end"
    );
    if (sessions == 0 && !server.has_predecessor()) || time.is_zero() {
        end(server, "the server was shut down");
    }
    let time_said = said(time);
    let _ = writeln!(
        std::io::stdout(),
        "busbar: {sessions} session{} may go on for {time_said}; Ctrl-C or SIGTERM ends {} at once",
        if sessions == 1 { "" } else { "s" },
        if sessions == 1 { "it" } else { "them" },
    );
    let text = format!(
        "the server is being shut down: this session may go on for {time_said}, and ends then"
    );
    tell(server, &Order::News { text, loss: false });
    let s = server.clone();
    let run = move || {
        let why = match wait(&s, time) {
            true => "all sessions have ended".into(),
            false => format!(
                "the server was shut down, {} after it had said so",
                said(time)
            ),
        };
        end(&s, &why);
    };
    let thread = std::thread::Builder::new().name("drain".into());
    if thread.stack_size(256 << 10).spawn(run).is_err() {
        end(server, "the server was shut down");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_said_in_words() {
        let of = |s| said(Duration::from_secs(s));
        assert_eq!(
            [of(1), of(60), of(300), of(90)],
            ["1 second", "1 minute", "5 minutes", "90 seconds"]
        );
    }
}
