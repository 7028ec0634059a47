//! What a server and each of its workers tell each other.

use crate::hello::Hello;
use crate::holding::Holding;
use serde::{Deserialize, Serialize};

/// From server to worker.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Order {
    /// A connection, which comes along.
    Attach(Box<Attach>),
    /// Say what the session holds.
    Tell,
}

/// From server to worker, with a connection's descriptor: the hello is read already, and the worker
/// answers it itself, since only the worker knows how far the session has come.
#[derive(Debug, Serialize, Deserialize)]
pub struct Attach {
    /// What the client said.
    pub hello: Hello,
    /// The session's public name.
    pub session: String,
    /// The session's secret.
    pub secret: String,
    /// The protocol that was agreed on.
    pub protocol: u32,
    /// Devices that the session may use, by ordinal.
    pub devices: Vec<u32>,
    /// How long to keep the session without a connection, in seconds.
    pub resume_seconds: u64,
}

/// From worker to server.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Report {
    /// The worker is ready for its session.
    Ready,
    /// The session has a connection.
    Attached,
    /// The session has lost its connection and waits for another.
    Detached,
    /// What the session holds: it was asked for, or is left at the end.
    Holds(Holding),
    /// The session is over.
    Ended {
        /// Why.
        why: String,
    },
}

impl Order {
    /// As it travels.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

impl Report {
    /// As it travels.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// How the names of folders begin that a process needs for a moment: by this the server finds those
/// of a worker that has ended.
pub fn scratch_prefix(process: u32) -> String {
    format!("busbar-{process}-")
}
