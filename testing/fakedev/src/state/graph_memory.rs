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

/// All memory of graphs, by address.
static ALL: Mutex<Option<HashMap<CUdeviceptr, Weak<GraphMemory>>>> = Mutex::new(None);
/// What there is of it.
static LIVE: Mutex<Option<Live>> = Mutex::new(None);

/// What launches have allocated and nothing has freed, which outlives its graphs, and what devices
/// have for it.
#[derive(Clone, Default)]
pub struct Live {
    /// By address.
    all: HashMap<CUdeviceptr, Arc<GraphMemory>>,
    /// By a device's number.
    figures: HashMap<usize, Figures>,
}

/// What a device has for graphs, now and at most.
#[derive(Clone, Copy, Default)]
pub struct Figures {
    /// What launches have allocated and nothing has freed.
    pub used: [u64; 2],
    /// What the device gives for that, and what is kept of what was freed until it is trimmed.
    pub reserved: [u64; 2],
    /// What the device gives for what is allocated: so many bytes at a time for each node.
    pub given: u64,
}

/// So many.
const GRANULE: u64 = 32 << 20;

/// Changes the figures of a device, and says what they are then.
pub fn figures(device: usize, f: impl FnOnce(&mut Figures)) -> Figures {
    let mut live = LIVE.lock().unwrap();
    let figures = live.get_or_insert_default().of(device);
    f(figures);
    *figures
}

impl Live {
    fn of(&mut self, device: usize) -> &mut Figures {
        self.figures.entry(device).or_default()
    }

    /// It is allocated, as it is already only where it `may` be.
    pub fn insert(&mut self, memory: &Arc<GraphMemory>, may: bool) -> Res {
        let there = self.all.insert(memory.address(), memory.clone()).is_some();
        if !there {
            let (f, size) = (self.of(memory.range.device), memory.params.size as u64);
            let used = f.used[0] + size;
            f.used = [used, f.used[1].max(used)];
            f.given += size.next_multiple_of(GRANULE);
            let reserved = f.reserved[0].max(f.given);
            f.reserved = [reserved, f.reserved[1].max(reserved)];
        }
        if there && !may {
            Err(INVALID_VALUE)
        } else {
            Ok(())
        }
    }

    /// It is freed; none if it was not allocated.
    pub fn remove(&mut self, address: CUdeviceptr) -> R<Arc<GraphMemory>> {
        let gone = self.all.remove(&address).ok_or(INVALID_VALUE)?;
        let (f, size) = (self.of(gone.range.device), gone.params.size as u64);
        f.used[0] -= size;
        f.given -= size.next_multiple_of(GRANULE);
        Ok(gone)
    }
}

/// Forgets all memory of graphs.
pub fn reset() {
    let live = LIVE.lock().unwrap().take();
    // Their ends look at the list.
    drop(live);
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
    LIVE.lock().unwrap().get_or_insert_default().remove(address)
}

/// Changes what is allocated and not freed, unless that fails.
pub fn change(f: impl FnOnce(&mut Live) -> Res) -> Res {
    let mut live = LIVE.lock().unwrap();
    let live = live.get_or_insert_default();
    let mut next = live.clone();
    f(&mut next)?;
    let mut charged: Vec<(usize, usize)> = Vec::new();
    for (device, figures) in &next.figures {
        let before = live.figures.get(device).map_or(0, |f| f.reserved[0]);
        let more = figures.reserved[0].saturating_sub(before) as usize;
        if let Err(code) = device::get(*device).charge(more) {
            for (device, bytes) in charged {
                device::get(device).refund(bytes);
            }
            return Err(code);
        }
        charged.push((*device, more));
    }
    *live = next;
    Ok(())
}
