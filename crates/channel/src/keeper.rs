//! What becomes of a session that has lost its connection.

use super::prelude::*;

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The peer's kernel reset it.
    Reset,
    /// The peer closed it.
    Eof,
    /// It failed otherwise: a time-out, an unreachable network.
    Failed,
    /// The peer was silent for longer than [`Keeper::silence`], though it was asked.
    Silent,
}

/// A session that has lost its connection.
#[derive(Debug, Clone, Copy)]
pub struct Lost {
    /// How the connection ended.
    pub how: Ending,
    /// How long ago.
    pub since: Duration,
    /// The last frame received.
    pub last_received: u64,
    /// The epoch of a connection that is made now: the client says it in its hello.
    pub epoch: u64,
}

/// What to do while a session has no connection.
pub enum Verdict {
    /// Go on over a new connection.
    Resume {
        /// The connection.
        conn: Arc<dyn Connection>,
        /// Its epoch, which the client has given it. An older one than the last is let go of.
        epoch: u64,
        /// The last frame that the peer has received.
        peer_last: u64,
    },
    /// Ask again after this long.
    Wait(Duration),
    /// Give the session up.
    End(String),
}

/// Decides what happens when a connection ends. Called from the receiving thread.
pub trait Keeper: Send {
    /// The session has no connection.
    fn detached(&mut self, lost: &Lost) -> Verdict;

    /// How long the peer may say nothing, though it is owed something and is asked, before the
    /// connection counts as lost; `None` for ever.
    fn silence(&self) -> Option<Duration> {
        None
    }
}
