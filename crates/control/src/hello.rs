//! How two peers agree to talk: the first frame each way on every connection.
//!
//! Missing fields of both take their defaults.

use crate::checkpoint::Step;
use crate::gpu::Question;
use crate::lease::Reserve;
use crate::text::one_line;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};

/// The oldest protocol this build speaks.
pub const PROTOCOL_MIN: u32 = 2;
/// The newest protocol this build speaks.
pub const PROTOCOL_MAX: u32 = 2;
/// The ability to copy through memory that client and worker share, on one host.
pub const SHARED_MEMORY: &str = "shared-memory";
/// The ability to wait for the welcome for as long as pings come.
pub const PATIENCE: &str = "patience";
/// The ability to take sentences for the client's log.
pub const NEWS: &str = "news";
/// The feature of a session that may have a connection beside its main one.
pub const SIDE_CONNECTION: &str = "side-connection";
/// The feature of one that may have several.
pub const SIDE_CONNECTIONS: &str = "side-connections";
/// The ability to keep parameters of launches.
pub const KEPT_PARAMETERS: &str = "kept-parameters";
/// The ability to change words of kept parameters.
pub const CHANGED_PARAMETERS: &str = "changed-parameters";
/// The ability to take bytes for memory that lie among others.
pub const MEMORY_PARTS: &str = "memory-parts";
/// The ability to do atomic operations on memory.
pub const MEMORY_ATOMICS: &str = "memory-atomics";
/// The worker takes records with marks, and tells what devices did for their sake, if its machine
/// has CUPTI.
pub const ACTIVITY: &str = "activity";
/// The ability to move a connection to a queue pair; in a welcome, that this begins behind it.
pub const RDMA: &str = "rdma";
/// Whoever asks for the status wants to know what sessions hold, too.
pub const HOLDINGS: &str = "holdings";
/// Whoever asks for the status is content with the last readings of the GPUs, however old.
pub const LAST_READINGS: &str = "last-readings";
/// Whoever asks for the status wants to know what happened to its GPUs, and nothing else.
pub const EVENTS: &str = "events";
/// The ability to take leases as [`crate::lease`] has it.
pub const LEASES: &str = "leases";
/// What a client proves itself with when it shares memory is derived, in this context, from the
/// session's secret, which itself stays on the connection that it came over.
pub const SHARED_PROOF: &str = "busbar shared memory";
/// The port a server listens on unless told otherwise.
pub const DEFAULT_PORT: u16 = 7400;

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum Intent {
    /// A new session.
    #[default]
    Open,
    /// A session whose last connection was lost goes on over this one.
    Resume,
    /// One more connection of a session that has one.
    Side,
    /// See whether a session's connection could move to RDMA, by moving this one, which nothing
    /// else is done with: the session goes on meanwhile.
    Try,
    /// List devices, sessions and leases, and close.
    Status,
    /// Reserve devices; more is said over the connection afterwards.
    Lease,
    /// End a lease.
    Release,
    /// Change what a running session has.
    Set,
    /// End a session.
    Kill,
    /// A step on a session's way to a checkpoint and back.
    Checkpoint,
    /// A ticket by which another server joins a session that this client has here.
    Ticket,
    /// Dial another server, and join a session there to one that this client has here.
    Dial,
    /// From another server, with a ticket: a link to a session.
    Link,
    /// Say what RDMA devices there are; then measure what lies between them and another machine's,
    /// step by step.
    Fabric,
}

/// A link between two sessions of a client, at two servers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct Link {
    /// Ticket and dial: what the client calls it.
    pub number: u32,
    /// Dial: `HOST:PORT` of the other server.
    pub address: String,
    /// Dial: the fingerprint of that one's key; empty where it does not encrypt.
    pub key: String,
    /// Dial: the session there.
    pub session: String,
    /// Dial and link: what lets the link in.
    pub ticket: String,
}

/// The answer to [`Intent::Ticket`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct Ticket {
    /// Good once, and not for long.
    pub ticket: String,
    /// The fingerprint of the server's key; empty where it does not encrypt.
    pub key: String,
}

/// What is to change of a session; what is not said stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct Change {
    /// The thousandths of its devices' time that are promised to it; 0 for none.
    pub share: Option<u32>,
    /// Who goes first, the higher.
    pub priority: Option<i32>,
    /// The bytes of device memory that are promised to it; 0 for none.
    pub memory: Option<u64>,
    /// What its bytes are to pass.
    pub path: Option<Road>,
}

/// What a session's bytes are to pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Road {
    /// Nothing but its TCP connections.
    Tcp,
    /// A queue pair, where both ends have one.
    Rdma,
}

impl std::str::FromStr for Road {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "tcp" => Ok(Self::Tcp),
            "rdma" => Ok(Self::Rdma),
            other => Err(format!("`{other}` is neither tcp nor rdma")),
        }
    }
}

