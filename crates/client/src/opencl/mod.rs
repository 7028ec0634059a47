//! OpenCL: an installable client driver.
//!
//! Objects are the client's own ([`object`]): reference counts and queries are answered here, from
//! a description that each server gives once. What has to run travels as queued messages under ids
//! that the client chooses, so that only calls that bring something back, or wait by contract, take
//! a round trip. [`entry`] is the edge to C; every other module is one family of the API.

mod callbacks;
mod context;
mod device;
pub mod dispatch;
mod entry;
mod event;
mod given;
mod headers;
mod image;
mod image_copy;
mod kernel;
mod launch;
mod map;
mod memory;
mod object;
pub mod platform;
mod program;
mod program_info;
mod queue;
mod rect;
mod sampler;
mod server;
mod svm;
mod transfer;
