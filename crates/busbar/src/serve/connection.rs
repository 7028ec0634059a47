//! One connection, from its hello to the worker that takes it over.

use super::asking::{asker, settled};
use super::budget::{Allowance, Budget};
use super::desk;
use super::entry::{Pace, SessionEntry};
use super::fabric;
use super::greeting::Guest;
use super::groups::Group;
use super::heritage;
use super::identity::{Known, Who};
use super::jobs;
use super::link;
use super::reception::{ANSWER_TIME, answer, take_in};
use super::refusals::Network;
use super::sockets::Sockets;
use super::state::Server;
use super::workers::Worker;
use busbar_channel::send_hello;
use busbar_channel::switches::Switch;
use busbar_control::attach::{Attach, Order, Report};
use busbar_control::gpu::{Question, Said};
use busbar_control::hello::{
    BUSY, ClientInfo, HOLDINGS, Hello, Intent, LAST_READINGS, PATIENCE, Refusal, Road, Welcome,
};
use busbar_control::holding::{self, Holding};
use busbar_control::status::{Session, Status};
use busbar_control::succession::ToHeir;
use busbar_pool::{Asker, Placing, Refused};
use busbar_transport::Connection;
use busbar_transport::lock::lock;
use busbar_transport::rdma::Wish;
use busbar_transport::stream::Stream;
use busbar_transport::tls::Handed;
use busbar_wire::frame::Kind;
use busbar_wire::limits::MAX_WELCOME;
use busbar_worker::nvml::is_of_the_whole;
use busbar_worker::process::Process;
use serde_json::json;
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How often somebody who waits for a worker hears that it is coming.
const NEWS: Duration = Duration::from_secs(5);
/// How long a client that comes back to a session that is just ending waits for the reason.
const END_TIME: Duration = Duration::from_secs(2);
/// How long a session that somebody ends may take to tell its client.
const KILL_TIME: Duration = Duration::from_secs(2);
/// How long a worker may take to say goodbye where nobody waits for that.
const GOODBYE: Duration = Duration::from_millis(500);
/// The most clients that are served at a time other than by a worker.
const MOST_BUSY: usize = 1024;
/// As many more of those that come back to a session: new ones must not keep them out.
const KEPT_FOR_OLD: usize = 256;
/// The longest reason of a session's end that is kept.
const MOST_WHY: usize = 1000;
/// Lines of the log that say whether a session has its connection: a worker may say so for ever.
const COMINGS: Allowance = (100.0, 1.0);

/// Serves one connection; runs on a thread of its own.
pub(super) fn serve(server: &Arc<Server>, stream: TcpStream, guest: Guest) {
    let known = take_in(server, stream, &guest);
    drop(guest);
    let Some(known) = known else {
        return;
    };
    let own = lock(&server.sessions).contains_key(&known.hello.session);
    let heir = server.succession.yields() && !(own && heritage::is_of_a_session(&known.hello));
    let before = server.succession.predecessor.as_ref();
    match before.filter(|p| p.wants(&known.hello)) {
        Some(before) => turned_back(server, before.pass(known)),
        None if heir => turned_back(server, server.succession.pass_to_heir(known)),
        None => attend(server, known, true),
    }
}

/// Serves one that another server's process has passed on: what is not for this one it passes on to
/// the next, and never back.
pub(super) fn serve_passed(server: &Arc<Server>, mut known: Known, from_heir: bool) {
    let before = server.succession.predecessor.as_ref();
    let before = before.filter(|p| from_heir && p.wants(&known.hello));
    if let Some(before) = before {
        return turned_back(server, before.pass(known));
    }
    if !from_heir && server.succession.yields() {
        return turned_back(server, server.succession.pass_to_heir(known));
    }
    if known.hello.intent == Intent::Link {
        match server.admit_link(&mut known.hello) {
            Ok(who) => known.who = who,
            Err(r) => {
                server.refusals.log(&known.conn.peer(), &r);
                return answer(&known.conn, &Welcome::refuse(r));
            }
        }
    }
    attend(server, known, false);
}

/// Says so to somebody whose connection could not be passed on.
fn turned_back(server: &Server, passed: Result<(), Stream>) {
    if let Err(conn) = passed {
        let text = "the server is being replaced by another: try again";
        let r = Refusal::new(BUSY, text);
        server.refusals.log(&conn.peer(), &r);
        answer(&conn, &Welcome::refuse(r));
    }
}

