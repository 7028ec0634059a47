//! What a new server gets from the one whose place it takes: the listening socket, then all that is
//! promised there, and from then on news of what ends.

use super::identity::{Known, Who};
use anyhow::{Context, Result, bail};
use busbar_control::hello::{Hello, Intent};
use busbar_control::status::Session;
use busbar_control::succession::{self, Passed, ToHeir, ToPredecessor};
use busbar_pool::Pool;
use busbar_transport::handover;
use busbar_transport::lock::lock;
use busbar_transport::stream::Stream;
use busbar_transport::wait_readable;
use busbar_wire::limits::MAX_WELCOME;
use serde::Serialize;
use std::collections::HashSet;
use std::io::Read;
use std::net::TcpListener;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long the old server may take to say what sessions it has.
const LIST_TIME: Duration = Duration::from_secs(1);

/// The old server, which has said that it is there.
pub(super) struct Heritage {
    control: OwnedFd,
    version: String,
    /// By what setting it listens.
    pub listen: String,
    /// Users of its sessions.
    pub users: Vec<u32>,
}

fn next(control: &OwnedFd) -> Result<(ToHeir, Option<OwnedFd>)> {
    loop {
        let got = handover::recv(control).context("the server before this one")?;
        let (text, fd) = got.context("the server before this one has gone")?;
        // What an older release does not know says nothing to it.
        if let Ok(said) = busbar_control::read("the old server's word", &text) {
            return Ok((said, fd));
        }
    }
}

/// As it travels.
pub(super) fn as_json(what: &impl Serialize) -> zeroize::Zeroizing<Vec<u8>> {
    zeroize::Zeroizing::new(serde_json::to_vec(what).unwrap_or_default())
}

/// Sends a connection to another server's process.
pub(super) fn pass(
    to: &OwnedFd,
    known: Known,
    wrap: impl FnOnce(Box<Passed>) -> zeroize::Zeroizing<Vec<u8>>,
) -> Result<(), Stream> {
    let Known {
        conn,
        hello,
        protocol,
        who,
    } = known;
    let _ = conn.send_timeout(None);
    let handed = conn.hand_over();
    let passed = Passed {
        hello,
        protocol,
        who: who.bearer(),
        keys: busbar_control::attach::Hidden(handed.keys.clone()),
    };
    let sent = handover::send(to, &wrap(Box::new(passed)), Some(&handed.fd));
    match sent {
        Ok(()) => Ok(()),
        // Whoever is told of it hears so here; without that it is closed.
        Err(_) => handed.take().map_or(Ok(()), Err),
    }
}

/// Whether a hello is about a session that there is.
pub(super) fn is_of_a_session(hello: &Hello) -> bool {
    matches!(
        hello.intent,
        Intent::Resume
            | Intent::Side
            | Intent::Try
            | Intent::Kill
            | Intent::Checkpoint
            | Intent::Ticket
            | Intent::Dial
            | Intent::Link
    )
}

/// The server before this one.
pub(crate) struct Predecessor {
    control: OwnedFd,
    pub(super) version: String,
    sessions: Mutex<HashSet<String>>,
    leases: Mutex<HashSet<String>>,
    /// Leases that are this server's now, and whose they are.
    kept: Mutex<Vec<(String, Who)>>,
    there: AtomicBool,
}

impl Heritage {
    /// Hears from the old server, over the descriptor that this process was started with.
    pub(super) fn begin(fd: i32) -> Result<(Self, TcpListener)> {
        // SAFETY: it was given to this process, and nothing else here knows it.
        let control = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: a descriptor of ours.
        unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
        let (
            ToHeir::Begin {
                version,
                listen,
                users,
            },
            Some(listener),
        ) = next(&control)?
        else {
            bail!("the server before this one makes no sense");
        };
        let me = Self {
            control,
            version,
            listen,
            users,
        };
        Ok((me, TcpListener::from(listener)))
    }

    /// Has the old server give up what only one can have, and takes over what is promised there.
    pub(super) fn take(self, pool: &mut Pool) -> Result<(Predecessor, Vec<u32>)> {
        handover::send(&self.control, &as_json(&ToPredecessor::Ready), None)
            .context("the server before this one")?;
        let (mut sessions, mut leases) = (HashSet::new(), HashSet::new());
        let mut kept = Vec::new();
        let users = loop {
            match next(&self.control)?.0 {
                ToHeir::Session(s) => {
                    pool.adopt_session(&s);
                    sessions.insert(s.session);
                }
                ToHeir::Lease(l) => {
                    pool.adopt_lease(&l, Duration::ZERO);
                    match &l.kept {
                        Some(bearer) => kept.push((l.name, Who::of_bearer(bearer))),
                        None => drop(leases.insert(l.name)),
                    }
                }
                ToHeir::Done { users } => break users,
                _ => {}
            }
        };
        let before = Predecessor {
            control: self.control,
            version: self.version,
            sessions: Mutex::new(sessions),
            leases: Mutex::new(leases),
            kept: Mutex::new(kept),
            there: AtomicBool::new(true),
        };
        Ok((before, users))
    }
}

