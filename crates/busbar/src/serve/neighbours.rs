//! What sessions hear that share their devices densely.

use super::entry::SessionEntry;
use super::state::Server;
use busbar_control::attach::Order;
use busbar_transport::lock::lock;
use std::sync::Arc;

/// How many sessions are named in a sentence.
const NAMED: usize = 4;

/// A session's work has had a fault: if it has its devices densely, all who have them with it hear
/// that one of them had. Which one it was, MPS does not tell reliably.
pub(super) fn faulted(server: &Server, session: &str) {
    let sessions = lock(&server.sessions);
    let dense = sessions.get(session).and_then(|s| s.worker.dense.clone());
    let Some(dense) = dense.filter(|d| d.breaks()) else {
        return;
    };
    let shares = |s: &&SessionEntry| {
        s.worker
            .dense
            .as_ref()
            .is_some_and(|d| Arc::ptr_eq(d, &dense))
    };
    let all: Vec<_> = sessions.iter().filter(|(_, s)| shares(s)).collect();
    // Whoever is alone knows it by its own error.
    if all.len() < 2 {
        return;
    }
    let called = |(name, s): &(&String, &SessionEntry)| format!("{name} ({})", s.client.program);
    let names: Vec<_> = all.iter().take(NAMED).map(called).collect();
    let text = format!(
        "one of {} sessions that share a GPU densely had a fault, which ends the work of all of \
         them: {}{}; --mode isolated keeps a fault where it is",
        all.len(),
        names.join(", "),
        if all.len() > NAMED { ", ..." } else { "" }
    );
    tracing::warn!(text, "a dense session had a fault");
    for (_, s) in all {
        let text = text.clone();
        s.worker.tell(&Order::News { text, loss: true });
    }
}
