//! Memory that graphs allocate. A node has its address for life; the memory is there from a launch
//! that runs the node until something frees it: a node of this or another graph, the program, or
//! the next launch of a graph that was made executable so.

use super::context::Context;
use super::device;
use super::memory::{self, Kind};
use crate::ffi::*;
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, Weak};

/// Memory of graphs, by address.
pub type Live = HashMap<CUdeviceptr, Arc<GraphMemory>>;

/// All memory of graphs, by address.
static ALL: Mutex<Option<HashMap<CUdeviceptr, Weak<GraphMemory>>>> = Mutex::new(None);
/// What launches have allocated and nothing has freed, which outlives its graphs, and what devices
/// have for it.
static NOW: Mutex<Option<Now>> = Mutex::new(None);

#[derive(Default)]
struct Now {
    live: Live,
    /// By a device's number.
    figures: HashMap<usize, Figures>,
}

/// What a device has for graphs, now and at most.
#[derive(Clone, Copy, Default)]
pub struct Figures {
    /// What launches have allocated and nothing has freed.
    pub used: [u64; 2],
    /// That, and what is kept of what was freed until it is trimmed.
    pub reserved: [u64; 2],
}

/// Changes the figures of a device, and says what they are then.
pub fn figures(device: usize, f: impl FnOnce(&mut Figures)) -> Figures {
    let mut now = NOW.lock().unwrap();
    let figures = now
        .get_or_insert_default()
        .figures
        .entry(device)
        .or_default();
    f(figures);
    *figures
}

impl Now {
    fn count(&mut self) {
        let mut used = HashMap::<usize, u64>::new();
        for memory in self.live.values() {
            *used.entry(memory.range.device).or_default() += memory.params.size as u64;
        }
        for device in used.keys() {
            self.figures.entry(*device).or_default();
        }
        for (device, f) in &mut self.figures {
            let now = used.get(device).copied().unwrap_or(0);
            f.used = [now, f.used[1].max(now)];
            let reserved = f.reserved[0].max(now);
            f.reserved = [reserved, f.reserved[1].max(reserved)];
        }
    }
}

/// Forgets all memory of graphs.
pub fn reset() {
    let now = NOW.lock().unwrap().take();
    // Their ends look at the list.
    drop(now);
    *ALL.lock().unwrap() = None;
}

/// The memory of one node that allocates.
pub struct GraphMemory {
    /// What the node was made with, and its address.
    pub params: MemAllocParams,
    range: Arc<memory::Range>,
}

impl GraphMemory {
    /// Addresses for a node.
    pub fn new(mut params: MemAllocParams, context: &Context) -> R<Arc<GraphMemory>> {
        if params.pool.alloc_type != 1 || params.pool.location.kind != LOCATION_DEVICE {
            return Err(INVALID_VALUE);
        }
        let device = device::by_ordinal(params.pool.location.id).map_err(|_| INVALID_VALUE)?;
        params.address = memory::allocate(Kind::Graph, params.size, context.handle, device, 0)?;
        let range = memory::find(params.address).ok_or(UNKNOWN)?;
        let memory = Arc::new(GraphMemory { params, range });
        let mut all = ALL.lock().unwrap();
        all.get_or_insert_default()
            .insert(params.address, Arc::downgrade(&memory));
        Ok(memory)
    }

    /// As for a node of captured work.
    pub fn captured(size: usize, context: &Context) -> R<Arc<GraphMemory>> {
        let mut params = MemAllocParams {
            size,
            ..MemAllocParams::default()
        };
        params.pool.alloc_type = 1;
        params.pool.location = Location {
            kind: LOCATION_DEVICE,
            id: context.device as i32,
        };
        GraphMemory::new(params, context)
    }

    /// Its address.
    pub fn address(&self) -> CUdeviceptr {
        self.params.address
    }

    /// A stream has come to its allocation or its end.
    pub fn open(&self, open: bool) {
        self.range.open.store(open, Ordering::Release);
    }
}

impl Drop for GraphMemory {
    fn drop(&mut self) {
        if let Some(all) = ALL.lock().unwrap().as_mut() {
            all.remove(&self.params.address);
        }
        // Unless its context took it along.
        let id = self.range.id;
        if let Some(range) = memory::remove(self.params.address, |found| found.id == id) {
            memory::release(&range);
        }
    }
}

/// The memory of a graph that begins at an address.
pub fn find(address: CUdeviceptr) -> R<Arc<GraphMemory>> {
    let all = ALL.lock().unwrap();
    let found = all.as_ref().and_then(|all| all.get(&address)?.upgrade());
    found.ok_or(INVALID_VALUE)
}

/// Frees what a launch allocated and nothing has freed yet; the caller sees to the rest.
pub fn take(address: CUdeviceptr) -> R<Arc<GraphMemory>> {
    let mut now = NOW.lock().unwrap();
    let now = now.get_or_insert_default();
    let gone = now.live.remove(&address).ok_or(INVALID_VALUE)?;
    now.count();
    Ok(gone)
}

/// Changes what is allocated and not freed, unless that fails.
pub fn change(f: impl FnOnce(&mut Live) -> Res) -> Res {
    let mut now = NOW.lock().unwrap();
    let now = now.get_or_insert_default();
    let mut next = now.live.clone();
    f(&mut next)?;
    now.live = next;
    now.count();
    Ok(())
}
