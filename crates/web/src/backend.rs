//! What the server behind this port does for it.

use crate::api::Quota;
use busbar_control::hello::{Change, Refusal};
use busbar_control::holding::Traffic;
use busbar_control::status::Status;
use rustls_pki_types::CertificateDer;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Lets callers in.
pub trait Gate: Send + Sync + 'static {
    /// Who it is that shows this; an empty token is none.
    fn admit(
        &self,
        token: &str,
        certificate: Option<&CertificateDer<'_>>,
    ) -> Result<Arc<dyn View>, Refusal>;

    /// The server's own, which sees all: what is kept for later is seen by it.
    fn own(&self) -> Arc<dyn View>;

    /// Somebody was refused: to be logged, as often as that is good for the log.
    fn refused(&self, peer: &str, why: &Refusal);
}

/// What somebody who was let in may see and do. All of it may take a moment, and none of it is
/// called by a thread that serves others.
pub trait View: Send + Sync {
    /// The same for all that were let in by the same.
    fn key(&self) -> String;

    /// Why it is let in no more.
    fn over(&self) -> Option<String>;

    /// All that there is to see.
    fn overview(&self) -> Overview;

    /// Changes a session.
    fn change(&self, session: &str, change: Change) -> Result<(), Refusal>;

    /// Ends a session.
    fn end(&self, session: &str) -> Result<(), Refusal>;
}

/// What somebody sees of a server.
#[derive(Debug, Clone, Default)]
pub struct Overview {
    /// What `busbar ps` and `busbar devices` show.
    pub status: Status,
    /// What tenants have and may have.
    pub quotas: Vec<Quota>,
    /// The machine's name.
    pub host: String,
    /// Where programs reach the server.
    pub address: String,
    /// When it was started, in seconds since 1970.
    pub started: u64,
    /// Whether it takes nothing new.
    pub draining: bool,
    /// What keeps sessions apart.
    pub isolation: String,
    /// The most sessions that it takes.
    pub most_sessions: usize,
    /// What was counted.
    pub rows: Vec<Row>,
    /// How often somebody was refused, by code, for those who see that.
    pub refusals: BTreeMap<String, u64>,
}

/// What sessions of one tenant and one API have done since the server's start, those that have
/// ended included.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Row {
    /// The tenant.
    pub tenant: String,
    /// The API.
    pub api: String,
    /// How many were opened, and how many have ended.
    pub opened: u64,
    /// See `opened`.
    pub ended: u64,
    /// How often one went on over another connection.
    pub resumed: u64,
    /// What their connections have carried.
    pub traffic: Traffic,
    /// What they have had of devices that are had in turns.
    pub time: BTreeMap<String, Had>,
    /// The device memory that those use which go on.
    pub memory: u64,
    /// How many of them have a connection, and how many have none.
    pub connected: u64,
    /// See `connected`.
    pub disconnected: u64,
}

/// What was had of a device, and waited for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Had {
    /// In ms.
    pub used_ms: u64,
    /// In ms.
    pub waited_ms: u64,
}
