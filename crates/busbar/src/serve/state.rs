//! What the server's threads share.

use super::config::Config;
use super::greeting::Greetings;
use super::identity::{Identities, Who};
use super::monitor::Monitor;
use super::refusals::Refusals;
use super::rules::Rules;
use super::timekeeper::Timekeeper;
use super::turns::Turns;
use super::workers::{Worker, Workers};
use crate::audit::Audit;
use busbar_control::hello::ClientInfo;
use busbar_control::holding::Holding;
use busbar_pool::Pool;
use busbar_transport::lock::lock;
use busbar_transport::tls;
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Instant, SystemTime};

/// A session as the server sees it.
pub(crate) struct SessionEntry {
    pub api: String,
    pub secret: String,
    pub client: ClientInfo,
    /// Who opened it, as the server knows.
    pub who: Who,
    pub peer: String,
    pub encrypted: bool,
    pub since: Instant,
    pub opened: SystemTime,
    pub connected: bool,
    /// What it held when its worker last said so, and how often it has.
    pub holding: Holding,
    pub told: u64,
    pub worker: Arc<Worker>,
}

/// Everything the server's threads share.
pub(crate) struct Server {
    pub config: Config,
    /// Who is let in.
    pub identities: Identities,
    /// What it shows to clients, where it encrypts.
    pub tls: Option<tls::Server>,
    /// Whose handshakes are worked on.
    pub handshakes: Turns,
    /// For each API without devices, why.
    pub missing: Vec<(String, String)>,
    pub pool: Mutex<Pool>,
    /// What the pool's policy is read from.
    pub rules: Rules,
    pub sessions: Mutex<HashMap<String, SessionEntry>>,
    /// A worker has said what its session holds, or has gone.
    pub told: Condvar,
    /// Sessions that ended lately, and why: what a client hears that tries to resume one.
    pub ended: Mutex<VecDeque<(String, String)>>,
    pub workers: Workers,
    pub monitor: Monitor,
    /// Whose turn each device is.
    pub time: Arc<Timekeeper>,
    pub started: Instant,
    /// Where programs reach it.
    pub address: SocketAddr,
    pub greeting: Greetings,
    /// What the log says of clients that are refused.
    pub refusals: Refusals,
    /// Where all of this is noted.
    pub audit: Audit,
    /// How often it was told to end; from the first time on it only waits for its sessions.
    pub told_to_end: AtomicU32,
    /// Clients that are known and being served, other than by a worker.
    pub busy: Arc<AtomicUsize>,
}

impl Server {
    /// Whether nothing new is taken any more.
    pub(crate) fn drains(&self) -> bool {
        self.told_to_end.load(Ordering::Acquire) > 0
    }

    /// Whether there is something for NVML to read.
    pub(crate) fn has_gpus(&self) -> bool {
        lock(&self.pool).has("cuda")
    }
}