impl Predecessor {
    fn tell(&self, what: &ToPredecessor) {
        let _ = handover::send(&self.control, &as_json(what), None);
    }

    /// Whether it is there still.
    pub(super) fn is_there(&self) -> bool {
        self.there.load(Ordering::Acquire)
    }

    /// Whether a session is one of its own, or of one before it.
    pub(super) fn has(&self, session: &str) -> bool {
        lock(&self.sessions).contains(session)
    }

    /// Whether a connection is for it.
    pub(super) fn wants(&self, hello: &Hello) -> bool {
        is_of_a_session(hello) && self.has(&hello.session)
    }

    /// Passes a connection on; gives it back if that cannot be.
    pub(super) fn pass(&self, known: Known) -> Result<(), Stream> {
        pass(&self.control, known, |p| as_json(&ToPredecessor::Passed(p)))
    }

    /// What a session of its has from now on.
    pub(super) fn changed(&self, session: &succession::Session) {
        if self.has(&session.session) {
            self.tell(&ToPredecessor::Changed(session.clone()));
        }
    }

    /// A session of its is to end; whether there is such a one.
    pub(super) fn end(&self, session: &str, why: &str) -> bool {
        let has = self.has(session);
        if has {
            let (session, why) = (session.into(), why.into());
            self.tell(&ToPredecessor::End { session, why });
        }
        has
    }

    /// A lease is over: if somebody there has it, that one hears so.
    pub(super) fn end_lease(&self, lease: &str) {
        if lock(&self.leases).remove(lease) {
            let lease = lease.into();
            self.tell(&ToPredecessor::EndLease { lease });
        }
    }

    /// The whole server is told to end.
    pub(super) fn drain(&self) {
        self.tell(&ToPredecessor::Drain);
    }

    /// Its sessions, as somebody may see them.
    pub(super) fn list(&self, hello: &Hello, who: &Who) -> Vec<Session> {
        if !self.is_there() {
            return Vec::new();
        }
        let answer = || {
            let (mut from, to) = std::io::pipe().ok()?;
            let ask = ToPredecessor::List {
                hello: Box::new(hello.clone()),
                who: who.bearer(),
            };
            let to = OwnedFd::from(to);
            handover::send(&self.control, &as_json(&ask), Some(&to)).ok()?;
            drop(to);
            let (mut text, until) = (Vec::new(), Instant::now() + LIST_TIME);
            let mut part = [0; 16 << 10];
            loop {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() || !wait_readable(&[from.as_fd()], Some(left)).ok()? {
                    return None;
                }
                match from.read(&mut part).ok()? {
                    0 => return serde_json::from_slice(&text).ok(),
                    n => text.extend_from_slice(&part[..n]),
                }
                if text.len() > MAX_WELCOME {
                    return None;
                }
            }
        };
        answer().unwrap_or_default()
    }

    /// Leases that are this server's now, and whose they are.
    pub(super) fn kept(&self) -> Vec<(String, Who)> {
        std::mem::take(&mut lock(&self.kept))
    }

    /// This server takes clients now.
    pub(super) fn is_followed(&self) {
        self.tell(&ToPredecessor::Taken);
    }

    /// The next thing that it says, and what comes along; nothing when it has gone.
    pub(super) fn next(&self) -> Option<(ToHeir, Option<OwnedFd>)> {
        next(&self.control).ok()
    }

    /// It has ended.
    pub(super) fn is_gone(&self) {
        self.there.store(false, Ordering::Release);
    }

    /// Its sessions.
    pub(super) fn sessions(&self) -> Vec<String> {
        lock(&self.sessions).iter().cloned().collect()
    }

    /// Leases that last as long as somebody there.
    pub(super) fn leases(&self) -> Vec<String> {
        lock(&self.leases).iter().cloned().collect()
    }

    /// A session has ended; whether it was there.
    pub(super) fn forget_session(&self, session: &str) -> bool {
        lock(&self.sessions).remove(session)
    }

    /// A lease, likewise.
    pub(super) fn forget_lease(&self, lease: &str) -> bool {
        lock(&self.leases).remove(lease)
    }
}
