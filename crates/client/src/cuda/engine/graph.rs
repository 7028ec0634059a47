//! Graphs: handles of nodes that came from the worker, and lists of them.

use super::prelude::*;

/// The handle of a graph's node whose id came from the worker.
pub fn adopt(cx: Cx, graph: u32, node: u32) -> Result<CUgraphNode> {
    let h = cx.adopt(Kind::GraphNode, node)?;
    cx.state().graphs.own(graph, node);
    Ok(h as CUgraphNode)
}

/// The handles of a graph's nodes.
pub fn adopt_all(cx: Cx, graph: u32, nodes: &[u32]) -> Result<Vec<CUgraphNode>> {
    nodes.iter().map(|n| adopt(cx, graph, *n)).collect()
}

/// The annotations of so many edges.
pub fn annotations(bytes: &[u8], n: usize) -> Result<Vec<CUgraphEdgeData>> {
    let list: Option<Vec<_>> = busbar_abi::items_from_bytes(bytes);
    list.filter(|l| l.is_empty() || l.len() == n)
        .ok_or(CUDA_ERROR_UNKNOWN)
}

/// Node ids and edges' annotations of a program's arrays.
///
/// # Safety
/// The arrays are of that length; the second may be null.
pub unsafe fn dependencies(
    cx: Cx,
    nodes: *const CUgraphNode,
    data: *const CUgraphEdgeData,
    n: usize,
) -> Result<(Vec<u32>, Vec<u8>)> {
    refuse_if(n > 0 && nodes.is_null(), CUDA_ERROR_INVALID_VALUE)?;
    refuse_if(n > busbar_wire::limits::MAX_ITEMS, CUDA_ERROR_INVALID_VALUE)?;
    let mut ids = Vec::with_capacity(n);
    for i in 0..n {
        // SAFETY: the program's array of `n` nodes.
        let raw = unsafe { nodes.add(i).read() };
        let id = cx.state().handles.id(Kind::GraphNode, raw as u64);
        ids.push(id.ok_or(CUDA_ERROR_INVALID_VALUE)?);
    }
    let edges = if data.is_null() || n == 0 {
        Vec::new()
    } else {
        // SAFETY: beside it, the program's array of as many annotations.
        busbar_abi::slice_bytes(unsafe { std::slice::from_raw_parts(data, n) }).to_vec()
    };
    Ok((ids, edges))
}

/// The handle of the graph inside a node.
pub fn adopt_inner(cx: Cx, node: u32, graph: u32) -> Result<u64> {
    let handle = cx.adopt(Kind::Graph, graph)?;
    cx.state().graphs.own_inner(node, graph);
    Ok(handle)
}

/// The driver's array of the `n` graphs in a conditional node.
pub fn bodies(cx: Cx, node: u32, ids: &[u32], n: usize) -> Result<*mut CUgraph> {
    refuse_if(ids.len() != n, CUDA_ERROR_UNKNOWN)?;
    let handle = |g: &u32| Ok(adopt_inner(cx, node, *g)? as usize);
    let list = ids.iter().map(handle).collect::<Result<_>>()?;
    Ok(cx.state().graphs.store_graphs(node, list) as *mut CUgraph)
}
