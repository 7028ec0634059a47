//! Graphs: nodes, edges, and questions about them.

use super::driver::list;
use super::graph_host::attach;
use super::graph_node::{build, tell};
use super::graph_walk::{annotated, edges, inside, nodes};
use super::prelude::*;
use super::state::execs::Allocator;
use busbar_wire::limits::MAX_BYTES;
use std::ffi::CString;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd};

pub use super::graph_exec::*;
pub use super::graph_host::*;
pub use super::graph_memory::cu_device_graph_mem_trim;

/// The nodes of ids.
pub fn node_list(w: &mut Cuda, ids: &[u32]) -> Result<Vec<CUgraphNode>> {
    ids.iter()
        .map(|n| Ok(w.handle(Kind::GraphNode, *n)? as CUgraphNode))
        .collect()
}

/// Annotations of `n` edges; none when the client sent none.
pub fn edge_list(bytes: &[u8], n: usize) -> Result<Vec<CUgraphEdgeData>> {
    let list: Vec<_> = busbar_abi::items_from_bytes(bytes).ok_or(CUDA_ERROR_INVALID_VALUE)?;
    if list.is_empty() || list.len() == n {
        Ok(list)
    } else {
        Err(CUDA_ERROR_INVALID_VALUE)
    }
}

/// The array's address; null for an empty one.
pub fn or_null<T>(list: &[T]) -> *const T {
    if list.is_empty() {
        std::ptr::null()
    } else {
        list.as_ptr()
    }
}

/// Adds a node: the address that it allocates, and the graphs inside it.
fn add(w: &mut Cuda, m: &msg::GraphAddNode<'_>) -> Result<(u64, Vec<u32>)> {
    let mut b = build(w, m.params, m.extra, m.mirrors)?;
    let graph = w.handle(Kind::Graph, m.graph)? as CUgraph;
    let after = node_list(w, &m.after)?;
    let edges = edge_list(m.edges, after.len())?;
    let keep = std::mem::take(&mut b.keep);
    attach(w, graph, keep)?;
    let mut node: CUgraphNode = std::ptr::null_mut();
    // SAFETY: live handles; the arrays are of that length; what the parameters point to lives
    // through the call, and what the node keeps pointing to as long as the graph.
    check(unsafe {
        w.cuGraphAddNode_v2(
            &mut node,
            graph,
            or_null(&after),
            or_null(&edges),
            after.len(),
            &mut b.p,
        )
    })?;
    w.made(m, node as u64);
    match b.p.r#type {
        CU_GRAPH_NODE_TYPE_MEM_ALLOC => {
            let a: CUDA_MEM_ALLOC_NODE_PARAMS_v2 = busbar_abi::member(&b.p.u);
            let size = a.bytesize as u64;
            w.given.memory(a.dptr, size);
            let by = Allocator::Node(m.node);
            w.graphs.allocated.insert(a.dptr, (size, by));
            Ok((a.dptr, vec![]))
        }
        CU_GRAPH_NODE_TYPE_CONDITIONAL => {
            let c: CUDA_CONDITIONAL_NODE_PARAMS = busbar_abi::member(&b.p.u);
            let mut raw = vec![];
            if !c.phGraph_out.is_null() {
                // SAFETY: the driver's array of `size` graphs.
                let list = unsafe { std::slice::from_raw_parts(c.phGraph_out, c.size as usize) };
                raw.extend(list.iter().map(|g| *g as u64));
            }
            let of = [(Kind::GraphNode, m.node)];
            let ids = raw.iter().map(|g| w.adopt(Kind::Graph, *g, &of)).collect();
            w.graphs.bodies.insert(node as u64, raw);
            Ok((0, ids))
        }
        _ => Ok((0, vec![])),
    }
}

pub fn graph_add_node(w: &mut Cuda, m: msg::GraphAddNode<'_>) -> Result<msg::GraphAddNodeReply> {
    let (va, graphs) = add(w, &m)?;
    Ok(msg::GraphAddNodeReply { va, graphs })
}

pub fn graph_set_node(w: &mut Cuda, m: msg::GraphSetNode<'_>) -> Result {
    let mut b = build(w, m.params, m.extra, m.mirrors)?;
    let node = w.handle(Kind::GraphNode, m.node)? as CUgraphNode;
    let owner = owner(w, m.node)?;
    let owner = w.handle(Kind::Graph, owner)? as CUgraph;
    let keep = std::mem::take(&mut b.keep);
    attach(w, owner, keep)?;
    if b.p.r#type == CU_GRAPH_NODE_TYPE_GRAPH {
        // The graph that was inside goes.
        for g in inside(w, node).0 {
            w.remove((Kind::Graph, w.known(Kind::Graph, g as u64)));
        }
    }
    // SAFETY: as in `add`.
    check(unsafe { w.cuGraphNodeSetParams(node, &mut b.p) })
}

