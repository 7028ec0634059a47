//! RDMA: a connection that is open moves to a queue pair, and stays beside it for its end.
//!
//! [`offer`] and [`take`] are the two ends of that move. What comes of it is a connection as any
//! other, whose bytes the peer's adapter writes into our memory; ADR 0034 says why it is so.
//! [`verbs`] is what is asked of a device; there are those of this machine ([`ib`]), through
//! libibverbs, which is loaded when somebody asks, and one in memory for tests ([`soft`]).

mod block;
mod choice;
mod ffi;
mod flow;
pub mod ib;
mod lend;
mod ring;
mod settings;
mod setup;
pub mod soft;
#[cfg(test)]
mod tests;
pub mod trial;
pub mod verbs;

pub use settings::{Settings, Wish};
pub use setup::{Means, Outcome, offer, take};

/// A request that has failed, by the number that verbs have for why.
fn failed(status: u32) -> std::io::Error {
    let why = match status {
        4 => "memory of this end is not registered",
        5 => "the queue pair has failed before",
        10 => "the peer's memory may not be written",
        12 => "the peer does not answer",
        13 => "the peer is not ready to receive",
        _ => return std::io::Error::other(format!("a request has failed with status {status}")),
    };
    std::io::Error::other(why)
}
