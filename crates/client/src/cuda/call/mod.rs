//! Calls: what goes to the worker and comes back, and what has to be done around it.

mod accesses;
mod client;
mod cx;
pub mod fault;
pub mod freed;
mod gates;
mod guard;
mod host;
pub mod links;
mod recycle;
mod send;
pub mod thread;
mod together;
pub mod watch;

pub use client::{Client, Job};
pub use cx::{Cx, ReplyBytes, decode, put, put_opt};
pub use gates::{Closed, Gate};
pub use host::{Host, unmap_host};