pub fn graph_get_node(w: &mut Cuda, m: msg::GraphGetNode) -> Result<Encoded> {
    let node = w.handle(Kind::GraphNode, m.node)? as CUgraphNode;
    let told = tell(w, (m.node, node), m.kind)?;
    Ok(Encoded::of(&msg::GraphGetNodeReply {
        params: &busbar_abi::to_vec(&told.p),
        extra: &told.extra,
        mirrors: told.mirrors,
    }))
}

/// The graph that a node is in.
fn owner(w: &Cuda, node: u32) -> Result<u32> {
    let graph = w.handles.parents(Kind::GraphNode, node).next();
    graph.map(|(_, id)| id).ok_or(CUDA_ERROR_INVALID_VALUE)
}

fn adopt_all(w: &mut Cuda, graph: u32, nodes: &[CUgraphNode]) -> Vec<u32> {
    nodes.iter().map(|n| w.adopt_node(graph, *n)).collect()
}

pub fn graph_nodes(w: &mut Cuda, m: msg::GraphNodes) -> Result<msg::GraphNodesReply> {
    let graph = w.handle(Kind::Graph, m.graph)? as CUgraph;
    let found = if m.roots == 0 {
        nodes(w, graph)?
    } else {
        // SAFETY: a live graph; the array has as many places as said.
        list(|l, n| unsafe { w.cuGraphGetRootNodes(graph, l, n) })?
    };
    let nodes = adopt_all(w, m.graph, &found);
    Ok(msg::GraphNodesReply { nodes })
}

pub fn graph_edges(w: &mut Cuda, m: msg::GraphEdges) -> Result<Encoded> {
    let graph = w.handle(Kind::Graph, m.graph)? as CUgraph;
    let (from, to, data) = edges(w, graph)?;
    Ok(Encoded::of(&msg::GraphEdgesReply {
        from: adopt_all(w, m.graph, &from),
        to: adopt_all(w, m.graph, &to),
        edges: busbar_abi::slice_bytes(&data),
    }))
}

pub fn graph_neighbours(w: &mut Cuda, m: msg::GraphNeighbours) -> Result<Encoded> {
    let node = w.handle(Kind::GraphNode, m.node)? as CUgraphNode;
    let graph = owner(w, m.node)?;
    let d = w.driver;
    // SAFETY: a live node; the arrays, where given, have as many places as said.
    let (found, data) = annotated(|l, e, n| unsafe {
        match m.dependents {
            0 => d.cuGraphNodeGetDependencies_v2(node, l, e, n),
            _ => d.cuGraphNodeGetDependentNodes_v2(node, l, e, n),
        }
    })?;
    Ok(Encoded::of(&msg::GraphNeighboursReply {
        nodes: adopt_all(w, graph, &found),
        edges: busbar_abi::slice_bytes(&data),
    }))
}

pub fn graph_find(w: &mut Cuda, m: msg::GraphFind) -> Result<msg::GraphFindReply> {
    let node = w.handle(Kind::GraphNode, m.node)? as CUgraphNode;
    let graph = w.handle(Kind::Graph, m.graph)? as CUgraph;
    let mut found = std::ptr::null_mut();
    // SAFETY: live handles and a pointer to a live one.
    check(unsafe { w.cuGraphNodeFindInClone(&mut found, node, graph) })?;
    let found = w.adopt_node(m.graph, found);
    Ok(msg::GraphFindReply { found })
}

pub fn graph_dot(w: &mut Cuda, m: msg::GraphDot) -> Result<Encoded> {
    let mut text = vec![];
    let graph = w.handle(Kind::Graph, m.graph)? as CUgraph;
    // A file without a name: nobody else can get at it, or put a link in its place.
    // SAFETY: a C string; the descriptor that comes is ours.
    let mut file = unsafe {
        let fd = libc::memfd_create(c"busbar-graph".as_ptr(), libc::MFD_CLOEXEC);
        refuse_if(fd < 0, CUDA_ERROR_OPERATING_SYSTEM)?;
        File::from_raw_fd(fd)
    };
    let path = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap_or_default();
    // SAFETY: a live graph and a C string.
    check(unsafe { w.cuGraphDebugDotPrint(graph, path.as_ptr(), m.flags) })?;
    let long = file.metadata().map_or(u64::MAX, |m| m.len()) > MAX_BYTES as u64 / 2;
    refuse_if(long, CUDA_ERROR_NOT_SUPPORTED)?;
    file.read_to_end(&mut text)
        .map_err(|_| CUDA_ERROR_OPERATING_SYSTEM)?;
    Ok(Encoded::of(&msg::GraphDotReply { text: &text }))
}

pub fn graph_mem_attribute(
    w: &mut Cuda,
    m: msg::GraphMemAttribute,
) -> Result<msg::GraphMemAttributeReply> {
    let mut value = m.value;
    let device = w.device(m.device)?;
    let p = (&raw mut value).cast();
    // SAFETY: every attribute is a 64-bit number.
    check(unsafe {
        if m.set != 0 {
            w.cuDeviceSetGraphMemAttribute(device, m.attribute as _, p)
        } else {
            w.cuDeviceGetGraphMemAttribute(device, m.attribute as _, p)
        }
    })?;
    Ok(msg::GraphMemAttributeReply { present: value })
}
