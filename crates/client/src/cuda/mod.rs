//! CUDA: the driver API.
//!
//! `generated/` holds one C function per exported symbol; most do all their work there. What needs
//! thought is here, in rooms that know only those below them:
//!
//! | room | what it is |
//! |---|---|
//! | [`entry`] | C functions, a file per family of calls: check, translate, hand over |
//! | [`life`] | the process's client: opened, abandoned by a fork, closed |
//! | [`engine`] | what calls do |
//! | [`call`] | how a call gets to the worker and its answer back |
//! | [`state`] | what is known without asking: plain structures, tested alone |

// Functions of the driver API keep their C names.
#![allow(non_snake_case)]

mod call;
mod engine;
mod entry;
pub mod generated;
mod life;
mod state;

pub use call::Client;
pub use life::{bind, open};
