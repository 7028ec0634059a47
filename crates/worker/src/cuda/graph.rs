//! Graphs: nodes, edges, and questions about them.

use super::graph_host::attach;
use super::graph_node::{build, tell};
use super::graph_walk::{edges, inside, nodes};
use super::{Cuda, attempt, check};
use busbar_abi::cuda::*;
use busbar_wire::WireError;
use busbar_wire::codec::Message;
use busbar_wire::generated::cuda::{self as msg, Kind};
use busbar_wire::limits::MAX_BYTES;
use busbar_wire::record::Header;
use std::ffi::CString;
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd};

pub(super) use super::graph_exec::*;
pub(super) use super::graph_host::*;

/// The nodes of ids.
pub(super) fn node_list(w: &mut Cuda, ids: &[u32]) -> Result<Vec<CUgraphNode>, CUresult> {
    ids.iter()
        .map(|n| Ok(w.handle(Kind::GraphNode, *n)? as CUgraphNode))
        .collect()
}

/// Annotations of `n` edges; none when the client sent none.
pub(super) fn edge_list(bytes: &[u8], n: usize) -> Result<Vec<CUgraphEdgeData>, CUresult> {
    let list: Vec<_> = busbar_abi::items_from_bytes(bytes).ok_or(CUDA_ERROR_INVALID_VALUE)?;
    if list.is_empty() || list.len() == n {
        Ok(list)
    } else {
        Err(CUDA_ERROR_INVALID_VALUE)
    }
}

/// The array's address; null for an empty one.
pub(super) fn or_null<T>(list: &[T]) -> *const T {
    if list.is_empty() {
        std::ptr::null()
    } else {
        list.as_ptr()
    }
}

