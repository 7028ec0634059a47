//! The functions on memory of graphs.

use crate::engine::node;
use crate::entry::api;
use crate::ffi::*;
use crate::state::graph_memory::{self, GraphMemory};
use crate::state::work::Work;
use crate::state::{context, graph};

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
