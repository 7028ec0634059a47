//! Memory that graphs allocate, and whose part it counts for.
//!
//! A node has its address for life, and the memory is there from a launch until somebody frees it:
//! the same graph, another one, the program. It may outlive all graphs. So what a launch leaves
//! behind counts by its address, for as long as the graph can be launched or the memory is there;
//! what a graph frees itself counts with the graph. What the driver keeps beyond that it says.

use super::driver::is_capturing;
use super::graph_walk::{inside, kind, nodes};
use super::part::GRANULE;
use super::prelude::*;
use super::state::execs::{Leaves, Lingering};
use super::state::mapped::Pooled;
use crate::memory::{Charge, in_pieces};

/// What the nodes of a graph allocate and free, down to the innermost graph.
#[derive(Default)]
pub struct Nodes {
    /// How much, by address.
    allocated: HashMap<u64, u64>,
    freed: HashSet<u64>,
}

impl Nodes {
    pub fn of(w: &Cuda, graph: CUgraph) -> Result<Self> {
        let mut found = Self::default();
        if !w.graphs.allocated.is_empty() {
            found.add(w, graph)?;
        }
        Ok(found)
    }

    fn add(&mut self, w: &Cuda, graph: CUgraph) -> Result {
        for node in nodes(w, graph)? {
            match kind(w, node) {
                CU_GRAPH_NODE_TYPE_MEM_ALLOC => {
                    let mut a: CUDA_MEM_ALLOC_NODE_PARAMS = busbar_abi::zeroed();
                    // SAFETY: a live node and a pointer to a live structure.
                    check(unsafe { w.cuGraphMemAllocNodeGetParams(node, &mut a) })?;
                    self.allocated.insert(a.dptr, a.bytesize as u64);
                }
                CU_GRAPH_NODE_TYPE_MEM_FREE => {
                    let mut p: CUdeviceptr = 0;
                    // SAFETY: a live node and a pointer to a live number.
                    check(unsafe { w.cuGraphMemFreeNodeGetParams(node, &mut p) })?;
                    self.freed.insert(p);
                }
                _ => {}
            }
            for g in inside(w, node).0 {
                self.add(w, g)?;
            }
        }
        Ok(())
    }

    /// Takes what a launch will need, before there is anything to launch: what it frees itself, and
    /// what is to be known of an executable graph that has anything to do with such memory.
    pub fn charge(&self, w: &mut Cuda) -> Result<(Charge, Option<Leaves>)> {
        let (mut own, mut leaves) = (0u64, Leaves::default());
        for (at, bytes) in &self.allocated {
            if self.freed.contains(at) {
                own = own.saturating_add(*bytes);
            } else {
                let bytes = in_pieces(*bytes, GRANULE);
                let charge = w.charge(Use::Graph, None, bytes)?;
                leaves.memory.push((*at, Arc::new(charge)));
            }
        }
        let others = self.freed.iter().copied();
        leaves.frees = others
            .filter(|at| !self.allocated.contains_key(at))
            .collect();
        let any = !self.allocated.is_empty() || !self.freed.is_empty();
        Ok((w.charge(Use::Graph, None, own)?, any.then_some(leaves)))
    }
}

/// An executable graph is launched. One that is captured has not begun.
#[inline]
pub fn launched(w: &mut Cuda, exec: u32, stream: CUstream) {
    if !w.graphs.leaves.is_empty()
        && let Some(leaves) = w.graphs.leaves.get(&exec).cloned()
        && !is_capturing(w.driver, stream)
    {
        for at in &leaves.frees {
            freed(w, *at);
        }
        for (at, charge) in &leaves.memory {
            let pooled = Pooled {
                context: w.record.aux,
                pool: 0,
                charge: charge.clone(),
            };
            let before = w.pooled.insert(*at, pooled);
            if before.is_none_or(|p| p.charge.kind() != Use::Graph) {
                w.graphs.there = w.graphs.there.saturating_add(charge.bytes());
            }
        }
        // It has taken of the device what that is made of.
        if !leaves.memory.is_empty() {
            w.measure();
        }
    }
}

/// Whether an executable graph may not be destroyed yet, since memory that launches of it have left
/// is there: then it is when that is freed.
pub fn lingers(w: &mut Cuda, id: u32, exec: u64) -> bool {
    let Some(leaves) = w.graphs.leaves.get(&id) else {
        return false;
    };
    let mut context = 0;
    let there = leaves.memory.iter().filter(|(at, charge)| {
        let found = w.pooled.get(at);
        let found = found.filter(|p| Arc::ptr_eq(&p.charge, charge));
        found.inspect(|p| context = p.context).is_some()
    });
    let memory: Vec<_> = there.map(|(at, _)| *at).collect();
    let any = !memory.is_empty();
    if any {
        w.graphs.lingering.push(Lingering {
            exec,
            context,
            memory,
        });
    }
    any
}

/// Memory of a graph is freed: those that are to end with it do.
fn end_with(w: &mut Cuda, at: u64) {
    let mut all = std::mem::take(&mut w.graphs.lingering);
    all.retain_mut(|l| {
        l.memory.retain(|a| *a != at);
        if l.memory.is_empty() {
            // SAFETY: a live handle, which nobody uses again.
            unsafe { w.cuGraphExecDestroy(l.exec as CUgraphExec) };
        }
        !l.memory.is_empty()
    });
    w.graphs.lingering = all;
}

/// Memory of a pool or of a graph is freed.
pub fn freed(w: &mut Cuda, at: u64) {
    let Some(pooled) = w.pooled.remove(&at) else {
        return;
    };
    if !w.graphs.lingering.is_empty() {
        end_with(w, at);
    }
    if pooled.charge.kind() != Use::Graph {
        return w.forget_pooled(pooled);
    }
    let charge = pooled.charge;
    w.graphs.there = w.graphs.there.saturating_sub(charge.bytes());
    let last = Arc::strong_count(&charge) == 1;
    drop(charge);
    // The driver keeps it for other graphs.
    if last {
        w.count_for_graphs();
    }
}

pub fn cu_device_graph_mem_trim(w: &mut Cuda, m: msg::CuDeviceGraphMemTrim) -> Result {
    let device = w.device(m.device)?;
    // SAFETY: a device's ordinal.
    check(unsafe { w.cuDeviceGraphMemTrim(device) })?;
    w.count_for_graphs();
    Ok(())
}
