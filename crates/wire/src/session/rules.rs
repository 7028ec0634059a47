//! What both halves of a session go by.

use crate::WireError;
use crate::limits;
use std::time::Duration;

/// Frames of at least this size may be sent in two parts.
pub const SPLIT_FROM: usize = 256 << 10;

/// How many of the last bytes of a frame of `len` bytes take the side connection.
pub fn share(len: usize) -> usize {
    (len / 2) & !4095
}

/// What bounds a session.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Bytes of unacknowledged frames from which on no more are taken.
    pub window: usize,
    /// Bytes after which is acknowledged unasked.
    pub ack_every: usize,
    /// How long the peer may say nothing, though it owes something and is asked; `None` for ever.
    pub silence: Option<Duration>,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            window: limits::WINDOW_BYTES,
            ack_every: limits::ACK_EVERY,
            silence: None,
        }
    }
}

/// Why an input was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// It came by a connection that is not the session's present one. Nothing has changed.
    Stale,
    /// The peer broke the protocol; the session is over.
    Broken(WireError),
}

impl From<WireError> for Stop {
    fn from(e: WireError) -> Self {
        Self::Broken(e)
    }
}

pub(super) fn broken(what: &'static str) -> Stop {
    Stop::Broken(WireError::BadValue(what))
}
