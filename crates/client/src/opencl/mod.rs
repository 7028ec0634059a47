//! OpenCL: an installable client driver.
//!
//! Objects are the client's own ([`object`]): reference counts and queries are answered here, from a
//! description that each server gives once. What has to run travels as queued messages under ids that
//! the client chooses, so that only calls that bring something back, or wait by contract, take a round
//! trip. [`entry`] is the edge to C; every other module is one family of the API.

pub mod callbacks;
pub mod context;
pub mod device;
pub mod dispatch;
pub mod entry;
pub mod event;
pub mod headers;
pub mod image;
pub mod kernel;
pub mod launch;
pub mod map;
pub mod memory;
pub mod object;
pub mod platform;
pub mod program;
pub mod queue;
pub mod sampler;
pub mod server;
pub mod svm;
pub mod transfer;
