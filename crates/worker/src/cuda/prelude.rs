//! What every family uses.

pub(super) use super::driver::{attempt, check};
pub(super) use super::session::Cuda;
pub(super) use crate::answer::{Always, Answered, Encoded, Fail, plain};
pub(super) use crate::memory::Use;
pub(super) use busbar_abi::cuda::*;
pub(super) use busbar_wire::WireError;
pub(super) use busbar_wire::generated::cuda::{self as msg, Kind};
pub(super) use std::ffi::c_void;
pub(super) use std::sync::Arc;
