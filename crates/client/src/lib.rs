//! The client's side of a session, inside the program that uses the accelerator.
//!
//! The API-neutral part is here: [`config`] reads the environment, [`servers`] is the list of those
//! that are known, [`session`] opens a session and carries calls, [`link`] has its server linked to
//! another's, [`shared`] hands memory to a worker on this host, `ring` copies through such memory,
//! [`calls`] matches answers to those who wait, [`content`] sends module images only to servers
//! that lack them, [`stats`] counts, [`log`] writes where the user asked and nowhere else,
//! `progress` tells a terminal of long uploads, `tokens` keep what the server may ask for,
//! [`ranks`] says which devices a process of a job has and `plan` which servers that takes,
//! `threads` start quietly, `stdio` writes what devices print.
//! Each forwarded API is a folder: [`cuda`], [`opencl`], [`nccl`], which is a [`guest`] in the
//! session of CUDA; [`nvml`] only answers questions.

// What runs inside somebody else's program prints nothing unasked and never ends it.
#![deny(clippy::print_stdout, clippy::print_stderr, clippy::exit)]

pub mod calls;
mod chunks;
pub mod config;
mod content;
pub mod cuda;
mod env;
mod exits;
pub mod guest;
pub mod hello;
mod landing;
pub mod link;
pub mod log;
mod marks;
pub mod nccl;
pub mod nvml;
pub mod opencl;
mod plan;
mod prelude;
mod progress;
pub mod ranks;
pub mod rdma;
mod replace;
mod ring;
pub mod servers;
pub mod session;
mod shared;
mod side;
mod socket;
mod stats;
mod stdio;
mod threads;
mod tokens;

use busbar_transport::lock;
pub use session::{Handler, Session};
