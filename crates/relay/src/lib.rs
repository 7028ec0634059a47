//! A link emulator in user space: a TCP relay that adds a one-way delay and a rate limit to each
//! direction, so that two processes on one machine meet as if a given network lay between them.
//!
//! - [`shaper`] decides when each byte may leave. It does no I/O and reads no clock.
//! - [`relay`] moves the bytes: for each direction of each connection a thread that reads and one
//!   that writes what the shaper has released.
//! - [`cli`] is the command line, `selftest` measures the relay against a direct connection.
//!
//! Invariants: bytes of one connection never change order; all connections of a relay share one
//! link in each direction, served round robin; memory is bounded by what the link holds in flight
//! plus a fixed slack, and a full buffer pushes back on the sender.

pub mod cli;
mod conn;
mod control;
pub mod relay;
mod ring;
pub mod selftest;
pub mod shaper;
mod sock;
pub mod stats;
pub mod units;

pub use cli::{LinkArgs, run};
pub use relay::{Options, Relay};
pub use units::{LinkSpec, PRESETS};
