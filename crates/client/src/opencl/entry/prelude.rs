//! What every family uses.

pub use crate::opencl::arguments::*;
pub use crate::opencl::call::*;
pub use crate::opencl::engine::command::{begin, enqueue};
pub use crate::opencl::state::values::Plain;
pub use crate::opencl::state::{Result, User};
pub use crate::prelude::*;
pub use busbar_abi::opencl::*;
pub use busbar_wire::generated::opencl as wire;
pub use std::ffi::c_void;