/// How a session has its devices beside others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Its work is apart from others', and a fault in theirs is theirs alone.
    #[default]
    Isolated,
    /// Its kernels run at the same time as those of the same login's other dense sessions, and a
    /// fault in one ends them all.
    Dense,
}

impl std::fmt::Display for Mode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Isolated => "isolated",
            Self::Dense => "dense",
        })
    }
}

impl std::str::FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "" | "isolated" => Ok(Self::Isolated),
            "dense" => Ok(Self::Dense),
            other => Err(format!("`{other}` is neither isolated nor dense")),
        }
    }
}

/// Who asks. Shown to people; the process fields also let a server on the same host see at once
/// that a client has died.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct ClientInfo {
    /// Host name.
    pub host: String,
    /// User name.
    pub user: String,
    /// Program, as its command line begins.
    pub program: String,
    /// Process id in the client's namespace.
    pub pid: i32,
    /// When the process started, in clock ticks since boot (field 22 of `/proc/PID/stat`).
    pub start_time: u64,
    /// Where its stack begins (field 28 there): elsewhere once the process has run another program,
    /// which has nothing of the session. 0 for unknown.
    pub stack: u64,
    /// The kernel's boot id: equal on one host.
    pub boot_id: String,
    /// The inode of the client's pid namespace.
    pub pid_namespace: u64,
    /// The job that it is of, if it is of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<Job>,
}

/// A job, as one of its processes says it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct Job {
    /// Its name; empty where it has none.
    pub name: String,
    /// Which rank the process is.
    pub rank: Option<u32>,
    /// Of how many.
    pub ranks: Option<u32>,
    /// Between servers its collectives go over sockets, whatever else those have.
    pub sockets: bool,
}

impl Job {
    /// For people to read: `train 3/8`.
    pub fn shown(&self) -> String {
        let rank = match (self.rank, self.ranks) {
            (Some(rank), Some(ranks)) => format!("{rank}/{ranks}"),
            _ => String::new(),
        };
        format!("{} {rank}", self.name).trim().into()
    }
}

/// The first frame of a connection, from its client.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct Hello {
    /// Oldest protocol the client speaks.
    pub protocol_min: u32,
    /// Newest protocol the client speaks.
    pub protocol_max: u32,
    /// The client's release, for messages.
    pub version: String,
    /// Optional abilities of the client, by name.
    pub features: Vec<String>,
    /// What the connection is for.
    pub intent: Intent,
    /// The API of a new session: `cuda`, `opencl`.
    pub api: String,
    /// Proof of the right to connect, when the server asks for one.
    pub token: String,
    /// Resume, side, try, set, kill, checkpoint, ticket, dial and link: which session.
    pub session: String,
    /// What only the session's client knows: without it nobody else can take a session over.
    pub secret: String,
    /// Resume: the last data frame that the client has received.
    pub last_received: u64,
    /// Resume: which attempt of the session's this is, counted from 1. One that comes later than a
    /// higher one is too late.
    pub epoch: u64,
    /// Open: optimisations that the client's user has switched off, by name.
    pub off: Vec<String>,
    /// Open: what the program's environment says to the driver: see [`crate::driver`].
    pub driver: Vec<(String, String)>,
    /// Open: the lease that the session belongs to; empty for none.
    pub lease: String,
    /// Open and status: the bytes of device memory that a session is to have for itself, of one
    /// device; 0 for what is free of all of them.
    pub memory: u64,
    /// Open and status: the thousandths of a device's time that are to be promised to a session; 0
    /// for as much of the rest as others have.
    pub share: u32,
    /// Likewise, who goes first, the higher.
    pub priority: i32,
    /// Open: how the session has its devices beside others.
    pub mode: Mode,
    /// Open: on how many devices the session is to have its part; 0 for one, or for all that its
    /// lease has.
    pub devices: u32,
    /// Open: after how many seconds in which it does nothing the session's share of time is others'
    /// until it works again; 0 for never.
    pub idle: u32,
    /// Lease: what to reserve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserve: Option<Reserve>,
    /// Release: the lease's name, or what of it is shown; empty for all of the asker's own.
    pub release: String,
    /// Status: nothing is asked for but this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ask: Option<Question>,
    /// Set: what is to change.
    pub change: Change,
    /// Checkpoint: which step.
    pub checkpoint: Step,
    /// Ticket, dial and link: which link.
    pub link: Link,
    /// Who asks.
    pub client: ClientInfo,
}

/// The code of a refusal that says nothing of the session: a client that comes back to one tries
/// again.
pub const BUSY: &str = "busy";

