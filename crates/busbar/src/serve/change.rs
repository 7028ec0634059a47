//! What is done to a session that runs: it is changed, or ended.

use super::asking::{asker, settled};
use super::entry::SessionEntry;
use super::identity::{Known, Who};
use super::reception::answer;
use super::state::Server;
use busbar_control::attach::Order;
use busbar_control::hello::{Hello, Refusal, Road, Welcome};
use busbar_pool::{Asker, Refused};
use busbar_transport::Connection;
use busbar_transport::lock::lock;
use busbar_transport::rdma::Wish;
use busbar_transport::stream::Stream;
use serde_json::json;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// How long a session that somebody ends may take to tell its client.
const KILL_TIME: Duration = Duration::from_secs(2);
/// How long a worker may take to say goodbye where nobody waits for that.
const GOODBYE: Duration = Duration::from_millis(500);

/// Changes what a running session has.
pub(super) fn set(server: &Arc<Server>, known: &Known, refuse: impl Fn(&Stream, Refusal)) {
    let Known { conn, hello, .. } = known;
    match change(server, hello, &known.who) {
        Ok(()) => answer(conn, &Welcome::with(known.protocol, &())),
        Err(r) => refuse(conn, r),
    }
}

/// Whether this server can have a session on a path. What it says of a session of another tenant's
/// is not said here.
fn reaches(server: &Server, name: &str, asker: &Asker<'_>, road: Road) -> Result<(), Refusal> {
    if road == Road::Rdma && server.config.rdma == Wish::Off {
        let text = "this server moves no session to RDMA: start it with `--rdma auto`";
        return Err(Refusal::new("rdma", text));
    }
    let before = server.succession.predecessor.as_ref();
    if !before.is_some_and(|b| b.has(name)) {
        return Ok(());
    }
    let pool = lock(&server.pool);
    let theirs = pool.session(name).filter(|s| pool.shows(asker, &s.tenant));
    theirs.map_or(Ok(()), |_| {
        let text = format!(
            "session {name} began at the server before this one, whose sessions keep their paths \
             until they end"
        );
        Err(Refusal::new("path", text))
    })
}

/// Changes a session as a hello says.
pub(super) fn change(server: &Server, hello: &Hello, who: &Who) -> Result<(), Refusal> {
    let (name, asker) = (&hello.session, asker(who, hello));
    if let Some(road) = hello.change.path {
        reaches(server, name, &asker, road)?;
    }
    if hello.change.share.is_some() {
        let worker = server.worker_of(name);
        if worker.is_some_and(|w| w.dense.is_some()) {
            let text = format!(
                "session {name} is dense, and MPS has given it its share for as long as it lasts: \
                 start its program again with another -p"
            );
            return Err(Refusal::new("mode", text));
        }
    }
    let placing = settled(|| lock(&server.pool).set(name, &asker, hello.change))?;
    apply(server, name);
    if let (Some(road), Some(worker)) = (hello.change.path, server.worker_of(name)) {
        worker.tell(&Order::Path { road });
    }
    let has = lock(&server.pool).session(name);
    if let (Some(before), Some(has)) = (&server.succession.predecessor, has) {
        before.changed(&has);
    }
    tracing::info!(
        session = name,
        token = who.name,
        share = placing.part.share,
        priority = placing.part.priority,
        path = ?hello.change.path,
        memory = placing.memory,
        "session is changed"
    );
    Ok(())
}

/// Has a session of this server's have what the pool says that it has.
pub(super) fn apply(server: &Server, session: &str) {
    let placing = lock(&server.pool).placed(session);
    server.time.set(session, placing.part);
    if let Some(worker) = server.worker_of(session) {
        let (most, of_each) = (placing.memory, placing.promised);
        worker.tell(&Order::Memory { most, of_each });
    }
}

/// Ends a session, whose client hears why; whatever keeps it, it does not go on.
pub(super) fn end(server: &Server, session: &str, why: String) {
    let before = server.succession.predecessor.as_ref();
    if before.is_some_and(|b| b.end(session, &why)) {
        return;
    }
    let Some(worker) = server.worker_of(session) else {
        return;
    };
    worker.tell(&Order::End { why });
    let cut = move || {
        std::thread::sleep(GOODBYE);
        worker.cut();
    };
    let thread = std::thread::Builder::new().name("end".into());
    let _ = thread.stack_size(256 << 10).spawn(cut);
}

/// Ends a session, and answers when it has ended.
pub(super) fn kill(server: &Arc<Server>, known: &Known, refuse: impl Fn(&Stream, Refusal)) {
    let Known { conn, hello, .. } = known;
    let (asker, name) = (asker(&known.who, hello), &hello.session);
    let worker = {
        let pool = lock(&server.pool);
        let sessions = lock(&server.sessions);
        let found = sessions.get(name);
        let theirs = found.filter(|s| pool.shows(&asker, &s.who.tenant));
        theirs.map(|s| s.worker.clone())
    };
    let Some(worker) = worker else {
        return refuse(conn, Refused::NoSession(name.clone()).into());
    };
    let c = &hello.client;
    let why = format!("{}@{} has ended it (`busbar kill`)", c.user, c.host);
    tracing::info!(
        session = name,
        token = known.who.name,
        why,
        "session is ended"
    );
    let note = json!({
        "session": name,
        "tenant": known.who.tenant,
        "token": known.who.name,
        "peer": conn.peer(),
        "why": why,
    });
    if let Err(why) = server.audit.note("session killed", note) {
        return refuse(conn, Refusal::new("internal", why));
    }
    worker.tell(&Order::End { why });
    if !ends(server, name, KILL_TIME) {
        worker.cut();
        if !ends(server, name, KILL_TIME) {
            let text = format!("session {name} is told to end, and has not ended yet");
            return refuse(conn, Refusal::new("internal", text));
        }
    }
    answer(conn, &Welcome::with(known.protocol, &()));
}

/// Waits for a session's end; whether it has come.
fn ends(server: &Server, session: &str, most: Duration) -> bool {
    let sessions = lock(&server.sessions);
    let there = |all: &mut HashMap<String, SessionEntry>| all.contains_key(session);
    let waited = server.told.wait_timeout_while(sessions, most, there);
    waited.is_ok_and(|(_, timer)| !timer.timed_out())
}
