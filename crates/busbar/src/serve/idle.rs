//! Sessions that have done nothing for long: their shares of time are others' until they work
//! again.

use super::change;
use super::entry::SessionEntry;
use super::report::ask_workers;
use super::state::Server;
use busbar_pool::idle::{Idle, Look};
use busbar_transport::lock::lock;
use std::sync::Arc;
use std::time::Duration;

/// How long it is between two looks, and so until a session that works has its share back.
const STEP: Duration = Duration::from_secs(1);

/// Has somebody look after idle sessions, once the first has come that may be one.
pub(super) fn begin(server: &Arc<Server>) {
    server.idle.call_once(|| {
        let s = server.clone();
        let thread = std::thread::Builder::new().name("idle".into());
        let started = thread.stack_size(256 << 10).spawn(move || run(&s));
        if let Err(e) = started {
            tracing::warn!(error = %e, "idle sessions keep their shares");
        }
    });
}

fn run(server: &Server) {
    let mut idle = Idle::default();
    loop {
        let all = looks(server);
        for (session, is_idle) in idle.look(all, server.started.elapsed()) {
            if lock(&server.pool).lend(&session, is_idle) {
                tracing::info!(session, lent = is_idle, "session's share of time");
                change::apply(server, &session);
            }
        }
        std::thread::sleep(STEP);
    }
}

/// What each session has done that may not do nothing for ever.
fn looks(server: &Server) -> Vec<Look> {
    ask_workers(server, |s| s.idle.is_some());
    let sessions = lock(&server.sessions);
    let some = sessions
        .iter()
        .filter_map(|(name, s)| Some((name, s, s.idle?)));
    let look = |(name, s, limit): (&String, &SessionEntry, _)| Look {
        session: name.clone(),
        done: s.holding.traffic.records,
        busy: server.time.is_busy(name),
        limit,
    };
    some.map(look).collect()
}