/// Serves somebody who is known; `fresh` if nobody has heard the hello before.
fn attend(server: &Arc<Server>, known: Known, fresh: bool) {
    let Known { conn, hello, .. } = &known;
    let peer = conn.peer();
    let refuse = |conn: &Stream, r: Refusal| {
        server.refusals.log(&peer, &r);
        answer(conn, &Welcome::refuse(r));
    };
    // By this it knows that somebody is at work here.
    if fresh && is_patient(hello) && send_hello(conn, Kind::Ping, &[]).is_err() {
        return;
    }
    if matches!(hello.intent, Intent::Open | Intent::Lease) && server.drains() {
        let text = "the server is being shut down and takes nothing new: try another one, or this \
                    one later";
        return refuse(conn, Refusal::new("draining", text));
    }
    let Some(busy) = Busy::enter(&server.busy, hello.intent) else {
        let text = "the server is busy with other clients; try later";
        return refuse(conn, Refusal::new(BUSY, text));
    };
    match hello.intent {
        Intent::Open => open(server, known, refuse, busy),
        Intent::Resume | Intent::Side => resume(server, known, refuse),
        Intent::Status => {
            let mut said = status(server, hello, &known.who);
            said.fit(MAX_WELCOME);
            answer(conn, &Welcome::with(known.protocol, &said));
        }
        Intent::Lease => {
            if let Some(since) = desk::lease(server, &known, refuse) {
                drop(busy);
                let mut known = known;
                if let Some(r) = &mut known.hello.reserve {
                    r.since = Some(since);
                }
                turned_back(server, server.succession.pass_to_heir(known));
            }
        }
        Intent::Release => desk::release(server, &known, refuse),
        Intent::Set => set(server, &known, refuse),
        Intent::Kill => kill(server, &known, refuse),
        Intent::Ticket => link::ticket(server, &known, refuse),
        Intent::Dial => link::dial(server, known, refuse),
        Intent::Link => link::join(server, known, refuse),
        Intent::Fabric => fabric::check(server, &known, refuse),
    }
}

/// Whether the client takes pings ahead of its welcome.
fn is_patient(hello: &Hello) -> bool {
    hello.features.iter().any(|f| f == PATIENCE)
}

/// Counts a client that is served.
struct Busy(Arc<AtomicUsize>);

