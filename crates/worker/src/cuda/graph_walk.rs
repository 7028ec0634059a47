//! What is in a graph, as the driver says.

use super::state::mirrors::Mirror;
use super::{Cuda, check};
use busbar_abi::cuda::*;
use busbar_wire::generated::cuda::Kind;
use std::sync::Arc;

/// The mirrors at the ends of a copy.
pub(super) fn ends(w: &Cuda, c: &CUDA_MEMCPY3D) -> (Option<Arc<Mirror>>, Option<Arc<Mirror>>) {
    let m = &w.graphs.mirrors;
    (
        m.at(c.srcHost as u64).or_else(|| m.at(c.srcDevice)),
        m.at(c.dstHost as u64).or_else(|| m.at(c.dstDevice)),
    )
}

/// The driver's list of a graph's nodes.
pub(super) fn nodes(w: &Cuda, graph: CUgraph) -> Result<Vec<CUgraphNode>, CUresult> {
    let mut n = 0;
    // SAFETY: a live graph; the array has as many places as said.
    unsafe {
        check(
            w.driver
                .cuGraphGetNodes(graph, std::ptr::null_mut(), &mut n),
        )?;
        let mut nodes = vec![std::ptr::null_mut(); n];
        if n > 0 {
            check(w.driver.cuGraphGetNodes(graph, nodes.as_mut_ptr(), &mut n))?;
        }
        Ok(nodes)
    }
}

pub(super) fn kind(w: &Cuda, node: CUgraphNode) -> CUgraphNodeType {
    let mut t = CU_GRAPH_NODE_TYPE_EMPTY;
    // SAFETY: a live node and a pointer to a live number.
    unsafe { w.driver.cuGraphNodeGetType(node, &mut t) };
    t
}

/// The graphs inside a node, and whether it may leave them out.
pub(super) fn inside(w: &Cuda, node: CUgraphNode) -> (Vec<CUgraph>, bool) {
    match kind(w, node) {
        CU_GRAPH_NODE_TYPE_GRAPH => {
            let mut g = std::ptr::null_mut();
            // SAFETY: a live node and a pointer to a live handle.
            match unsafe { w.driver.cuGraphChildGraphNodeGetGraph(node, &mut g) } {
                CUDA_SUCCESS => (vec![g], false),
                _ => (vec![], false),
            }
        }
        CU_GRAPH_NODE_TYPE_CONDITIONAL => {
            let b = w.graphs.bodies.get(&(node as u64));
            let b = b.into_iter().flatten().map(|g| *g as CUgraph);
            (b.collect(), true)
        }
        _ => (vec![], false),
    }
}

impl Cuda {
    /// The id of a graph's node.
    pub(super) fn adopt_node(&mut self, graph: u32, node: CUgraphNode) -> u32 {
        self.adopt(Kind::GraphNode, node as u64, &[(Kind::Graph, graph)])
    }
}

/// Edges: where they begin, where they end, and their annotations.
pub(super) type Edges = (Vec<CUgraphNode>, Vec<CUgraphNode>, Vec<CUgraphEdgeData>);

/// The edges of a graph.
pub(super) fn edges(w: &Cuda, graph: CUgraph) -> Result<Edges, CUresult> {
    let (mut n, null) = (0, std::ptr::null_mut());
    let d = w.driver;
    // SAFETY: a live graph; the arrays have as many places as said.
    unsafe {
        check(d.cuGraphGetEdges_v2(graph, null, null, std::ptr::null_mut(), &mut n))?;
        let (mut from, mut to) = (vec![std::ptr::null_mut(); n], vec![std::ptr::null_mut(); n]);
        let mut data = vec![busbar_abi::zeroed(); n];
        if n > 0 {
            let (f, t) = (from.as_mut_ptr(), to.as_mut_ptr());
            check(d.cuGraphGetEdges_v2(graph, f, t, data.as_mut_ptr(), &mut n))?;
        }
        Ok((from, to, data))
    }
}
