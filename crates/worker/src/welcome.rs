//! What a client is told when its connection is taken on.

use busbar_channel::send_hello;
use busbar_control::attach::Attach;
use busbar_control::hello::Welcome;
use busbar_transport::Connection;
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

/// Says it.
pub(crate) fn answer(conn: &dyn Connection, w: &Welcome) {
    let body = serde_json::to_vec(w).unwrap_or_default();
    let _ = send_hello(conn, Kind::Welcome, &body);
}
