//! What a server and the one that takes its place tell each other, over a socket that nobody else
//! has: the old one has started the new one. What one of them does not know it ignores, since they
//! may be of neighbouring releases.

use crate::attach::Hidden;
use crate::hello::Hello;
use serde::{Deserialize, Serialize};

/// By what somebody is known, as a server has found it out.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Bearer {
    /// What was shown: nothing, `file:` or `token:` and the token's hash, or `certificate`.
    pub proof: String,
    /// The name of that.
    pub name: String,
    /// Whose sessions these are.
    pub tenant: String,
    /// It shows what all tenants do.
    pub admin: bool,
}

/// A session that goes on at the old server.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Session {
    /// Its public name.
    pub session: String,
    /// Its API.
    pub api: String,
    /// Its tenant.
    pub tenant: String,
    /// Its devices, by that API's ordinals.
    pub devices: Vec<u32>,
    /// Its lease's whole name.
    pub lease: Option<String>,
    /// The most memory that it may have.
    pub memory: Option<u64>,
    /// Whether that is promised to it.
    pub promised: bool,
    /// The thousandths of its devices' time that are.
    pub share: Option<u32>,
    /// Who goes first.
    pub priority: i32,
    /// What is promised to it is of what its lease has.
    pub drawn: bool,
}

/// A lease that goes on.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Lease {
    /// Its whole name.
    pub name: String,
    /// Its tenant.
    pub tenant: String,
    /// Who has it, for people to read.
    pub holder: String,
    /// Who goes first.
    pub priority: i32,
    /// When it began to wait, in ms since 1970.
    pub since: u64,
    /// Its devices, by the leading API's ordinals.
    pub devices: Vec<u32>,
    /// It has these as a whole.
    pub whole: bool,
    /// Else what it has of the memory of each,
    pub memory: u64,
    /// and of its time.
    pub share: u32,
    /// How long it lasts; `None` as long as whoever has it is connected with the old server.
    pub seconds_left: Option<u64>,
    /// By whom it is kept, if for a time.
    pub kept: Option<Bearer>,
}

/// A connection, which comes along: its hello is read, and whoever sent it is known.
#[derive(Debug, Serialize, Deserialize)]
pub struct Passed {
    /// What the client said.
    pub hello: Hello,
    /// The protocol that was agreed on.
    pub protocol: u32,
    /// Who it is.
    pub who: Bearer,
    /// What it takes to go on with the connection, where it is encrypted.
    #[serde(default)]
    pub keys: Hidden,
}

/// From the old server to the new one.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ToHeir {
    /// First of all. The socket that it listens on comes along.
    Begin {
        /// Its release.
        version: String,
        /// The setting by which it listens.
        listen: String,
        /// The numbers of users that its sessions have.
        users: Vec<u32>,
    },
    /// A session that goes on there.
    Session(Session),
    /// A lease.
    Lease(Lease),
    /// From now on it takes nothing new, writes no audit, and keeps no store.
    Done {
        /// The numbers of users that its sessions have.
        users: Vec<u32>,
    },
    /// A session of its has ended.
    Gone {
        /// Which.
        session: String,
    },
    /// A lease has ended.
    LeaseGone {
        /// Which.
        lease: String,
    },
    /// A line for the audit.
    Note {
        /// What it is about.
        event: String,
        /// What there is to say.
        fields: serde_json::Value,
    },
    /// A connection that is none of a session of its own.
    Passed(Box<Passed>),
}

/// From the new server to the old one.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ToPredecessor {
    /// Everything is there but what only one of them can have: that is to be given up.
    Ready,
    /// It has that, too, and takes clients.
    Taken,
    /// A connection of a session there.
    Passed(Box<Passed>),
    /// What sessions there are that somebody may see. A pipe for the answer comes along.
    List {
        /// The hello of whoever asks.
        hello: Box<Hello>,
        /// Who that is.
        who: Bearer,
    },
    /// What a session has from now on.
    Changed(Session),
    /// A session is to end.
    End {
        /// Which.
        session: String,
        /// Why.
        why: String,
    },
    /// A lease has ended.
    EndLease {
        /// Which.
        lease: String,
    },
    /// The whole server is told to end.
    Drain,
}
