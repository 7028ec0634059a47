//! The functions on memory of graphs.

use crate::engine::node;
use crate::entry::api;
use crate::ffi::*;
use crate::state::graph_memory::{self, GraphMemory};
use crate::state::work::Work;
use crate::state::{context, device, graph};

api! {
    fn [cuGraphAddMemAllocNode] (
        out: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize,
        params: *mut MemAllocParams,
    ) {
        let memory = GraphMemory::new(get(params)?, &*context::current()?)?;
        node::add(out, graph, after, count, Work::Allocate(memory.clone()), None)?;
        put(params, memory.params)
    }

    fn [cuGraphAddMemFreeNode] (
        out: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize,
        address: CUdeviceptr,
    ) {
        node::add(out, graph, after, count, Work::Free(graph_memory::find(address)?), None)
    }

    fn [cuDeviceGraphMemTrim] (device: CUdevice) {
        let device = device::by_ordinal(device)?;
        context::current_even_broken()?;
        graph_memory::figures(device, |f| {
            device::get(device).refund((f.reserved[0] - f.given) as usize);
            f.reserved[0] = f.given;
        });
        Ok(())
    }

    fn [cuDeviceGetGraphMemAttribute] (device: CUdevice, which: u32, out: *mut u64) {
        let f = graph_memory::figures(device::by_ordinal(device)?, |_| {});
        let all = [f.used[0], f.used[1], f.reserved[0], f.reserved[1]];
        put(out, *all.get(which as usize).ok_or(INVALID_VALUE)?)
    }

    fn [cuDeviceSetGraphMemAttribute] (device: CUdevice, which: u32, value: *const u64) {
        let device = device::by_ordinal(device)?;
        let most = matches!(which, 1 | 3) && get(value)? == 0;
        if !most {
            return Err(INVALID_VALUE);
        }
        graph_memory::figures(device, |f| {
            let of = if which == 1 { &mut f.used } else { &mut f.reserved };
            of[1] = of[0];
        });
        Ok(())
    }

    fn [cuGraphMemAllocNodeGetParams] (node: CUgraphNode, out: *mut MemAllocParams) {
        match &graph::find(node)?.1.work {
            Work::Allocate(memory) => put(out, memory.params),
            _ => Err(INVALID_VALUE),
        }
    }

    fn [cuGraphMemFreeNodeGetParams] (node: CUgraphNode, out: *mut CUdeviceptr) {
        match &graph::find(node)?.1.work {
            Work::Free(memory) => put(out, memory.address()),
            _ => Err(INVALID_VALUE),
        }
    }
}
