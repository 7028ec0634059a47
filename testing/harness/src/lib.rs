//! A client and a worker in one process, over connections that break on purpose.
//!
//! [`toy`] is an API small enough to be modelled exactly, [`link`] makes connections that end after
//! a random number of bytes and lets the two ends resume, [`rng`] is the seeded source of all that
//! is random. A test that fails prints its seed; `BUSBAR_SEED=N` runs that one alone, and
//! `BUSBAR_SEEDS=N` as many.

pub mod link;
pub mod rng;
pub mod toy;
