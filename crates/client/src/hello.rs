//! Opening and resuming connections: the client's half of the hello.

use crate::config::Config;
use crate::env::var;
use crate::prelude::*;
use crate::ranks;
use busbar_channel::{recv_hello, send_hello};
use busbar_control::hello::{
    ClientInfo, Hello, Intent, Job, NEWS, PATIENCE, PROTOCOL_MAX, PROTOCOL_MIN, Refusal, Welcome,
};
use busbar_control::status::Status;
use busbar_control::text::host_name;
use busbar_transport::tcp::Address;
use busbar_transport::{Connection, Dialer};
use busbar_wire::frame::Kind;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;

/// How long a server has for the first byte of its answer, however long it took to reach it.
const LEAST_WAIT: Duration = Duration::from_secs(1);

/// Why no connection could be made.
#[derive(Debug, Clone)]
pub enum Failure {
    /// The server could not be reached; trying again may help.
    Unreachable(String),
    /// Somebody answered and said no.
    Refused(Refusal),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unreachable(m) => f.write_str(m),
            Self::Refused(r) => f.write_str(&r.message),
        }
    }
}

impl Failure {
    /// What is said of it where several servers are asked.
    pub fn at(&self, server: &str) -> String {
        match self {
            Self::Unreachable(m) => m.clone(),
            Self::Refused(r) => format!("{server}: {}", r.message),
        }
    }
}

/// Connects to a server, says `hello` and returns the connection with the server's answer.
pub fn connect(
    dialer: &dyn Dialer,
    hello: &Hello,
    timeout: Duration,
) -> Result<(Arc<dyn Connection>, Welcome), Failure> {
    let server = dialer.peer();
    let lost = |what: &str, e: std::io::Error| {
        let few = matches!(e.raw_os_error(), Some(libc::EMFILE | libc::ENFILE));
        let hint = match e.kind() {
            _ if few => "this program has too many files open; `ulimit -n` raises the limit",
            // It says itself what to do.
            ErrorKind::PermissionDenied | ErrorKind::ConnectionAborted => {
                return Failure::Unreachable(format!("cannot talk to {server}: {e}"));
            }
            ErrorKind::ConnectionRefused => "nothing listens there; is `busbar serve` running?",
            ErrorKind::TimedOut | ErrorKind::WouldBlock => {
                // What the system calls it says less.
                return Failure::Unreachable(format!(
                    "cannot {what} {server}: no answer in time; is it the right host, and is the \
                     port open?"
                ));
            }
            ErrorKind::InvalidData => "is it the right port?",
            ErrorKind::UnexpectedEof => {
                "it does not answer as a Busbar server; is it the right port?"
            }
            _ => "is the address right?",
        };
        Failure::Unreachable(format!("cannot {what} {server}: {e}; {hint}"))
    };
    let start = Instant::now();
    let conn = dialer.dial(timeout).map_err(|e| lost("reach", e))?;
    let body = serde_json::to_vec(hello).unwrap_or_default();
    send_hello(&*conn, Kind::Hello, &body).map_err(|e| lost("talk to", e))?;
    // A server that is at work says so at once, ...
    let left = timeout.saturating_sub(start.elapsed());
    let first = conn.wait(None, Some(left.max(LEAST_WAIT)));
    if !first.map_err(|e| lost("talk to", e))? {
        return Err(lost("talk to", ErrorKind::TimedOut.into()));
    }
    // ... and may take long to start a worker, but sends something within this time.
    // One that is there already is given less.
    let resumes = matches!(hello.intent, Intent::Resume | Intent::Try);
    let more = Duration::from_secs(if resumes { 8 } else { 26 });
    let patience = timeout.max(Duration::from_millis(200)) + more;
    let quick = matches!(hello.intent, Intent::Status);
    let _ = conn.recv_timeout(Some(if quick {
        timeout.max(LEAST_WAIT)
    } else {
        patience
    }));
    let answer = recv_hello(&*conn, Kind::Welcome).map_err(|e| match e.kind() {
        ErrorKind::TimedOut | ErrorKind::WouldBlock if resumes => Failure::Unreachable(format!(
            "the server {server} answers, but the session's worker does not: it may have been \
                 stopped"
        )),
        _ => lost("talk to", e),
    })?;
    let _ = conn.recv_timeout(None);
    let what = format!("the answer of the server {server}");
    let welcome: Welcome = busbar_control::read(&what, &answer).map_err(Failure::Unreachable)?;
    match welcome.refusal {
        Some(r) => Err(Failure::Refused(r)),
        None if !(PROTOCOL_MIN..=PROTOCOL_MAX).contains(&welcome.protocol) => {
            Err(Failure::Refused(Refusal::new(
                "version",
                format!(
                    "the server (Busbar {}) speaks protocol {} and this client (Busbar \
                     {}) {PROTOCOL_MIN}-{PROTOCOL_MAX}: install the same release on both",
                    welcome.version,
                    welcome.protocol,
                    env!("CARGO_PKG_VERSION"),
                ),
            )))
        }
        None => {
            if conn.peer().is_empty() {
                return Err(Failure::Unreachable(format!("{server} went away")));
            }
            Ok((conn, welcome))
        }
    }
}

