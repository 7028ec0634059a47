//! Calls: what goes to the worker and comes back, and what has to be done around it.

mod accesses;
mod arrivals;
mod client;
mod cx;
pub mod fault;
pub mod freed;
mod gates;
mod guard;
mod host;
mod instruction;
mod jobs;
pub mod links;
mod recycle;
mod send;
mod standing;
pub mod thread;
mod together;
pub mod watch;

pub use arrivals::Arriving;
pub use client::Client;
pub use cx::{Cx, ReplyBytes, decode, put, put_opt};
pub use host::{Host, Sending, unmap_host};
pub use jobs::{Does, jobs, soon};
pub use standing::GoOn;
