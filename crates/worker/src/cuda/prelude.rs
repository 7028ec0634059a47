//! What every family uses.

pub use super::driver::{attempt, check, quietly};
pub use super::session::Cuda;
pub use crate::answer::{Always, Answered, Encoded, Fail, plain};
pub use crate::memory::{On, Use};
pub use crate::prelude::*;
pub use busbar_abi::cuda::*;
pub use busbar_wire::WireError;
pub use busbar_wire::generated::cuda::{self as msg, Kind};
pub use std::ffi::c_void;
