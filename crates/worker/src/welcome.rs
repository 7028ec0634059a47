//! What a client is told when its connection is taken on.

use crate::prelude::*;
use busbar_channel::send_hello;
use busbar_control::attach::{Attach, Report};
use busbar_control::hello::{RDMA, Welcome};
use busbar_transport::Connection;
use busbar_transport::rdma::{Outcome, Settings, Wish};
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

/// Welcomes a connection, and moves it to a queue pair if both ends have one. What the server is
/// told of that, too.
pub(crate) fn settle(
    conn: Arc<dyn Connection>,
    a: &Attach,
    mut welcome: Welcome,
    rdma: &Settings,
) -> (Arc<dyn Connection>, Report) {
    let asked = a.hello.features.iter().any(|f| f == RDMA);
    if !asked || rdma.wish == Wish::Off {
        answer(&*conn, &welcome);
        let why = asked.then(|| "the server has it switched off".into());
        let path = conn.path().name().into();
        return (conn, Report::Attached { path, why });
    }
    welcome.features.push(RDMA.into());
    answer(&*conn, &welcome);
    let Outcome { conn, why_not } = rdma.offer(conn);
    let path = conn.path().name().into();
    (conn, Report::Attached { path, why: why_not })
}

/// Says it.
pub(crate) fn answer(conn: &dyn Connection, w: &Welcome) {
    let body = serde_json::to_vec(w).unwrap_or_default();
    let _ = send_hello(conn, Kind::Welcome, &body);
}