/// Adds a node: the address that it allocates, and the graphs inside it.
fn add(w: &mut Cuda, h: &Header, m: &msg::GraphAddNode<'_>) -> Result<(u64, Vec<u32>), CUresult> {
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
        w.driver.cuGraphAddNode_v2(
            &mut node,
            graph,
            or_null(&after),
            or_null(&edges),
            after.len(),
            &mut b.p,
        )
    })?;
    w.made(h, m, node as u64);
    match b.p.r#type {
        CU_GRAPH_NODE_TYPE_MEM_ALLOC => {
            let a: CUDA_MEM_ALLOC_NODE_PARAMS_v2 = busbar_abi::member(&b.p.u);
            w.given.memory(a.dptr, a.bytesize as u64);
            w.graphs.allocate = true;
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

pub(super) fn graph_add_node(
    w: &mut Cuda,
    h: &Header,
    m: msg::GraphAddNode<'_>,
) -> Result<(), WireError> {
    let mut told = (0, vec![]);
    let rc = attempt(|| {
        told = add(w, h, &m)?;
        Ok(())
    });
    if h.call == 0 {
        w.done(h, rc);
    } else {
        let (va, graphs) = told;
        w.reply(h, rc, |wr| msg::GraphAddNodeReply { va, graphs }.encode(wr));
    }
    Ok(())
}

pub(super) fn graph_set_node(
    w: &mut Cuda,
    h: &Header,
    m: msg::GraphSetNode<'_>,
) -> Result<(), WireError> {
    let rc = attempt(|| {
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
        check(unsafe { w.driver.cuGraphNodeSetParams(node, &mut b.p) })
    });
    w.reply(h, rc, |_| {});
    Ok(())
}

pub(super) fn graph_get_node(
    w: &mut Cuda,
    h: &Header,
    m: msg::GraphGetNode,
) -> Result<(), WireError> {
    let mut told = None;
    let rc = attempt(|| {
        let node = w.handle(Kind::GraphNode, m.node)? as CUgraphNode;
        told = Some(tell(w, (m.node, node), m.kind)?);
        Ok(())
    });
    let reply = told.as_ref().map(|t| msg::GraphGetNodeReply {
        params: busbar_abi::bytes_of(&t.p),
        extra: &t.extra,
        mirrors: t.mirrors,
    });
    w.reply(h, rc, |wr| {
        if let Some(r) = &reply {
            r.encode(wr);
        }
    });
    Ok(())
}

/// The graph that a node is in.
fn owner(w: &Cuda, node: u32) -> Result<u32, CUresult> {
    let graph = w.handles.parents(Kind::GraphNode, node).next();
    graph.map(|(_, id)| id).ok_or(CUDA_ERROR_INVALID_VALUE)
}

fn adopt_all(w: &mut Cuda, graph: u32, nodes: &[CUgraphNode]) -> Vec<u32> {
    nodes.iter().map(|n| w.adopt_node(graph, *n)).collect()
}

pub(super) fn graph_nodes(w: &mut Cuda, h: &Header, m: msg::GraphNodes) -> Result<(), WireError> {
    let mut ids = vec![];
    let rc = attempt(|| {
        let graph = w.handle(Kind::Graph, m.graph)? as CUgraph;
        let list = if m.roots == 0 {
            nodes(w, graph)?
        } else {
            let mut n = 0;
            // SAFETY: a live graph; the array has as many places as said.
            unsafe {
                let d = w.driver;
                check(d.cuGraphGetRootNodes(graph, std::ptr::null_mut(), &mut n))?;
                let mut list = vec![std::ptr::null_mut(); n];
                if n > 0 {
                    check(d.cuGraphGetRootNodes(graph, list.as_mut_ptr(), &mut n))?;
                }
                list
            }
        };
        ids = adopt_all(w, m.graph, &list);
        Ok(())
    });
    let reply = msg::GraphNodesReply { nodes: ids };
    w.reply(h, rc, |wr| reply.encode(wr));
    Ok(())
}

pub(super) fn graph_edges(w: &mut Cuda, h: &Header, m: msg::GraphEdges) -> Result<(), WireError> {
    let (mut from, mut to, mut data) = (vec![], vec![], vec![]);
    let rc = attempt(|| {
        let graph = w.handle(Kind::Graph, m.graph)? as CUgraph;
        let found = edges(w, graph)?;
        (from, to) = (
            adopt_all(w, m.graph, &found.0),
            adopt_all(w, m.graph, &found.1),
        );
        data = found.2;
        Ok(())
    });
    let reply = msg::GraphEdgesReply {
        from,
        to,
        edges: busbar_abi::slice_bytes(&data),
    };
    w.reply(h, rc, |wr| reply.encode(wr));
    Ok(())
}

pub(super) fn graph_neighbours(
    w: &mut Cuda,
    h: &Header,
    m: msg::GraphNeighbours,
) -> Result<(), WireError> {
    let (mut ids, mut data): (_, Vec<CUgraphEdgeData>) = (vec![], vec![]);
    let rc = attempt(|| {
        let node = w.handle(Kind::GraphNode, m.node)? as CUgraphNode;
        let graph = owner(w, m.node)?;
        let d = w.driver;
        // SAFETY: a live node; the arrays, where given, have as many places as said.
        let ask = |list: *mut CUgraphNode, data: *mut CUgraphEdgeData, n: *mut usize| unsafe {
            check(if m.dependents == 0 {
                d.cuGraphNodeGetDependencies_v2(node, list, data, n)
            } else {
                d.cuGraphNodeGetDependentNodes_v2(node, list, data, n)
            })
        };
        let mut n = 0;
        ask(std::ptr::null_mut(), std::ptr::null_mut(), &mut n)?;
        let mut list = vec![std::ptr::null_mut(); n];
        data = vec![busbar_abi::zeroed(); n];
        if n > 0 {
            ask(list.as_mut_ptr(), data.as_mut_ptr(), &mut n)?;
        }
        ids = adopt_all(w, graph, &list);
        Ok(())
    });
    let reply = msg::GraphNeighboursReply {
        nodes: ids,
        edges: busbar_abi::slice_bytes(&data),
    };
    w.reply(h, rc, |wr| reply.encode(wr));
    Ok(())
}

pub(super) fn graph_find(w: &mut Cuda, h: &Header, m: msg::GraphFind) -> Result<(), WireError> {
    let mut reply = msg::GraphFindReply { found: 0 };
    let rc = attempt(|| {
        let node = w.handle(Kind::GraphNode, m.node)? as CUgraphNode;
        let graph = w.handle(Kind::Graph, m.graph)? as CUgraph;
        let mut found = std::ptr::null_mut();
        // SAFETY: live handles and a pointer to a live one.
        check(unsafe { w.driver.cuGraphNodeFindInClone(&mut found, node, graph) })?;
        reply.found = w.adopt_node(m.graph, found);
        Ok(())
    });
    w.reply(h, rc, |wr| reply.encode(wr));
    Ok(())
}

pub(super) fn graph_dot(w: &mut Cuda, h: &Header, m: msg::GraphDot) -> Result<(), WireError> {
    let mut text = vec![];
    let rc = attempt(|| {
        let graph = w.handle(Kind::Graph, m.graph)? as CUgraph;
        // A file without a name: nobody else can get at it, or put a link in its place.
        // SAFETY: a C string; the descriptor that comes is ours.
        let mut file = unsafe {
            let fd = libc::memfd_create(c"busbar-graph".as_ptr(), libc::MFD_CLOEXEC);
            if fd < 0 {
                return Err(CUDA_ERROR_OPERATING_SYSTEM);
            }
            File::from_raw_fd(fd)
        };
        let path = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap_or_default();
        // SAFETY: a live graph and a C string.
        check(unsafe { w.driver.cuGraphDebugDotPrint(graph, path.as_ptr(), m.flags) })?;
        let long = file.metadata().map_or(u64::MAX, |m| m.len()) > MAX_BYTES as u64 / 2;
        if long {
            return Err(CUDA_ERROR_NOT_SUPPORTED);
        }
        file.read_to_end(&mut text)
            .map_err(|_| CUDA_ERROR_OPERATING_SYSTEM)?;
        Ok(())
    });
    let reply = msg::GraphDotReply { text: &text };
    w.reply(h, rc, |wr| reply.encode(wr));
    Ok(())
}

pub(super) fn graph_mem_attribute(
    w: &mut Cuda,
    h: &Header,
    m: msg::GraphMemAttribute,
) -> Result<(), WireError> {
    let mut value = m.value;
    let rc = attempt(|| {
        let device = w.device(m.device)?;
        let p = (&raw mut value).cast();
        // SAFETY: every attribute is a 64-bit number.
        check(unsafe {
            if m.set != 0 {
                w.driver
                    .cuDeviceSetGraphMemAttribute(device, m.attribute as _, p)
            } else {
                w.driver
                    .cuDeviceGetGraphMemAttribute(device, m.attribute as _, p)
            }
        })
    });
    let reply = msg::GraphMemAttributeReply { present: value };
    w.reply(h, rc, |wr| reply.encode(wr));
    Ok(())
}
