//! Sessions that have done nothing for long: their shares of time are others' until they work
//! again, and their memory, where others lack it (`swap`).

use super::change;
use super::entry::SessionEntry;
use super::report::ask_workers;
use super::state::Server;
use busbar_pool::idle::{Idle, Look, Still};
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
        for (session, still) in idle.look(all, server.started.elapsed()) {
            let Some(is_idle) = note(server, &session, still) else {
                continue;
            };
            if lock(&server.pool).lend(&session, is_idle) {
                tracing::info!(session, lent = is_idle, "session's share of time");
                change::apply(server, &session);
            }
        }
        std::thread::sleep(STEP);
    }
}

/// Notes for how long a session has done nothing; whether that is so long that it keeps no share,
/// if it ever may not.
fn note(server: &Server, session: &str, still: Still) -> Option<bool> {
    let mut sessions = lock(&server.sessions);
    let s = sessions.get_mut(session)?;
    s.still = still;
    s.idle.map(|limit| still.time >= limit)
}

/// What each session has done that may not do nothing for ever.
fn looks(server: &Server) -> Vec<Look> {
    let may = |s: &SessionEntry| s.idle.or(s.swap.after).is_some();
    ask_workers(server, may);
    let sessions = lock(&server.sessions);
    let some = sessions.iter().filter(|(_, s)| may(s));
    let look = |(name, s): (&String, &SessionEntry)| Look {
        session: name.clone(),
        done: s.holding.traffic.records,
        busy: server.time.is_busy(name),
    };
    some.map(look).collect()
}
