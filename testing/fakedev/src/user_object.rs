//! User objects: what a program ties to the life of a graph.

use crate::device;
use crate::entry::api;
use crate::ffi::*;
use crate::graph::GRAPHS;
use crate::handle::{self, Table};
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex};

const NO_DESTRUCTOR_SYNC: u32 = 1;
const MOVE: u32 = 1;

static OBJECTS: Table<UserObject> = Table::new();
/// How many references of each object each graph holds.
static HELD: Mutex<Option<HashMap<CUgraph, HashMap<usize, u32>>>> = Mutex::new(None);

struct UserObject {
    value: usize,
    destroy: CUhostFn,
    references: Mutex<u32>,
}

fn object_of(handle: usize) -> R<Arc<UserObject>> {
    device::initialized()?;
    OBJECTS.get(handle).map_err(|_| INVALID_VALUE)
}

fn release(handle: usize, count: u32) -> Res {
    let object = object_of(handle)?;
    let mut references = object.references.lock().unwrap();
    *references = references
        .checked_sub(count)
        .filter(|_| count > 0)
        .ok_or(INVALID_VALUE)?;
    if *references == 0 {
        drop(references);
        OBJECTS.remove(handle)?;
        // SAFETY: the program gave this function for the end of this object.
        unsafe { (object.destroy)(object.value as *mut c_void) };
    }
    Ok(())
}

fn retain(handle: usize, count: u32) -> Res {
    let object = object_of(handle)?;
    let mut references = object.references.lock().unwrap();
    *references = references
        .checked_add(count)
        .filter(|_| count > 0)
        .ok_or(INVALID_VALUE)?;
    Ok(())
}

/// Lets a clone or an executable graph hold, too, what the graph holds that it was made from.
pub fn share(graph: CUgraph, exec: CUgraphExec) {
    let mut guard = HELD.lock().unwrap();
    let Some(held) = guard.as_mut() else { return };
    let Some(objects) = held.get(&graph).cloned() else {
        return;
    };
    for (object, count) in &objects {
        let _ = retain(*object, *count);
    }
    let own = held.entry(exec).or_default();
    for (object, count) in objects {
        *own.entry(object).or_default() += count;
    }
}

/// Gives back what a graph that ends holds, executable or not.
pub fn drop_graph(graph: CUgraph) {
    let held = HELD
        .lock()
        .unwrap()
        .as_mut()
        .and_then(|held| held.remove(&graph));
    for (object, count) in held.into_iter().flatten() {
        let _ = release(object, count);
    }
}

api! {
    fn [cuUserObjectCreate] (
        out: *mut usize, value: usize, destroy: Option<CUhostFn>, references: u32, flags: u32,
    ) {
        device::initialized()?;
        let destroy = destroy.ok_or(INVALID_VALUE)?;
        if out.is_null() || references == 0 || flags != NO_DESTRUCTOR_SYNC {
            return Err(INVALID_VALUE);
        }
        let handle = handle::fresh();
        let references = Mutex::new(references);
        OBJECTS.insert(handle, Arc::new(UserObject { value, destroy, references }));
        put(out, handle)
    }

    fn [cuUserObjectRetain] (object: usize, count: u32) {
        retain(object, count)
    }

    fn [cuUserObjectRelease] (object: usize, count: u32) {
        release(object, count)
    }

    fn [cuGraphRetainUserObject] (graph: CUgraph, object: usize, count: u32, flags: u32) {
        GRAPHS.get(graph).map_err(|_| INVALID_VALUE)?;
        object_of(object)?;
        if count == 0 || flags & !MOVE != 0 {
            return Err(INVALID_VALUE);
        }
        // A moved reference is the caller's own: the count stays.
        if flags & MOVE == 0 {
            retain(object, count)?;
        }
        let mut held = HELD.lock().unwrap();
        *held.get_or_insert_default().entry(graph).or_default().entry(object).or_default() += count;
        Ok(())
    }

    fn [cuGraphReleaseUserObject] (graph: CUgraph, object: usize, count: u32) {
        let mut held = HELD.lock().unwrap();
        let objects = held.as_mut().and_then(|held| held.get_mut(&graph)).ok_or(INVALID_VALUE)?;
        let left = objects.get_mut(&object).ok_or(INVALID_VALUE)?;
        *left = left.checked_sub(count).ok_or(INVALID_VALUE)?;
        drop(held);
        release(object, count)
    }
}
