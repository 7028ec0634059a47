//! What both halves of a session go by.

use crate::WireError;
use crate::frame::SIDES;
use crate::limits;
use std::time::Duration;

/// Frames of at least this size may be sent in parts.
pub const SPLIT_FROM: usize = 256 << 10;
/// The least that a part of one is, about: a thread at each end is told of each.
const LEAST_PART: usize = SPLIT_FROM / 2;

/// The parts of a frame that take side connections: the last of its bytes, as many on each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Aside {
    /// How many side connections take a part, the first that there are, in order.
    pub sides: usize,
    /// Bytes of each part.
    pub each: usize,
}

impl Aside {
    /// How a frame of `len` bytes is divided that has parts on so many side connections; `None` if
    /// it is too short for that.
    pub fn of(len: usize, sides: usize) -> Option<Self> {
        (sides <= Self::most(len)).then(|| Self {
            sides,
            each: if sides > 0 {
                (len / (sides + 1)) & !4095
            } else {
                0
            },
        })
    }

    /// How many side connections a frame of `len` bytes may take.
    pub fn most(len: usize) -> usize {
        (len / LEAST_PART).saturating_sub(1).min(SIDES.into())
    }

    /// Bytes that do not take the main connection.
    pub fn bytes(self) -> usize {
        self.sides * self.each
    }
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
