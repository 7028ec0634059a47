//! One HTTP port for people and programs: a page, the API under `/v1` with its OpenAPI document,
//! and metrics.
//!
//! One thread serves it, and never waits: what the server has to be asked for is asked by a few
//! others, at most once a second for each caller, whatever comes in. What is behind the port is a
//! [`Gate`], which lets callers in, and the [`View`] that each of them gets; this crate knows
//! neither sessions nor tokens.

#![forbid(unsafe_code)]

pub mod api;
mod app;
mod backend;
mod events;
mod guard;
mod history;
mod listen;
mod metrics;
mod openapi;
mod patient;
mod places;
mod problem;
mod routes;
mod strangers;

pub use backend::{Gate, Had, Overview, Row, View};
pub use listen::{Port, Running, start};
