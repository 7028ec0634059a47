//! User objects: what a program ties to the life of a graph.

use super::device;
use super::handle::{self, Table};
use crate::ffi::*;
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex};

/// All user objects, by handle.
pub static OBJECTS: Table<UserObject> = Table::new();
/// How many references of each object each graph holds.
static HELD: Mutex<Option<HashMap<CUgraph, HashMap<usize, u32>>>> = Mutex::new(None);

/// Forgets all objects; nobody's function is called.
pub fn reset() {
    *HELD.lock().unwrap() = None;
    OBJECTS.clear();
}

/// A user object.
pub struct UserObject {
    value: usize,
    destroy: CUhostFn,
    references: Mutex<u32>,
}

/// Makes an object.
pub fn create(value: usize, destroy: CUhostFn, references: u32) -> usize {
    let handle = handle::fresh();
    let references = Mutex::new(references);
    let object = UserObject {
        value,
        destroy,
        references,
    };
    OBJECTS.insert(handle, Arc::new(object));
    handle
}

/// The object of a handle.
pub fn object_of(handle: usize) -> R<Arc<UserObject>> {
    device::initialized()?;
    OBJECTS.get(handle).map_err(|_| INVALID_VALUE)
}

/// Takes references away; an object without any ends.
pub fn release(handle: usize, count: u32) -> Res {
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

/// Adds references.
pub fn retain(handle: usize, count: u32) -> Res {
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

/// Lets a graph hold references of an object.
pub fn hold(graph: CUgraph, object: usize, count: u32) {
    let mut held = HELD.lock().unwrap();
    let objects = held.get_or_insert_default().entry(graph).or_default();
    *objects.entry(object).or_default() += count;
}

/// Gives back references of an object that a graph holds.
pub fn let_go(graph: CUgraph, object: usize, count: u32) -> Res {
    let mut held = HELD.lock().unwrap();
    let objects = held.as_mut().and_then(|held| held.get_mut(&graph));
    let left = objects.and_then(|objects| objects.get_mut(&object));
    let left = left.ok_or(INVALID_VALUE)?;
    *left = left.checked_sub(count).ok_or(INVALID_VALUE)?;
    drop(held);
    release(object, count)
}
