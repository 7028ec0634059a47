//! Frames over a connection, without a channel's care.

use busbar_transport::Connection;
use busbar_wire::frame::{self, Kind};
use std::io::{self, IoSlice};

/// Sends a frame.
pub fn send(to: &dyn Connection, kind: Kind, seq: u64, ack: u64, body: &[u8]) -> io::Result<()> {
    let h = frame::Header {
        seq,
        ack,
        ..frame::Header::plain(kind, body.len())
    };
    to.send(&mut [IoSlice::new(&h.to_bytes()), IoSlice::new(body)])
}

/// Receives a frame; `None` at the connection's end.
pub fn receive(from: &dyn Connection) -> Option<(frame::Header, Vec<u8>)> {
    let mut h = [0; frame::HEADER];
    from.recv_exact(&mut h).ok()?;
    let h = frame::Header::parse(&h).ok()?;
    let mut body = vec![0; h.len as usize];
    from.recv_exact(&mut body).ok()?;
    Some((h, body))
}
