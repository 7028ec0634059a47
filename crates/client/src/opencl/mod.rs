//! OpenCL: an installable client driver.
//!
//! Objects are the client's own: reference counts and queries are answered here, from a description
//! that each server gives once. Work travels as queued messages under ids that the client chooses,
//! so that only calls that bring something back, or wait by contract, take a round trip.
//!
//! Each room uses only those below it: [`generated`] makes arguments of C's and codes of results;
//! `entry` checks and translates; `engine` does; [`call`] is a server and its session; `state` is
//! what is known without asking. [`life`] opens and ends all of it, and has the only static.

pub mod arguments;
pub mod call;
mod engine;
mod entry;
pub mod generated;
pub mod life;
pub mod state;
