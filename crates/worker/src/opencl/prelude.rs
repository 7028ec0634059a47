//! What every family uses.

pub(super) use super::cl::{Cl, ok};
pub(super) use super::session::OpenCl;
pub(super) use crate::answer::{Answered, Fail};
pub(super) use busbar_abi::opencl::*;
pub(super) use busbar_wire::generated::opencl as wire;
pub(super) use busbar_wire::{Reader, WireError, Writer};
pub(super) use std::ffi::{CStr, c_char, c_void};
pub(super) use std::ptr::{null, null_mut};
pub(super) use std::sync::Arc;