/// Asks a server what it has, and what of it this program sees. What else is asked for, and what
/// need not be exact, is said by `features`.
pub fn status(config: &Config, server: &str, features: &[&str]) -> Result<Status, String> {
    let mut hello = Hello::new(Intent::Status);
    hello.features = features.iter().map(|f| f.to_string()).collect();
    ask(config, server, hello)
}

/// As [`status`], with a hello that says what is asked for.
pub fn tell(config: &Config, server: &str, hello: Hello) -> Result<Status, String> {
    ask(config, server, hello)
}

/// Asks a server for a document.
pub fn ask<T: serde::de::DeserializeOwned>(
    config: &Config,
    server: &str,
    hello: Hello,
) -> Result<T, String> {
    let hello = introduce(config, server, hello)?;
    let timeout = config.connect_timeout.max(Duration::from_millis(1));
    let route = config.route(Address::new(server))?;
    let (_, welcome) = connect(&route, &hello, timeout).map_err(|e| e.at(server))?;
    welcome.read(server)
}

/// A hello for a server with who we are and what we may.
pub fn introduce(config: &Config, server: &str, mut hello: Hello) -> Result<Hello, String> {
    hello.token = config.server(server)?.token;
    hello.lease = config.lease_at(server).into();
    hello.memory = config.memory;
    hello.share = config.share;
    hello.priority = config.priority;
    hello.mode = config.mode;
    hello.devices = config.parts;
    hello.idle = config.idle;
    hello.off = config.off.clone();
    hello.driver = config.driver.clone();
    hello.features.extend([PATIENCE, NEWS].map(String::from));
    hello.client = whoami();
    Ok(hello)
}

/// Describes the present process.
pub fn whoami() -> ClientInfo {
    let read = |p: &str| std::fs::read_to_string(p).unwrap_or_default();
    let args = read("/proc/self/cmdline").replace('\0', " ");
    let program: String = args.trim().chars().take(120).collect();
    let stat = read("/proc/self/stat");
    ClientInfo {
        host: host_name(),
        user: user(),
        program,
        pid: std::process::id() as i32,
        start_time: stat_field(&stat, 22),
        stack: stat_field(&stat, 28),
        boot_id: read("/proc/sys/kernel/random/boot_id").trim().into(),
        pid_namespace: std::fs::metadata("/proc/self/ns/pid").map_or(0, |m| m.ino()),
        job: job(),
    }
}

/// The job that the process is of: its name, its rank, and how its servers talk to each other.
fn job() -> Option<Job> {
    let name: String = var("BUSBAR_JOB").unwrap_or_default();
    let nccl = var("BUSBAR_NCCL").is_some_and(|v| !v.is_empty() && v != "0");
    let rank = ranks::rank(var).filter(|_| nccl || !name.is_empty());
    if rank.is_none() && name.is_empty() {
        return None;
    }
    let sockets = var("NCCL_IB_DISABLE").is_some_and(|v| v.trim() == "1")
        || var("NCCL_NET").is_some_and(|v| v.eq_ignore_ascii_case("socket"));
    Some(Job {
        name: name.chars().take(64).collect(),
        rank: rank.map(|r| r.rank as u32),
        ranks: rank.map(|r| r.ranks as u32),
        sockets,
    })
}

/// Who runs us, for people to read. The name services are not asked: this is somebody's program.
fn user() -> String {
    // SAFETY: getuid has no preconditions.
    let uid = unsafe { libc::getuid() }.to_string();
    let listed = || {
        let users = std::fs::read_to_string("/etc/passwd").ok()?;
        let ours = users
            .lines()
            .find(|l| l.split(':').nth(2) == Some(uid.as_str()))?;
        ours.split(':').next().map(str::to_string)
    };
    std::env::var("USER")
        .ok()
        .or_else(listed)
        .unwrap_or_else(|| format!("uid {uid}"))
}

/// A number of `/proc/PID/stat`, from field 4 on; the second field may hold spaces and brackets.
fn stat_field(stat: &str, field: usize) -> u64 {
    let after = stat.rfind(')').map_or("", |i| &stat[i + 1..]);
    after
        .split_whitespace()
        .nth(field - 3)
        .and_then(|s| s.parse().ok())
        .unwrap_or(0)
}
