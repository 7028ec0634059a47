//! What a client is told when its connection is taken on.

use crate::prelude::*;
use busbar_channel::send_hello;
use busbar_control::attach::{Attach, Report};
use busbar_control::hello::{RDMA, Road, Welcome};
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

/// How connections of a session may move.
pub(crate) struct Way {
    settings: Settings,
    /// An operator keeps it on TCP.
    kept: AtomicBool,
    /// It was told to change, and the connection that it has now ends by that.
    changing: AtomicBool,
}

impl Way {
    /// As the server was told.
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings,
            kept: AtomicBool::new(false),
            changing: AtomicBool::new(false),
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
    let asked = a.hello.features.iter().any(|f| f == RDMA);
    let not = way.why_not();
    if !asked || not.is_some() {
        answer(&*conn, &welcome);
        let why = not.filter(|_| asked).map(Into::into);
        let path = conn.path().name().into();
        return (conn, Report::Attached { path, why });
    }
    welcome.features.push(RDMA.into());
    answer(&*conn, &welcome);
    let Outcome { conn, why_not } = way.settings.offer(conn);
    let path = conn.path().name().into();
    (conn, Report::Attached { path, why: why_not })
}

/// Says it.
pub(crate) fn answer(conn: &dyn Connection, w: &Welcome) {
    let body = serde_json::to_vec(w).unwrap_or_default();
    let _ = send_hello(conn, Kind::Welcome, &body);
}
