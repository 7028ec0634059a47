//! What fuzzing targets share; [docs/fuzzing.md](../../../docs/fuzzing.md) says how to run them.
//!
//! A worker and a client each live in a process of their own and leave everything to its end, so
//! [`apart`] gives each input one. That is dear, so [`alone`] does without: no threads, and one
//! process for all. Inputs of both are [`sequence`]s of records, as they are on the
//! wire, which are changed by what the spec says of them ([`lines`]).

pub mod alone;
pub mod apart;
pub mod engine;
pub mod lines;
pub mod programs;
pub mod record;
pub mod seeds;
pub mod sequence;
pub mod server;
pub mod wire;
pub mod worker;
