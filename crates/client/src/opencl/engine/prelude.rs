//! What every part of the engine uses.

pub(super) use crate::opencl::call::{LOST, Object, Queue, Server};
pub(super) use crate::opencl::state::Result;
pub(super) use crate::prelude::*;
pub(super) use busbar_abi::opencl::*;
pub(super) use busbar_wire::generated::opencl as wire;
