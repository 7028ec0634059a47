//! What the server's threads share.

use super::config::Config;
use super::counts::Counts;
use super::dials::Dials;
use super::entry::SessionEntry;
use super::greeting::Greetings;
use super::groups::{Losses, Talks};
use super::heritage::Predecessor;
use super::identity::{Identities, Who};
use super::monitor::Monitor;
use super::refusals::Refusals;
use super::rules::Rules;
use super::silent::Silent;
use super::sockets::Exchange;
use super::succession::Succession;
use super::tickets::Tickets;
use super::timekeeper::Timekeeper;
use super::turns::Turns;
use super::workers::{Worker, Workers};
use crate::audit::Audit;
use busbar_control::attach::{Attach, Hidden, Place};
use busbar_control::hello::{Hello, Refusal};
use busbar_pool::{Placing, Pool};
use busbar_transport::lock::lock;
use busbar_transport::tls;
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, Once};
use std::time::Instant;

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
    /// Leases that last longer than the connection that they were asked for over: by whom.
    pub kept: Mutex<HashMap<String, Who>>,
    /// A worker has said what its session holds, or has gone.
    pub told: Condvar,
    /// Bytes that are on their way from devices to this machine's memory.
    pub leaving: AtomicU64,
    /// Held by whoever has sessions give way, or be restored: room that one has found is not
    /// another's.
    pub swaps: Mutex<()>,
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
    /// What is counted.
    pub counts: Counts,
    /// Where all of this is noted.
    pub audit: Audit,
    /// How often it was told to end; from the first time on it only waits for its sessions.
    pub told_to_end: AtomicU32,
    /// Clients that are known and being served, other than by a worker.
    pub busy: Arc<AtomicUsize>,
    /// What the sockets of sessions are made with.
    pub sockets: Exchange,
    /// Ranks that jobs have lost.
    pub losses: Losses,
    /// What ranks of jobs say to those at other servers.
    pub talks: Talks,
    /// What lets links from other servers in.
    pub tickets: Tickets,
    /// Other servers that are being dialled.
    pub dials: Dials,
    /// Somebody looks after idle sessions.
    pub idle: Once,
    /// Somebody checks the fabric.
    pub measuring: AtomicBool,
    /// And addresses that have not answered of late.
    pub silent: Silent,
    /// The servers before and after this one, at the same address.
    pub succession: Succession,
}

/// What is said of links where the server makes none.
const NO_LINKS: &str =
    "this server makes no links to others (--no-links): copies go through the client";

impl Server {
    /// Whether nothing new is taken any more.
    pub(crate) fn drains(&self) -> bool {
        self.told_to_end.load(Ordering::Acquire) > 0
    }

    /// Whether there is the server whose place this one has taken.
    pub(crate) fn has_predecessor(&self) -> bool {
        let before = self.succession.predecessor.as_ref();
        before.is_some_and(Predecessor::is_there)
    }

    /// The worker and the secret of the session that a hello names, if it comes from whoever has
    /// opened that, by what was shown then.
    pub(crate) fn session_of(
        &self,
        hello: &Hello,
        who: &Who,
        encrypted: bool,
    ) -> Option<(Arc<Worker>, String)> {
        let sessions = lock(&self.sessions);
        let s = sessions.get(&hello.session)?;
        let good = blake3::hash(s.secret.as_bytes()) == blake3::hash(hello.secret.as_bytes());
        (good && s.who == *who && s.encrypted == encrypted)
            .then(|| (s.worker.clone(), s.secret.clone()))
    }

    /// What a worker is told of a connection that it is handed. The lease that a hello names is a
    /// secret that is none of a worker's business.
    pub(super) fn attach(
        &self,
        session: &str,
        secret: String,
        hello: &Hello,
        protocol: u32,
        placing: Placing,
    ) -> Attach {
        let hello = Hello {
            lease: String::new(),
            ..hello.clone()
        };
        Attach {
            hello,
            session: session.into(),
            secret,
            protocol,
            devices: placing.devices,
            memory: placing.memory,
            // A promise is one of each device, what the policy allows one of all.
            of_each: placing.promised,
            swaps: self.swaps(),
            resume_seconds: self.config.resume_seconds,
            keys: Hidden::default(),
            place: Place::default(),
        }
    }

    /// Whether any session here may give way to others.
    pub(crate) fn swaps(&self) -> bool {
        self.config.swap_idle.is_some() || lock(&self.pool).swaps()
    }

    /// A session's worker.
    pub(crate) fn worker_of(&self, session: &str) -> Option<Arc<Worker>> {
        Some(lock(&self.sessions).get(session)?.worker.clone())
    }

    /// Who has opened a session.
    pub(crate) fn who_has(&self, session: &str) -> Option<Who> {
        Some(lock(&self.sessions).get(session)?.who.clone())
    }

    /// Whether sessions of somebody may be linked to others at other servers at all.
    pub(crate) fn may_link(&self, who: &Who) -> Result<(), Refusal> {
        if !self.config.links {
            return Err(Refusal::new("link", NO_LINKS));
        }
        Ok(lock(&self.pool).may_link(&who.tenant)?)
    }

    /// Lets another server's link in by its ticket: for that one session it is as good as the
    /// client that the ticket was given to. What the client calls the link is put into the hello.
    pub(crate) fn admit_link(&self, hello: &mut Hello) -> Result<Who, Refusal> {
        let no = |why| Refusal::new("link", why);
        if !self.config.links {
            return Err(no(NO_LINKS));
        }
        let ticket = std::mem::take(&mut hello.link.ticket);
        let number = self.tickets.take(&ticket, &hello.session, Instant::now());
        let who = number.and_then(|n| Some((n, self.who_has(&hello.session)?)));
        let (number, who) = who.ok_or_else(|| {
            no("the ticket of the link is not good: it may have been used, or be too old")
        })?;
        hello.link.number = number;
        Ok(who)
    }

    /// What a client hears that comes back to a session that has ended.
    pub(crate) fn over(&self, session: &str) -> Refusal {
        let ended = lock(&self.ended);
        let why = ended.iter().find(|(n, _)| n == session).map_or(
            "the server does not know it (was it restarted?)",
            |(_, why)| why.as_str(),
        );
        Refusal::new("session", format!("the session is over: {why}"))
    }

    /// Whether there is something for NVML to read.
    pub(crate) fn has_gpus(&self) -> bool {
        lock(&self.pool).has("cuda")
    }
}
