//! What a session has, as plain structures: none of them knows the session.

pub mod abreast;
pub mod activity;
pub mod execs;
pub mod exports;
pub mod given;
pub mod handles;
pub mod host_node;
pub mod image;
pub mod listeners;
pub mod mapped;
pub mod mirrors;
mod prelude;
pub mod repeats;
pub mod segments;
pub mod settled;
pub mod twins;