impl Busy {
    /// A place for a client, if there is one for those that want the same.
    fn enter(all: &Arc<AtomicUsize>, intent: Intent) -> Option<Self> {
        let most = match intent {
            Intent::Resume | Intent::Side => MOST_BUSY + KEPT_FOR_OLD,
            _ => MOST_BUSY,
        };
        let place = Self(all.clone());
        (all.fetch_add(1, Ordering::AcqRel) < most).then_some(place)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A random name nobody can guess.
fn random_name(bytes: usize) -> Result<String, Refusal> {
    let random = crate::vault::random(bytes).map_err(|e| {
        let why = format!("the server has no random numbers: {}", e.root_cause());
        Refusal::new("internal", why)
    })?;
    Ok(random.to_string())
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
        .take(who, spare_wanted, network, still_wanted)
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
fn open(server: &Arc<Server>, known: Known, refuse: impl Fn(&Stream, Refusal), busy: Busy) {
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
    let entry = SessionEntry {
        group: Group::of(&hello, &who.tenant),
        sockets: sockets(server, &hello, &who, reached),
        joined: false,
        bereft: false,
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
        told: 0,
        pace: Pace::default(),
        had: BTreeMap::new(),
        worker: worker.clone(),
    };
    server.counts.opened(&entry);
    lock(&server.sessions).insert(session.clone(), entry);
    drop((busy, begins));
    let _ = conn.send_timeout(None);
    let handed = conn.hand_over();
    if worker.hand(attach, &handed, &fds).is_err() {
        worker.kill();
    }
    // For a worker that dies before it has said a word to its client.
    watch(server, &session, &worker, Some(handed));
}

/// What the sockets of a new session are made with: where its client has `reached` this server
/// other servers reach it, too, unless the settings know better.
fn sockets(server: &Server, hello: &Hello, who: &Who, reached: Option<IpAddr>) -> Arc<Sockets> {
    let at = server.config.fabric.or(reached);
    match at.filter(|_| !hello.lease.is_empty()) {
        Some(at) => Sockets::of_lease(&hello.lease, at),
        None => Sockets::of_tenant(&server.sockets, &format!("{}\0{}", who.tenant, who.name)),
    }
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
            Report::Joined { yes } => {
                if let Some(s) = lock(&server.sessions).get_mut(session) {
                    (s.joined, s.bereft) = (yes, s.bereft && yes);
                }
            }
            Report::Socket(wanted) => {
                let sockets = lock(&server.sessions)
                    .get(session)
                    .map(|s| s.sockets.clone());
                if let (Some(sockets), Some(to)) = (sockets, fd) {
                    sockets.serve(wanted, to);
                }
            }
            Report::Holds(holding) => {
                if let Some(s) = lock(&server.sessions).get_mut(session) {
                    s.keep_holding(holding);
                    s.told += 1;
                }
                server.told.notify_all();
            }
            Report::Ended { why: mut w } => {
                w.truncate(w.floor_char_boundary(MOST_WHY));
                why = Some(w);
            }
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

fn resume(server: &Arc<Server>, known: Known, refuse: impl Fn(&Stream, Refusal)) {
    let Known {
        conn,
        hello,
        protocol,
        who,
    } = known;
    let Some((worker, secret)) = server.session_of(&hello, &who, conn.is_encrypted()) else {
        return refuse(&conn, server.over(&hello.session));
    };
    let _ = conn.send_timeout(None);
    let session = hello.session.clone();
    let placing = lock(&server.pool).placed(&session);
    let attach = server.attach(&session, secret, &hello, protocol, placing);
    let handed = conn.hand_over();
    if worker.hand(attach, &handed, &[]).is_ok() {
        if let Some(s) = lock(&server.sessions).get(&session)
            && hello.intent == Intent::Resume
        {
            server.counts.resumed(s);
        }
        return;
    }
    // The worker is just ending, and why is known in a moment.
    let deadline = Instant::now() + END_TIME;
    while lock(&server.sessions).contains_key(&session) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
    if let Ok(conn) = handed.take() {
        refuse(&conn, server.over(&session));
    }
}

/// Changes what a running session has.
fn set(server: &Arc<Server>, known: &Known, refuse: impl Fn(&Stream, Refusal)) {
    let Known { conn, hello, .. } = known;
    let rdma = hello.change.path == Some(Road::Rdma);
    if rdma && server.config.rdma == Wish::Off {
        let text = "this server moves no session to RDMA: start it with `--rdma auto`";
        return refuse(conn, Refusal::new("rdma", text));
    }
    match change(server, hello, &known.who) {
        Ok(()) => answer(conn, &Welcome::with(known.protocol, &())),
        Err(r) => refuse(conn, r.into()),
    }
}

/// Changes a session as a hello says.
pub(super) fn change(server: &Server, hello: &Hello, who: &Who) -> Result<(), Refused> {
    let (name, asker) = (&hello.session, asker(who, hello));
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
        let most = placing.memory;
        worker.tell(&Order::Memory { most });
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
fn kill(server: &Arc<Server>, known: &Known, refuse: impl Fn(&Stream, Refusal)) {
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

/// Has the workers say what their sessions hold, and waits a little for it.
fn ask_workers(server: &Server) {
    /// Each answers at once, whatever its session does; one that is about to end does not.
    const LONG: Duration = Duration::from_millis(500);
    let asked: Vec<_> = {
        let sessions = lock(&server.sessions);
        let each = sessions.iter();
        each.map(|(name, s)| (name.clone(), s.told, s.worker.clone()))
            .collect()
    };
    for (_, _, worker) in &asked {
        worker.tell(&Order::Tell);
    }
    let sessions = lock(&server.sessions);
    let waits = |all: &mut HashMap<String, SessionEntry>| {
        let mut each = asked.iter();
        each.any(|(name, told, _)| all.get(name).is_some_and(|s| s.told == *told))
    };
    drop(server.told.wait_timeout_while(sessions, LONG, waits));
}

/// Where a client's process id means it.
fn place(c: &ClientInfo) -> (&str, u64) {
    (&c.boot_id, c.pid_namespace)
}

/// What NVML says to a question about a device that whoever asks sees, or about none.
fn said(server: &Server, question: &Question, asker: &Asker<'_>) -> Option<Said> {
    let pool = lock(&server.pool);
    let all = pool.devices(asker);
    let sees = all.iter().any(|d| d.yours && d.device.uuid == question.gpu);
    let part = pool.part(asker).is_some() && is_of_the_whole(&question.function);
    drop(pool);
    let may = (question.gpu.is_empty() || sees) && !part;
    may.then(|| server.monitor.ask(question)).flatten()
}

/// How the collectives of a session go to other servers: by what the job asks for, and by what this
/// machine has.
fn network(client: &ClientInfo) -> String {
    let ib = || std::fs::read_dir("/sys/class/infiniband").is_ok_and(|d| d.count() > 0);
    match &client.job {
        None => "",
        Some(job) if !job.sockets && ib() => "ib",
        Some(_) => "socket",
    }
    .into()
}

/// A time in seconds since 1970.
pub(super) fn unix(t: SystemTime) -> u64 {
    t.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

/// The sessions of this server, and of those before it, that somebody may see.
pub(super) fn sessions(server: &Server, hello: &Hello, who: &Who) -> Vec<Session> {
    let mut list = own_sessions(server, hello, who);
    if let Some(before) = &server.succession.predecessor {
        list.extend(before.list(hello, who));
    }
    list
}

fn own_sessions(server: &Server, hello: &Hello, who: &Who) -> Vec<Session> {
    let asker = asker(who, hello);
    let holdings = hello.features.iter().any(|f| f == HOLDINGS);
    let pool = lock(&server.pool);
    let sessions = lock(&server.sessions);
    let theirs = sessions
        .iter()
        .filter(|(_, s)| pool.shows(&asker, &s.who.tenant));
    theirs
        .map(|(name, s)| {
            let placing = pool.placed(name);
            Session {
                session: name.clone(),
                api: s.api.clone(),
                devices: placing.devices,
                connected: s.connected,
                peer: s.peer.clone(),
                encrypted: s.encrypted,
                path: s.path.clone(),
                token: s.who.name.clone(),
                tenant: s.who.tenant.clone(),
                host: s.client.host.clone(),
                user: s.client.user.clone(),
                pid: s.client.pid,
                here: place(&s.client) == place(&hello.client),
                program: s.client.program.clone(),
                job: s.client.job.clone(),
                network: network(&s.client),
                worker_pid: s.worker.pid,
                lease: placing.lease,
                memory_limit: placing.memory,
                promised: placing.promised,
                share: placing.part.share,
                priority: placing.part.priority,
                time: server.time.had(name),
                seconds: s.since.elapsed().as_secs(),
                opened: unix(s.opened),
                rate: s.pace.rate.filter(|_| holdings),
                holding: if holdings {
                    s.holding.clone()
                } else {
                    Holding::default()
                },
            }
        })
        .collect()
}

/// Everything `busbar devices` and `busbar ps` show, as whoever asks sees it.
pub(super) fn status(server: &Server, hello: &Hello, who: &Who) -> Status {
    let asker = asker(who, hello);
    desk::expire(server);
    if let Some(question) = &hello.ask {
        let said = said(server, question, &asker);
        return Status {
            said,
            ..Status::default()
        };
    }
    let asked = |feature| hello.features.iter().any(|f| f == feature);
    let holdings = asked(HOLDINGS);
    if holdings || lock(&server.pool).part(&asker).is_some() {
        ask_workers(server);
    }
    let gpus = server
        .has_gpus()
        .then(|| server.monitor.read(&server.workers, asked(LAST_READINGS)));
    let mut list = sessions(server, hello, who);
    let pool = lock(&server.pool);
    list.sort_by_key(|s| std::cmp::Reverse(s.seconds));
    let mut devices = pool.devices(&asker);
    let mut gpus = gpus.unwrap_or_default();
    gpus.gpus
        .retain(|uuid, _| devices.iter().any(|d| d.device.uuid == *uuid));
    if let Some(part) = pool.part(&asker) {
        let same = |s: &SessionEntry| {
            s.client.pid == hello.client.pid && place(&s.client) == place(&hello.client)
        };
        let sessions = lock(&server.sessions);
        let ours = sessions.values().filter(|s| same(s));
        let used = ours.map(|s| s.holding.bytes()).sum::<u64>();
        devices.iter_mut().for_each(|d| {
            d.device.memory = d.device.memory.min(part);
        });
        gpus.gpus.values_mut().for_each(|g| g.only(part, used));
    }
    let (waiting, waiting_left_out) = pool.waiting(&asker);
    Status {
        version: env!("CARGO_PKG_VERSION").into(),
        uptime_seconds: server.started.elapsed().as_secs(),
        devices,
        forbidden: pool.forbids(&asker).map(|f| f.to_string()),
        sessions: list,
        sessions_left_out: 0,
        leases: pool.leases(&asker, server.started.elapsed()),
        waiting,
        waiting_left_out,
        missing: server.missing.clone(),
        gpus,
        said: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_that_come_back_find_room_where_new_ones_do_not() {
        let all = Arc::default();
        let enter = |intent| Busy::enter(&all, intent);
        let mut inside: Vec<_> = (0..MOST_BUSY).map(|_| enter(Intent::Open)).collect();
        assert!(inside.iter().all(Option::is_some));
        for intent in [Intent::Open, Intent::Status, Intent::Lease] {
            assert!(enter(intent).is_none());
        }
        inside.extend((0..KEPT_FOR_OLD).map(|_| enter(Intent::Resume)));
        assert!(inside.iter().all(Option::is_some));
        assert!(enter(Intent::Side).is_none());
        drop(inside);
        assert!(enter(Intent::Open).is_some());
    }
}
