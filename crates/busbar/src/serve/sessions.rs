//! Sessions: how they begin, how clients come back to them, and what is left to do at their end.

use super::asking::{asker, is_patient, settled};
use super::budget::{Allowance, Budget};
use super::busy::Busy;
use super::desk;
use super::entry::{Pace, Questions, SessionEntry, Swap};
use super::groups::{Group, Memberships};
use super::identity::{Known, Who};
use super::idle;
use super::jobs;
use super::neighbours;
use super::reception::{ANSWER_TIME, answer, turned_back};
use super::refusals::Network;
use super::sockets::{self, Sockets};
use super::state::Server;
use super::swap;
use super::workers::{Manner, Worker};
use busbar_channel::send_hello;
use busbar_channel::switches::Switch;
use busbar_control::attach::{Answer, Attach, Report};
use busbar_control::hello::{Hello, Intent, Mode, Refusal, Welcome};
use busbar_control::holding::{self, Holding};
use busbar_control::succession::ToHeir;
use busbar_pool::Placing;
use busbar_pool::idle::Still;
use busbar_transport::Connection;
use busbar_transport::lock::lock;
use busbar_transport::stream::Stream;
use busbar_transport::tls::Handed;
use busbar_wire::frame::Kind;
use busbar_worker::process::Process;
use serde_json::json;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// How often somebody who waits for a worker hears that it is coming.
const NEWS: Duration = Duration::from_secs(5);
/// How long a client that comes back to a session that is just ending waits for the reason.
const END_TIME: Duration = Duration::from_secs(2);
/// Lines of the log that say whether a session has its connection: a worker may say so for ever.
const COMINGS: Allowance = (100.0, 1.0);
/// What a session may say of ranks that wait or are lost: each is a line of the log and the audit,
/// words for others, and for a moment a thread.
const RANKS: Allowance = (100.0, 1.0);

/// A random name nobody can guess.
fn random_name(bytes: usize) -> Result<String, Refusal> {
    let random = crate::vault::random(bytes).map_err(|e| {
        let why = format!("the server has no random numbers: {}", e.root_cause());
        Refusal::new("internal", why)
    })?;
    Ok(random.to_string())
}

/// How the worker of a new session is started.
fn manner(server: &Server, hello: &Hello, who: &Who) -> Result<Manner, Refusal> {
    let dense = hello.mode == Mode::Dense;
    if dense && hello.api != "cuda" {
        let why = format!(
            "--mode dense (BUSBAR_MODE) is for CUDA, and this is `{}`",
            hello.api
        );
        return Err(Refusal::new("mode", why));
    }
    if dense {
        lock(&server.pool).may_be_dense(&who.tenant)?;
    }
    Ok(Manner {
        mode: hello.mode,
        share: Some(hello.share).filter(|n| *n > 0),
        driver: match hello.api.as_str() {
            "cuda" => hello.driver.clone(),
            _ => Vec::new(),
        },
    })
}

/// What a new session is given.
struct Given {
    session: String,
    secret: String,
    placing: Placing,
    worker: Arc<Worker>,
}

/// Finds a new session its devices and its worker.
fn give(server: &Arc<Server>, conn: &Stream, hello: &Hello, who: &Who) -> Result<Given, Refusal> {
    let (session, secret) = (random_name(6)?, random_name(32)?);
    if !server.config.apis.contains(&hello.api) {
        let why = format!("this server does not offer `{}`", hello.api);
        return Err(Refusal::new("api", why));
    }
    let manner = manner(server, hello, who)?;
    lock(&server.pool).arrives(&who.tenant, server.started.elapsed())?;
    let asker = asker(who, hello);
    desk::expire(server);
    let place = || lock(&server.pool).open(&session, &hello.api, &asker);
    let placing = settled(place)?;
    let spare_wanted = !hello.off.iter().any(|s| s == Switch::Spare.name());
    let patient = is_patient(hello);
    let told = Cell::new(Instant::now());
    // One that is gone needs no worker; others take a long silence for a server that is gone.
    let still_wanted = || {
        let tell = patient && told.get().elapsed() >= NEWS;
        if tell {
            told.set(Instant::now());
        }
        !conn.hung_up() && (!tell || send_hello(conn, Kind::Ping, &[]).is_ok())
    };
    let network = Network::of_peer(&conn.peer());
    match server
        .workers
        .take(who, manner, spare_wanted, network, still_wanted)
    {
        Ok(worker) => Ok(Given {
            session,
            secret,
            placing,
            worker: Arc::new(worker),
        }),
        Err(e) => {
            lock(&server.pool).close(&session);
            Err(Refusal::new("internal", format!("{e:#}")))
        }
    }
}

