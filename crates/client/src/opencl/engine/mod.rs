//! What it takes to do what a call asks for, once its arguments are checked.

pub mod command;
pub mod describe;
mod headers;
mod macros;
pub mod map;
mod prelude;
pub mod program;
pub mod shared;
pub mod svm;
pub mod transfer;
