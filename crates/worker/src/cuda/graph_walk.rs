//! What is in a graph, as the driver says.

use super::driver::list;
use super::prelude::*;
use super::state::mirrors::Mirror;

/// The mirrors at the ends of a copy.
pub fn ends(w: &Cuda, c: &CUDA_MEMCPY3D) -> (Option<Arc<Mirror>>, Option<Arc<Mirror>>) {
    let m = &w.graphs.mirrors;
    (
        m.at(c.srcHost as u64).or_else(|| m.at(c.srcDevice)),
        m.at(c.dstHost as u64).or_else(|| m.at(c.dstDevice)),
    )
}

/// The driver's list of a graph's nodes.
pub fn nodes(w: &Cuda, graph: CUgraph) -> Result<Vec<CUgraphNode>> {
    // SAFETY: a live graph; the array has as many places as said.
    list(|l, n| unsafe { w.cuGraphGetNodes(graph, l, n) })
}

pub fn kind(w: &Cuda, node: CUgraphNode) -> CUgraphNodeType {
    let mut t = CU_GRAPH_NODE_TYPE_EMPTY;
    // SAFETY: a live node and a pointer to a live number.
    unsafe { w.cuGraphNodeGetType(node, &mut t) };
    t
}

/// The graphs inside a node, and whether it may leave them out.
pub fn inside(w: &Cuda, node: CUgraphNode) -> (Vec<CUgraph>, bool) {
    match kind(w, node) {
        CU_GRAPH_NODE_TYPE_GRAPH => {
            let mut g = std::ptr::null_mut();
            // SAFETY: a live node and a pointer to a live handle.
            match unsafe { w.cuGraphChildGraphNodeGetGraph(node, &mut g) } {
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
    pub fn adopt_node(&mut self, graph: u32, node: CUgraphNode) -> u32 {
        self.adopt(Kind::GraphNode, node as u64, &[(Kind::Graph, graph)])
    }
}

/// Edges: where they begin, where they end, and their annotations.
pub type Edges = (Vec<CUgraphNode>, Vec<CUgraphNode>, Vec<CUgraphEdgeData>);

/// A list of nodes with the annotations of the edges that lead there, as [`list`].
pub fn annotated(
    mut ask: impl FnMut(*mut CUgraphNode, *mut CUgraphEdgeData, *mut usize) -> CUresult,
) -> Result<(Vec<CUgraphNode>, Vec<CUgraphEdgeData>)> {
    let mut notes = Vec::new();
    let nodes = list(|l, n: *mut usize| {
        // SAFETY: the number of places, which `list` has.
        notes.resize(unsafe { n.read() }, busbar_abi::zeroed());
        let room = match notes.is_empty() {
            true => std::ptr::null_mut(),
            false => notes.as_mut_ptr(),
        };
        ask(l, room, n)
    })?;
    Ok((nodes, notes))
}

/// The edges of a graph.
pub fn edges(w: &Cuda, graph: CUgraph) -> Result<Edges> {
    let mut to = Vec::new();
    let (from, notes) = annotated(|l, e, n| {
        // SAFETY: the number of places, which the other arrays have.
        to.resize(unsafe { n.read() }, std::ptr::null_mut());
        let t = if l.is_null() { l } else { to.as_mut_ptr() };
        // SAFETY: a live graph; the arrays have as many places as said.
        unsafe { w.cuGraphGetEdges_v2(graph, l, t, e, n) }
    })?;
    Ok((from, to, notes))
}
