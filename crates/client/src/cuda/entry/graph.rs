//! Graphs: their nodes and edges, and questions about them.

use super::prelude::*;
use crate::cuda::engine::graph;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Hands out lists in CUDA's way: without an array, only their length; room beyond it is zeroed.
unsafe fn hand_out(
    lists: &[(*mut CUgraphNode, &[CUgraphNode])],
    data: (*mut CUgraphEdgeData, &[CUgraphEdgeData]),
    count: *mut usize,
) -> Result<()> {
    refuse_if(count.is_null(), CUDA_ERROR_INVALID_VALUE)?;
    let len = lists[0].1.len();
    if lists.iter().all(|(out, _)| out.is_null()) {
        refuse_if(!data.0.is_null(), CUDA_ERROR_INVALID_VALUE)?;
        // SAFETY: checked for null above; the program's pointer.
        return unsafe { put(count, len) };
    }
    // An annotation that the caller has no room for must not get lost.
    if data.0.is_null() && data.1.iter().any(|e| busbar_abi::bytes_of(e) != [0; 8]) {
        return Err(CUDA_ERROR_LOSSY_QUERY);
    }
    // SAFETY: the program's pointers; its arrays have room for as many as it says.
    unsafe {
        let room = count.read();
        for i in 0..room {
            for (out, list) in lists {
                if !out.is_null() {
                    out.add(i)
                        .write(list.get(i).copied().unwrap_or(std::ptr::null_mut()));
                }
            }
            if !data.0.is_null() {
                let e = data.1.get(i).copied().unwrap_or(busbar_abi::zeroed());
                data.0.add(i).write(e);
            }
        }
        put(count, room.min(len))
    }
}

const NO_DATA: (*mut CUgraphEdgeData, &[CUgraphEdgeData]) = (std::ptr::null_mut(), &[]);

/// The nodes of a graph, or its roots.
///
/// # Safety
/// The pointers are as the API asks.
pub unsafe fn nodes_of(
    cx: Cx,
    graph: u32,
    roots: u32,
    out: *mut CUgraphNode,
    count: *mut usize,
) -> Result<()> {
    let ids = cx.reply_to(&msg::GraphNodes { graph, roots })?.nodes;
    let list = graph::adopt_all(cx, graph, &ids)?;
    // SAFETY: the program's pointers.
    unsafe { hand_out(&[(out, &list)], NO_DATA, count) }
}

pub unsafe fn cuGraphGetEdges_v2(
    cx: Cx,
    graph: u32,
    from: *mut CUgraphNode,
    to: *mut CUgraphNode,
    data: *mut CUgraphEdgeData,
    count: *mut usize,
) -> Result<()> {
    refuse_if(from.is_null() != to.is_null(), CUDA_ERROR_INVALID_VALUE)?;
    let reply = cx.call(&msg::GraphEdges { graph })?;
    let r = decode::<msg::GraphEdgesReply<'_>>(&reply)?;
    let f = graph::adopt_all(cx, graph, &r.from)?;
    let t = graph::adopt_all(cx, graph, &r.to)?;
    let edges = graph::annotations(r.edges, f.len())?;
    // SAFETY: the program's pointers.
    unsafe { hand_out(&[(from, &f), (to, &t)], (data, &edges), count) }
}

/// What a node depends on, or what depends on it.
///
/// # Safety
/// The pointers are as the API asks.
pub unsafe fn neighbours(
    cx: Cx,
    node: u32,
    dependents: u32,
    out: *mut CUgraphNode,
    data: *mut CUgraphEdgeData,
    count: *mut usize,
) -> Result<()> {
    let reply = cx.call(&msg::GraphNeighbours { node, dependents })?;
    let r = decode::<msg::GraphNeighboursReply<'_>>(&reply)?;
    let graph = cx.state().graphs.owner(node);
    let handle = |n: &u32| match graph {
        Some(g) => graph::adopt(cx, g, *n),
        None => Ok(cx.adopt(Kind::GraphNode, *n)? as CUgraphNode),
    };
    let list = r.nodes.iter().map(handle).collect::<Result<Vec<_>, _>>()?;
    let edges = graph::annotations(r.edges, list.len())?;
    // SAFETY: the program's pointers.
    unsafe { hand_out(&[(out, &list)], (data, &edges), count) }
}

pub fn cuGraphNodeFindInClone(cx: Cx, node: u32, graph: u32) -> Result<CUgraphNode> {
    let found = cx.reply_to(&msg::GraphFind { node, graph })?.found;
    graph::adopt(cx, graph, found)
}

pub unsafe fn cuGraphDebugDotPrint(cx: Cx, graph: u32, path: &CStr, flags: u32) -> Result<()> {
    let reply = cx.call(&msg::GraphDot { graph, flags })?;
    let text = decode::<msg::GraphDotReply<'_>>(&reply)?.text;
    let path = OsStr::from_bytes(path.to_bytes());
    std::fs::write(path, text).map_err(|_| CUDA_ERROR_OPERATING_SYSTEM)
}

pub unsafe fn mem_attribute(
    cx: Cx,
    device: CUdevice,
    attribute: CUgraphMem_attribute,
    value: *mut c_void,
    set: bool,
) -> Result<()> {
    cx.device(device)?;
    refuse_if(value.is_null(), CUDA_ERROR_INVALID_VALUE)?;
    let p = value.cast::<u64>();
    let mut given = 0;
    if set {
        // SAFETY: checked for null above; every attribute is a 64-bit number.
        given = unsafe { p.read_unaligned() };
    }
    let present = cx
        .reply_to(&msg::GraphMemAttribute {
            device,
            attribute: attribute as _,
            set: u32::from(set),
            value: given,
        })?
        .present;
    if !set {
        // SAFETY: as above.
        unsafe { put_opt(p, present) };
    }
    Ok(())
}

// The family's functions on executable graphs, and on nodes, have files of their own.
pub use super::graph_exec::*;
pub use super::graph_node::*;
