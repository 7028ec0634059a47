//! What a client is told when its connection is taken on.

use crate::prelude::*;
use crate::shared::Offers;
use busbar_channel::send_hello;
use busbar_control::attach::{Attach, Report};
use busbar_control::hello::{
    ACTIVITY, CHANGED_PARAMETERS, KEPT_PARAMETERS, MEMORY_ATOMICS, MEMORY_PARTS, RDMA, Road,
    SHARED_MEMORY, SIDE_CONNECTION, SIDE_CONNECTIONS, Welcome,
};
use busbar_transport::rdma::{Outcome, Settings, Wish};
use busbar_transport::{Connection, Path};
use busbar_wire::frame::Kind;

/// The welcome of a connection, whose session has had so many frames.
pub(crate) fn welcome(a: &Attach, last_received: u64) -> Welcome {
    Welcome {
        protocol: a.protocol,
        version: env!("CARGO_PKG_VERSION").into(),
        session: a.session.clone(),
        secret: a.secret.clone(),
        last_received,
        resume_seconds: a.resume_seconds,
        memory: a.memory.unwrap_or(0),
        ..Welcome::default()
    }
}

/// The welcome of a new session: what this end can do, and where a client of this host hands its
/// memory over.
pub(crate) fn first_welcome(
    attach: &Attach,
    conn: &dyn Connection,
    shared: Option<&Offers>,
) -> Welcome {
    let mut welcome = welcome(attach, 0);
    for able in [
        SIDE_CONNECTION,
        SIDE_CONNECTIONS,
        KEPT_PARAMETERS,
        CHANGED_PARAMETERS,
        ACTIVITY,
        MEMORY_PARTS,
        MEMORY_ATOMICS,
    ] {
        if attach.hello.features.iter().any(|f| f == able) {
            welcome.features.push(able.into());
        }
    }
    if let (Some([_, peer]), Some(offers)) = (conn.ends(), shared) {
        welcome.features.push(SHARED_MEMORY.into());
        welcome.shared = offers.name().into();
        welcome.peer = peer.to_string();
    }
    welcome
}

/// How connections of a session may move.
pub(crate) struct Way {
    settings: Settings,
    /// An operator keeps it on TCP.
    kept: AtomicBool,
    /// It was told to change, and the connection that it has now ends by that.
    changing: AtomicBool,
    /// Its client is trying whether one could move.
    trying: AtomicBool,
}

impl Way {
    /// As the server was told.
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings,
            kept: AtomicBool::new(false),
            changing: AtomicBool::new(false),
            trying: AtomicBool::new(false),
        }
    }

    /// Runs one attempt ([`attempt`]) at a time.
    pub(crate) fn alone(&self, run: impl FnOnce()) {
        if !self.trying.swap(true, Ordering::AcqRel) {
            run();
            self.trying.store(false, Ordering::Release);
        }
    }

    /// Has a session's connection, which is on `path`, take another road: whether it has to end for
    /// that.
    pub(crate) fn take(&self, road: Road, path: Path) -> bool {
        self.kept.store(road == Road::Tcp, Ordering::Release);
        let other = (road == Road::Rdma) != (path == Path::Rdma);
        self.changing.fetch_or(other, Ordering::AcqRel);
        other
    }

    /// Whether the connection that has ended was ended here, and its client is sure to come back.
    pub(crate) fn changes(&self) -> bool {
        self.changing.load(Ordering::Acquire)
    }

    /// What links move by, which are no session's own connection: where none may, they say so.
    pub(crate) fn of_links(&self) -> Settings {
        let settings = self.settings.clone();
        match self.why_not() {
            None => settings,
            Some(_) => Settings {
                wish: Wish::Off,
                ..settings
            },
        }
    }

    /// Why no connection moves.
    fn why_not(&self) -> Option<&'static str> {
        match self.settings.wish {
            Wish::Off => Some("the server has it switched off"),
            _ if self.kept.load(Ordering::Acquire) => Some("an operator keeps it on TCP"),
            _ => None,
        }
    }
}

/// Welcomes a connection, and moves it to a queue pair if both ends have one. What the server is
/// told of that, too.
pub(crate) fn greet(
    conn: Arc<dyn Connection>,
    a: &Attach,
    mut welcome: Welcome,
    way: &Way,
) -> (Arc<dyn Connection>, Report) {
    way.changing.store(false, Ordering::Release);
    let Outcome { conn, why_not, .. } = moved(conn, a, &mut welcome, way);
    let path = conn.path().name().into();
    (conn, Report::Attached { path, why: why_not })
}

/// Sees whether a connection of the session could move, on one that is nothing else.
pub(crate) fn attempt(conn: Arc<dyn Connection>, a: &Attach, way: &Way) {
    let mut welcome = welcome(a, 0);
    // The client knows what came of it, and closes it.
    drop(moved(conn, a, &mut welcome, way));
}

/// Welcomes a connection, and moves it if that can be done.
fn moved(conn: Arc<dyn Connection>, a: &Attach, welcome: &mut Welcome, way: &Way) -> Outcome {
    let asked = a.hello.features.iter().any(|f| f == RDMA);
    let not = way.why_not();
    if !asked || not.is_some() {
        answer(&*conn, welcome);
        let why_not = not.filter(|_| asked).map(Into::into);
        return Outcome::of(conn, why_not);
    }
    welcome.features.push(RDMA.into());
    answer(&*conn, welcome);
    way.settings.offer(conn)
}

/// Says it.
pub(crate) fn answer(conn: &dyn Connection, w: &Welcome) {
    let body = serde_json::to_vec(w).unwrap_or_default();
    let _ = send_hello(conn, Kind::Welcome, &body);
}
