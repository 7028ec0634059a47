//! Ends what was opened by those who are let in no more, and notices a new policy.

use super::desk;
use super::state::Server;
use busbar_control::attach::Order;
use busbar_transport::lock::lock;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often is looked.
const LOOK: Duration = Duration::from_millis(200);
/// How long a worker may take to say goodbye to its client.
const GOODBYE: Duration = Duration::from_millis(500);

/// Looks for as long as the server runs.
pub(super) fn run(server: &Arc<Server>) {
    let mut told = HashMap::<String, Instant>::new();
    loop {
        std::thread::sleep(LOOK);
        server.rules.refresh(&server.pool, false);
        server.identities.refresh();
        desk::revoke(server);
        let over: Vec<_> = {
            let sessions = lock(&server.sessions);
            told.retain(|name, _| sessions.contains_key(name));
            let each = sessions.iter();
            each.filter_map(|(name, s)| {
                let why = server.identities.over(&s.who)?;
                Some((name.clone(), why, s.worker.clone()))
            })
            .collect()
        };
        for (name, why, worker) in over {
            match told.get(&name) {
                None => {
                    tracing::info!(session = name, why, "session is ended");
                    worker.tell(&Order::End { why });
                    told.insert(name, Instant::now());
                }
                // Whatever keeps it, it has no right to go on.
                Some(since) if since.elapsed() > GOODBYE => worker.cut(),
                Some(_) => {}
            }
        }
    }
}
