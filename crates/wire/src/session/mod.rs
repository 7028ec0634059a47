//! A session over its connections, as a pure machine: bytes and time come in as arguments, what is
//! to be sent goes out as values. Nothing here blocks, reads a clock or knows a socket, so
//! `tests/simulate.rs` runs client, link and worker on a virtual clock.
//!
//! Data frames of each direction count from 1. A [`Sender`] keeps every frame until it is
//! acknowledged; a [`Receiver`] takes the next one, drops one that it has seen, and calls a gap an
//! error. When a connection is replaced, the ends tell each other the last frame that they have,
//! and each goes on behind that.
//!
//! # Two halves
//! One thread receives, others send, and an answer must not wait for a lock on its way to whoever
//! waits for it. So an end of a session is two values with an owner each, and what one must know of
//! the other is written on a [`Board`] of atomic words. The machine holds numbers and sizes; bytes
//! stay where they are, and a frame is a `T` of the caller's.
//!
//! # Epochs
//! A connection has a number, which the client gives it and names in its hello: 0 for the first,
//! then one more for each attempt to resume. Everything that comes in names the epoch that it came
//! by, and is [`Stop::Stale`] once there is a newer one: neither a late frame nor a late hello
//! reaches a session that has gone on.
//!
//! # Received and executed
//! What has been received need not come again over another connection. What has been *executed* has
//! had its effect at the worker, which is what counts when a session moves or is recovered. Each
//! frame says both of the other direction; [`Execution`] is where the second is kept.

mod board;
mod receiver;
mod rules;
mod sender;

pub use board::{Board, Execution, Stage};
pub use receiver::{Arriving, Receiver, Silent};
pub use rules::{Aside, Bounds, SPLIT_FROM, Stop};
pub use sender::{Named, Sender, Transmit};

use std::sync::Arc;

/// The two halves of a session's end, on its first connection.
pub fn new<T>(bounds: Bounds, execution: Arc<Execution>) -> (Sender<T>, Receiver) {
    let board = Arc::new(Board::new(execution));
    (
        Sender::new(bounds, board.clone()),
        Receiver::new(bounds, board),
    )
}
