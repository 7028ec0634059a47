//! Which memory calls may touch, by the device that counts for each: a copy's is that of the
//! current context, a fill's that of its stream, a node's that of its own context.

use crate::ffi::*;
use crate::state::context::{self, Context};
use crate::state::memory::{self, Kind, Range};
use crate::state::pool;
use std::sync::Arc;

/// Whether the program itself says which devices use memory.
fn has_own_users(range: &Range) -> bool {
    match range.kind {
        Kind::Mapped => !range.is_host(),
        kind => kind == Kind::Pool,
    }
}

/// Whether a device was let in to memory that a program lets devices use itself, mapped or of a
/// pool; to other memory it was.
pub fn is_let_in(range: &Range, device: usize) -> bool {
    match range.kind {
        Kind::Mapped if !range.is_host() => {
            let users = range.users.lock().unwrap();
            users.get(&device).is_some_and(|flags| *flags != 0)
        }
        Kind::Pool => range.device == device || pool::lets_in(range.owner, device),
        _ => true,
    }
}

/// Whether work of a context finds memory: nobody is let in to a module's variable.
pub fn is_near(range: &Range, context: &Context) -> bool {
    match range.kind {
        _ if has_own_users(range) => is_let_in(range, context.device),
        _ if range.device == context.device => true,
        Kind::Device => context.peers.lock().unwrap().contains(&range.context),
        Kind::Global => false,
        _ => true,
    }
}

/// Whether a copy for a device may have an end somewhere.
pub fn may_copy(address: u64, size: usize, device: usize) -> bool {
    memory::usable(address, size)
        && memory::covered(address, size, |range| is_let_in(range, device))
}

/// Whether what a stream of a context does may write somewhere.
pub fn may_write(address: u64, size: usize, context: &Context) -> bool {
    memory::usable(address, size) && memory::covered(address, size, |range| is_near(range, context))
}

/// The context that a node is asked for, or the current one.
pub fn asked(handle: CUcontext) -> R<Arc<Context>> {
    match handle {
        0 => context::current(),
        handle => context::by_handle(handle),
    }
}

/// The context of a node that fills memory: the one it is asked for, where the program says itself
/// which devices use that, and otherwise the memory's own.
pub fn of_fill(dst: u64, asked: &Context) -> usize {
    let found = memory::find(dst).filter(|range| !has_own_users(range) && range.context != 0);
    found.map_or(asked.handle, |range| range.context)
}
