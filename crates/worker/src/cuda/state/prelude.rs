//! What every part of the state uses.

pub use crate::prelude::*;
pub use busbar_abi::cuda::*;
