//! What clients, servers and workers say to each other beside the records of a session: who comes
//! and what for ([`hello`]), what a server has and who uses it ([`status`], [`device`], [`gpu`]),
//! what is reserved ([`lease`]), how a server hands a session to its worker ([`attach`]),
//! what that holds ([`holding`]), how one program has another's session wait, without its devices
//! ([`checkpoint`]), what its RDMA devices are ([`fabric`]), what workers ask of the store
//! ([`store`]), and what a server leaves to the one that takes its place ([`succession`]).
//!
//! All of it is JSON, so that programs of any two releases can tell why they do not fit. Fields
//! that a reader does not know are ignored. Those that it can do without have a default; where one
//! is missing that it cannot do without, [`read`] says so in one sentence.
#![forbid(unsafe_code)]

pub mod attach;
pub mod checkpoint;
pub mod device;
pub mod driver;
pub mod fabric;
pub mod gpu;
pub mod hello;
pub mod holding;
pub mod lease;
pub mod share;
pub mod size;
pub mod status;
pub mod store;
pub mod succession;
pub mod talk;
pub mod text;
pub mod time;

use serde::de::DeserializeOwned;

/// The longest that is said of what is wrong with a document, in bytes: the error quotes it.
const MOST_ERROR: usize = 200;

/// Reads a document, or says what is wrong with it. `what` is the sentence's subject: `the hello`.
pub fn read<T: DeserializeOwned>(what: &str, document: &[u8]) -> Result<T, String> {
    understood(what, serde_json::from_slice(document))
}

fn understood<T>(what: &str, read: serde_json::Result<T>) -> Result<T, String> {
    read.map_err(|e| {
        let e = text::one_line(&e.to_string(), MOST_ERROR);
        format!("{what} makes no sense: {e}; do both sides run the same release of Busbar?")
    })
}