/// Why a hello is refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// One word a program can match: `hello`, `version`, `token`, `tls`, `no_device`, `taken`,
    /// `lease`, `api`, `session`, `limit`, `memory`, `share`, `mode`, `policy`, `link`, `rdma`,
    /// `internal`, [`BUSY`].
    pub code: String,
    /// One sentence that says what to do. What a server says is a line of text when it is read.
    #[serde(deserialize_with = "line")]
    pub message: String,
}

/// The longest sentence of a refusal that is read, in bytes.
const MOST_MESSAGE: usize = 1000;

fn line<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let text = String::deserialize(from)?;
    Ok(one_line(&text, MOST_MESSAGE))
}

/// The answer to a [`Hello`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(default)]
pub struct Welcome {
    /// Set when the answer is no; nothing else counts then.
    pub refusal: Option<Refusal>,
    /// The protocol to speak.
    pub protocol: u32,
    /// The server's release, for messages.
    pub version: String,
    /// Abilities that both sides have.
    pub features: Vec<String>,
    /// The session's public name.
    pub session: String,
    /// The session's secret.
    pub secret: String,
    /// Where the worker takes memory to share: the name of its abstract socket; empty for nowhere.
    pub shared: String,
    /// The client's address, as the worker sees it: another one than the client's own means that
    /// something lies between them.
    pub peer: String,
    /// Resume: the last data frame that the worker has received.
    pub last_received: u64,
    /// Side: what the worker calls the connection.
    pub side: u64,
    /// How long the server keeps a session without a connection, in seconds.
    pub resume_seconds: u64,
    /// The most bytes of device memory that the session gets; 0 for as many as there are.
    pub memory: u64,
    /// Status, lease, release and checkpoint: the answer's document.
    pub document: serde_json::Value,
}

impl Hello {
    /// A hello of this build, for `intent`.
    pub fn new(intent: Intent) -> Self {
        Self {
            protocol_min: PROTOCOL_MIN,
            protocol_max: PROTOCOL_MAX,
            version: env!("CARGO_PKG_VERSION").into(),
            intent,
            ..Self::default()
        }
    }

    /// The protocol that both sides speak, or the refusal that says why there is none.
    pub fn negotiate(&self) -> Result<u32, Refusal> {
        let best = self.protocol_max.min(PROTOCOL_MAX);
        if best >= self.protocol_min && best >= PROTOCOL_MIN {
            return Ok(best);
        }
        let (mine, theirs) = (env!("CARGO_PKG_VERSION"), &self.version);
        let old = if self.protocol_max < PROTOCOL_MIN {
            "client"
        } else {
            "server"
        };
        Err(Refusal::new(
            "version",
            format!(
                "the client (Busbar {theirs}) speaks protocol {}-{} and the server (Busbar {mine}) \
                 {PROTOCOL_MIN}-{PROTOCOL_MAX}: upgrade the {old}",
                self.protocol_min, self.protocol_max,
            ),
        ))
    }
}

impl Refusal {
    /// A refusal with a code and a sentence.
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            message: message.into(),
        }
    }
}

impl Welcome {
    /// An answer of this build, with the document that was asked for.
    pub fn with(protocol: u32, document: &impl Serialize) -> Self {
        Self {
            protocol,
            version: env!("CARGO_PKG_VERSION").into(),
            document: serde_json::to_value(document).unwrap_or_default(),
            ..Self::default()
        }
    }

    /// The document that was asked for, or what is wrong with it.
    pub fn read<T: DeserializeOwned>(&self, server: &str) -> Result<T, String> {
        let what = format!("the answer of the server {server}");
        crate::understood(&what, T::deserialize(&self.document))
    }

    /// The answer no.
    pub fn refuse(refusal: Refusal) -> Self {
        Self {
            refusal: Some(refusal),
            version: env!("CARGO_PKG_VERSION").into(),
            ..Self::default()
        }
    }
}

/// `addr` with the default port where it names none.
pub fn with_port(addr: &str) -> String {
    let has_port = match addr.rfind(':') {
        None => false,
        Some(i) => {
            !addr.starts_with('[') && addr.matches(':').count() == 1 || addr[..i].ends_with(']')
        }
    };
    if addr.is_empty() || has_port {
        addr.to_string()
    } else if addr.contains(':') && !addr.starts_with('[') {
        format!("[{addr}]:{}", DEFAULT_PORT)
    } else {
        format!("{addr}:{}", DEFAULT_PORT)
    }
}

#[cfg(test)]
mod tests {
    use super::with_port;

    #[test]
    fn a_server_without_a_port_gets_the_default() {
        assert_eq!(with_port("gpu-host"), "gpu-host:7400");
        assert_eq!(with_port("gpu-host:1"), "gpu-host:1");
        assert_eq!(with_port("[::1]"), "[::1]:7400");
        assert_eq!(with_port("[::1]:5"), "[::1]:5");
        assert_eq!(with_port("fe80::1"), "[fe80::1]:7400");
        assert_eq!(with_port(""), "");
    }
}
