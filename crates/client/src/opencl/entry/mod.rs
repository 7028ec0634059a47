//! What the C functions do, one file for each family of the spec: each checks its arguments,
//! translates them, and makes one call into the engine. Called by generated code only, which makes
//! the arguments of C's and codes of results.

#![allow(non_snake_case)]

pub mod context;
pub mod device;
pub mod event;
pub mod image;
pub mod kernel;
pub mod launch;
pub mod map;
pub mod memory;
pub mod platform;
mod prelude;
pub mod program;
pub mod queue;
pub mod rect;
pub mod sampler;
pub mod svm;
pub mod transfer;
