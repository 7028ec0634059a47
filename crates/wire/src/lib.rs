//! What two Busbar peers say to each other: frames, records, messages and their codec.
//!
//! The crate is sans-I/O. Bytes and time come in as arguments and go out as values, so everything
//! here can be tested without a socket, a clock or a GPU. `docs/wire-format.md` describes the same
//! format in prose.
//!
//! Layers, outermost first:
//! * a **frame** ([`frame`]) is what a transport carries: a fixed header with a sequence number and
//!   an acknowledgement, and a body;
//! * the body of a data frame holds whole **records** ([`record`]): a fixed header (what is asked,
//!   in which scope, whether an answer is wanted) and a payload;
//! * the payload is one **message**, whose fields the generated code reads and writes through
//!   [`codec`].
#![forbid(unsafe_code)]

pub mod atomics;
pub mod capture;
pub mod changes;
pub mod codec;
#[cfg(test)]
mod contract;
pub mod effects;
pub mod frame;
pub mod generated;
pub mod limits;
pub mod link;
pub mod pieces;
pub mod promise;
pub mod record;
pub mod session;
pub mod sums;

pub use codec::{Reader, WireError, Writer};

/// What stands in the options of an OpenCL build for the folder that its headers are in.
pub const FOLDER: &str = "\u{1}";