/// Opens a session, hands its connection to its worker, and sees it to its end.
pub(super) fn open(
    server: &Arc<Server>,
    known: Known,
    refuse: impl Fn(&Stream, Refusal),
    busy: Busy,
) {
    let Some(begins) = server.succession.begins() else {
        return turned_back(server, server.succession.pass_to_heir(known));
    };
    let Known {
        conn,
        hello,
        protocol,
        who,
    } = known;
    let Given {
        session,
        secret,
        placing,
        worker,
    } = match give(server, &conn, &hello, &who) {
        Ok(given) => given,
        Err(r) => return refuse(&conn, r),
    };
    let (peer, encrypted) = (conn.peer(), conn.is_encrypted());
    let note = json!({
        "session": session,
        "api": hello.api,
        "tenant": who.tenant,
        "token": who.name,
        "peer": peer,
        "encrypted": encrypted,
        "host": hello.client.host,
        "user": hello.client.user,
        "program": hello.client.program,
        "pid": hello.client.pid,
        "devices": placing.devices,
        "memory": placing.memory,
        "worker": worker.pid,
    });
    if let Err(why) = server.audit.note("session begins", note) {
        lock(&server.pool).close(&session);
        worker.kill();
        return refuse(&conn, Refusal::new("internal", why));
    }
    let reached = conn.ends().map(|[here, _]| here.ip());
    let (place, fds) = Process::find(hello.client.clone(), conn.ends()).hand_over();
    let attach = Attach {
        place,
        ..server.attach(&session, secret.clone(), &hello, protocol, placing.clone())
    };
    let _ = worker.session.set(session.clone());
    tracing::info!(
        session,
        api = hello.api,
        peer,
        host = hello.client.host,
        user = hello.client.user,
        program = hello.client.program,
        token = who.name,
        tenant = who.tenant,
        worker = worker.pid,
        "session opens"
    );
    // Before others find the worker: it is told this first of all.
    let joined = server
        .time
        .join(&session, placing.part, &placing.places, &worker);
    if let Err(e) = joined {
        tracing::warn!(session, error = %e, "the session has its devices without turns");
    }
    // Whichever is shortest: the server's own limit, the tenant's, or the client's.
    let own = (hello.idle > 0).then(|| Duration::from_secs(hello.idle.into()));
    let (tenants, swaps) = {
        let pool = lock(&server.pool);
        (pool.idle_timeout(&who.tenant), pool.swap_idle(&who.tenant))
    };
    let shortest = |limits: &[Option<Duration>]| limits.iter().copied().flatten().min();
    let idle_after = shortest(&[own, tenants, server.config.idle_timeout]);
    let swaps_after = shortest(&[swaps, server.config.swap_idle]);
    let entry = SessionEntry {
        group: Group::of(&hello, &who.tenant),
        sockets: sockets_of(server, &hello, &who, reached),
        comms: Memberships::default(),
        stall: String::new(),
        api: hello.api,
        secret,
        client: hello.client,
        who,
        peer,
        encrypted,
        path: String::new(),
        since: Instant::now(),
        opened: SystemTime::now(),
        connected: true,
        holding: Holding::default(),
        questions: Questions::default(),
        checkpoint: 0,
        locked: Vec::new(),
        swap: Swap {
            after: swaps_after,
            ..Swap::default()
        },
        pace: Pace::default(),
        had: BTreeMap::new(),
        idle: idle_after,
        still: Still::default(),
        worker: worker.clone(),
    };
    server.counts.opened(&entry);
    lock(&server.sessions).insert(session.clone(), entry);
    if idle_after.or(swaps_after).is_some() {
        idle::begin(server);
    }
    drop((busy, begins));
    let _ = conn.send_timeout(None);
    let handed = conn.hand_over();
    if worker.hand(attach, &handed, &fds).is_err() {
        worker.kill();
    }
    // For a worker that dies before it has said a word to its client.
    watch(server, &session, &worker, Some(handed));
}

/// What the sockets of a new session are made with, where workers may have any: where its client
/// has `reached` this server other servers reach it, too, unless the settings know better. Who may
/// have no links has none between ranks either.
fn sockets_of(
    server: &Server,
    hello: &Hello,
    who: &Who,
    reached: Option<IpAddr>,
) -> Option<Arc<Sockets>> {
    let collectives = server.config.nccl_library.is_some();
    if !collectives || !server.workers.isolation().lends_sockets() {
        return None;
    }
    let at = server.config.fabric.or(reached);
    let at = at.filter(|_| server.may_link(who).is_ok());
    let all = &server.sockets;
    Some(match (&*hello.lease, at) {
        ("", _) => all.of_here(&format!("{}\0{}", who.tenant, who.name)),
        (lease, None) => all.of_here(lease),
        (lease, Some(at)) => all.of_lease(lease, at),
    })
}

