//! What every family uses.

pub use super::cl::{Cl, ok};
pub use super::session::OpenCl;
pub use crate::answer::{Answered, Fail};
pub use crate::prelude::*;
pub use busbar_abi::opencl::*;
pub use busbar_wire::generated::opencl as wire;
pub use busbar_wire::{Reader, WireError, Writer};
pub use std::ffi::{CStr, c_char, c_void};
pub use std::ptr::{null, null_mut};
