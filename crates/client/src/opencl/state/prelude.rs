//! What every part of the state uses.

pub(super) use super::Result;
pub(super) use crate::prelude::*;
pub(super) use busbar_abi::opencl::*;