/// Follows a session to its end, then frees what it held. `unanswered` is its connection, which a
/// worker is expected to answer.
fn watch(
    server: &Arc<Server>,
    session: &str,
    worker: &Arc<Worker>,
    mut unanswered: Option<Handed>,
) {
    let mut why = None;
    let mut lines = Budget::full(COMINGS, Instant::now());
    let mut of_ranks = Budget::full(RANKS, Instant::now());
    while let Some((report, fd)) = worker.report() {
        if !matches!(report, Report::Ready) {
            unanswered = None;
        }
        match report {
            Report::Ready => {}
            Report::Attached { path, why } => {
                if lines.spend(Instant::now(), COMINGS) {
                    tracing::info!(session, path, why, "session's connection");
                }
                if let Some(s) = lock(&server.sessions).get_mut(session) {
                    s.connected = true;
                    s.path = path;
                }
            }
            Report::Detached => {
                if lines.spend(Instant::now(), COMINGS) {
                    tracing::info!(session, connected = false, "session's connection");
                }
                if let Some(s) = lock(&server.sessions).get_mut(session) {
                    s.connected = false;
                }
            }
            Report::Member { comm, yes } => jobs::member(server, session, (comm, yes)),
            Report::Failed { .. } | Report::Waits(_) | Report::Late { .. }
                if !of_ranks.spend(Instant::now(), RANKS) => {}
            Report::Faulted => neighbours::faulted(server, session),
            Report::Failed { comm, why } => jobs::failed(server, session, (comm, &why)),
            Report::Waits(waits) => jobs::waits(server, session, waits),
            Report::Late { what } => jobs::late(server, session, &what),
            Report::Moved => {
                if let Some(s) = lock(&server.sessions).get_mut(session) {
                    s.stall.clear();
                }
            }
            Report::Socket(wanted) => {
                let sessions = lock(&server.sessions);
                let sockets = sessions.get(session).and_then(|s| s.sockets.clone());
                drop(sessions);
                if let Some(to) = fd {
                    sockets::serve(sockets, wanted, to);
                }
            }
            Report::Lacks(lacking) => {
                if let Some(to) = fd {
                    swap::lacks(server, session, lacking, to);
                }
            }
            Report::Wanted => swap::wanted(server, session),
            Report::Holds(holding) => {
                if let Some(s) = lock(&server.sessions).get_mut(session) {
                    s.keep_holding(holding);
                }
            }
            Report::Answers { number, answer } => {
                if let Some(s) = lock(&server.sessions).get_mut(session) {
                    match &answer {
                        Answer::Holding(holding) => s.keep_holding(holding.clone()),
                        Answer::Reached(reached) => {
                            s.checkpoint = reached.state;
                            s.locked.clone_from(&reached.had);
                        }
                    }
                    s.questions.answered(number, answer);
                }
                server.told.notify_all();
            }
            Report::Ended { why: w } => why = Some(w),
        }
    }
    let devices = lock(&server.pool).placed(session).devices;
    let time = server.time.had(session);
    if let Some(s) = lock(&server.sessions).get_mut(session) {
        s.keep_time(&devices, &time);
    }
    server.time.leave(session);
    let crashed = worker.finish();
    // What it said itself tells more than how it went.
    let why = why.or(crashed).unwrap_or_else(|| "the worker ended".into());
    tracing::info!(session, why, "session ended");
    let _ = server
        .audit
        .note("session ends", json!({ "session": session, "why": why }));
    if let Some(Ok(conn)) = unanswered.map(Handed::take) {
        let _ = conn.send_timeout(Some(ANSWER_TIME));
        let text = format!("the session ended as it began: {why}; the server's log may say more");
        answer(&conn, &Welcome::refuse(Refusal::new("internal", text)));
    }
    {
        let mut ended = lock(&server.ended);
        ended.push_back((session.into(), why.clone()));
        if ended.len() > 1024 {
            ended.pop_front();
        }
    }
    let gone = {
        let mut sessions = lock(&server.sessions);
        let gone = sessions.remove(session);
        gone.inspect(|s| server.counts.ended(s))
    };
    server.told.notify_all();
    if let Some(gone) = &gone {
        jobs::ended(server, gone, &why);
    }
    if let Some(left) = gone.map(|s| s.holding) {
        let (objects, bytes) = (holding::list(&left.objects), left.bytes());
        let there = left.memory.into_iter().chain(left.host_memory);
        let there = there.filter(|(_, m)| m.pieces > 0);
        let memory = holding::list(&there.map(|(kind, m)| (kind, m.bytes)).collect());
        tracing::debug!(session, objects, memory, bytes, "left at the end");
    }
    lock(&server.pool).close(session);
    let session = session.into();
    server.succession.tell_heir(&ToHeir::Gone { session });
}

/// Hands a client that comes back to a session to its worker.
pub(super) fn resume(server: &Arc<Server>, known: Known, refuse: impl Fn(&Stream, Refusal)) {
    let Known {
        conn,
        hello,
        protocol,
        who,
    } = known;
    let Some((worker, secret)) = server.session_of(&hello, &who, conn.is_encrypted()) else {
        return refuse(&conn, server.over(&hello.session));
    };
    let session = hello.session.clone();
    let placing = lock(&server.pool).placed(&session);
    let attach = server.attach(&session, secret, &hello, protocol, placing);
    let Err(left) = worker.take_over(attach, conn) else {
        if let Some(s) = lock(&server.sessions).get(&session)
            && hello.intent == Intent::Resume
        {
            server.counts.resumed(s);
        }
        return;
    };
    // The worker is just ending, and why is known in a moment.
    let deadline = Instant::now() + END_TIME;
    while lock(&server.sessions).contains_key(&session) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    if let Some(conn) = left {
        refuse(&conn, server.over(&session));
    }
}
