//! What the server says of itself: devices, sessions, leases, as whoever asks may see them.

use super::asking::asker;
use super::desk;
use super::entry::SessionEntry;
use super::identity::Who;
use super::questions::Waiting;
use super::state::Server;
use busbar_control::attach;
use busbar_control::checkpoint::{SWAPPED, name_of};
use busbar_control::gpu::{Gpus, Question, Said};
use busbar_control::hello::{ClientInfo, EVENTS, HOLDINGS, Hello, LAST_READINGS};
use busbar_control::holding::Holding;
use busbar_control::status::{Session, Status};
use busbar_pool::Asker;
use busbar_transport::lock::lock;
use busbar_worker::nvml::is_of_the_whole;
use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Has the workers of some sessions say what these hold, and waits a little for it.
pub(super) fn ask_workers(server: &Server, of: impl Fn(&SessionEntry) -> bool) {
    /// Each answers at once, whatever its session does; one that is about to end does not.
    const LONG: Duration = Duration::from_millis(500);
    let names: Vec<_> = {
        let sessions = lock(&server.sessions);
        let each = sessions.iter().filter(|(_, s)| of(s));
        each.map(|(name, _)| name.clone()).collect()
    };
    let asked: Vec<_> = names
        .iter()
        .filter_map(|name| Waiting::ask(server, name, attach::Question::Holding))
        .collect();
    let sessions = lock(&server.sessions);
    let waits = |all: &mut HashMap<String, SessionEntry>| asked.iter().any(|a| a.is_open(all));
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

/// What happened of late to the devices that are of whoever asks.
fn happened(server: &Server, asker: &Asker<'_>) -> Gpus {
    if server.has_gpus() {
        // Events are told by a process that readings start.
        server.monitor.read(&server.workers, true);
    }
    let devices = lock(&server.pool).devices(asker);
    let theirs = devices.into_iter().filter(|d| d.yours);
    Gpus {
        gpus: server.monitor.events(theirs.map(|d| d.device.uuid)),
        ..Gpus::default()
    }
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

/// Where a session is, if it does not run.
fn state_of(s: &SessionEntry) -> &'static str {
    match s.swap.out {
        true => SWAPPED,
        false => name_of(s.checkpoint),
    }
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
                stall: s.stall.clone(),
                checkpoint: state_of(s).into(),
                worker_pid: s.worker.pid,
                lease: placing.lease,
                memory_limit: placing.memory,
                promised: placing.promised,
                share: placing.part.share.or(placing.lent),
                lent: placing.lent.is_some(),
                priority: placing.part.priority,
                dense: s.worker.dense.is_some(),
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
    let ours = |s: &SessionEntry| {
        let process = |c: &ClientInfo| (c.pid, c.boot_id.clone(), c.pid_namespace);
        s.who.tenant == who.tenant && process(&s.client) == process(&hello.client)
    };
    let asker = Asker {
        served: lock(&server.sessions).values().any(ours),
        ..asker(who, hello)
    };
    desk::expire(server);
    if let Some(question) = &hello.ask {
        let said = said(server, question, &asker);
        return Status {
            said,
            ..Status::default()
        };
    }
    let asked = |feature| hello.features.iter().any(|f| f == feature);
    if asked(EVENTS) {
        return Status {
            gpus: happened(server, &asker),
            ..Status::default()
        };
    }
    let holdings = asked(HOLDINGS);
    if holdings || lock(&server.pool).part(&asker).is_some() {
        ask_workers(server, |_| true);
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
        let sessions = lock(&server.sessions);
        let ours = sessions.values().filter(|s| ours(s));
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
