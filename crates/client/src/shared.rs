//! Handing memory over to a worker on this host.

use busbar_control::hello::{SHARED_PROOF, Welcome};
use busbar_transport::Connection;
use busbar_transport::shared::{PROOF, Segment, hand_over};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

/// When memory is shared with a worker on the same host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// Never.
    Never,
    /// When the connection goes straight to the worker's host.
    Direct,
    /// Also when something on this host forwards the connection.
    Always,
}

/// The way to a worker on this host.
#[derive(Debug)]
pub struct Neighbour {
    name: String,
    proof: [u8; PROOF],
    next: AtomicU64,
}

impl Neighbour {
    /// The way to the worker at the other end of a connection, if it is on this host. What forwards
    /// a connection may do so to delay or to count what goes over it: it is not gone around
    /// unasked.
    pub fn find(sharing: Sharing, conn: &dyn Connection, welcome: &Welcome) -> Option<Self> {
        let direct = || {
            let seen = conn.ends().map(|[ours, _]| ours.to_string());
            seen.is_some_and(|a| a == welcome.peer)
        };
        let wanted = match sharing {
            Sharing::Never => false,
            Sharing::Direct => direct(),
            Sharing::Always => true,
        };
        (wanted && !welcome.shared.is_empty()).then(|| Self {
            name: welcome.shared.clone(),
            proof: blake3::derive_key(SHARED_PROOF, welcome.secret.as_bytes()),
            next: AtomicU64::new(1),
        })
    }

    /// Hands a segment over; the number under which the worker has it now.
    pub fn give(&self, segment: &Segment, len: u64) -> io::Result<u64> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        hand_over(&self.name, number, len, &self.proof, segment)?;
        Ok(number)
    }
}
