//! What every family uses.

pub use crate::opencl::arguments::*;
pub use crate::opencl::call::*;
pub use crate::opencl::engine::command::begin;
pub use crate::opencl::state::values::Plain;
pub use crate::opencl::state::{Result, User};
pub use crate::prelude::*;
pub use busbar_abi::opencl::*;
pub use busbar_wire::generated::opencl as wire;
pub use std::ffi::c_void;

/// Queues a command that moves nothing over the network: its kind, and its message without what
/// every command's has.
macro_rules! command {
    ($q:ident, $events:ident, $kind:ident => $message:ident { $($fields:tt)* }) => {
        $crate::opencl::engine::command::enqueue($q, $kind, $events, |event, waits| {
            wire::$message { queue: $q.id, event, waits, $($fields)* }
        })
    };
    // With a doubt whether the driver takes it.
    ($q:ident, $events:ident, $kind:ident, $doubt:expr => $message:ident { $($fields:tt)* }) => {
        $crate::opencl::engine::command::enqueue_or_ask($q, $doubt, $kind, $events, |event, waits| {
            wire::$message { queue: $q.id, event, waits, $($fields)* }
        })
    };
}
pub(super) use command;
