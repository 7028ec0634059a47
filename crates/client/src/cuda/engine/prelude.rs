//! What every part of the engine uses.

pub(super) use crate::cuda::call::{Cx, Sending, decode};
pub(super) use crate::cuda::state::shadows::Touch;
pub(super) use crate::prelude::*;
pub(super) use busbar_abi::cuda::*;
pub(super) use busbar_wire::generated::cuda::{self as msg, Kind};
pub(super) use std::ffi::c_void;
