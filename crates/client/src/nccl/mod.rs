//! NCCL, the library by which GPUs talk to each other: each call runs at the worker, next to the
//! device, and what the ranks tell each other goes from server to server.
//!
//! It is a guest in the session of CUDA ([`crate::guest`]): its records stand in the same queue, so
//! that the order of a stream needs no word. `entry` has the C functions, `group` gathers what lies
//! between the start and the end of a group, `meeting` keeps the first messages between ranks of
//! one process until both ends are there, `parts` sends, `life` begins calls and carries them,
//! `comms` is what is known of communicators.

// Functions of the API keep their C names.
#![allow(non_snake_case, non_upper_case_globals)]

mod comms;
mod entry;
pub mod generated;
mod group;
mod life;
mod meeting;
mod parts;
