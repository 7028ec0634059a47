//! The functions on user objects.

use crate::entry::api;
use crate::ffi::*;
use crate::state::user_object::{self, object_of, release, retain};
use crate::state::{device, graph};

const NO_DESTRUCTOR_SYNC: u32 = 1;
const MOVE: u32 = 1;

api! {
    fn [cuUserObjectCreate] (
        out: *mut usize, value: usize, destroy: Option<CUhostFn>, references: u32, flags: u32,
    ) {
        device::initialized()?;
        let destroy = destroy.ok_or(INVALID_VALUE)?;
        if out.is_null() || references == 0 || flags != NO_DESTRUCTOR_SYNC {
            return Err(INVALID_VALUE);
        }
        put(out, user_object::create(value, destroy, references))
    }

    fn [cuUserObjectRetain] (object: usize, count: u32) {
        retain(object, count)
    }

    fn [cuUserObjectRelease] (object: usize, count: u32) {
        release(object, count)
    }

    fn [cuGraphRetainUserObject] (graph: CUgraph, object: usize, count: u32, flags: u32) {
        graph::by_handle(graph)?;
        object_of(object)?;
        if count == 0 || flags & !MOVE != 0 {
            return Err(INVALID_VALUE);
        }
        // A moved reference is the caller's own: the count stays.
        if flags & MOVE == 0 {
            retain(object, count)?;
        }
        user_object::hold(graph, object, count);
        Ok(())
    }

    fn [cuGraphReleaseUserObject] (graph: CUgraph, object: usize, count: u32) {
        user_object::let_go(graph, object, count)
    }
}
