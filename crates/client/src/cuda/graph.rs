//! Graphs: their nodes and edges, and questions about them.

use super::handles;
use super::runtime::{Cx, decode, enter, guard, put, put_opt};
use busbar_abi::cuda::*;
use busbar_wire::generated::cuda::{self as msg, Kind};
use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

pub(super) use super::graph_exec::*;
pub(super) use super::graph_node::*;

/// What a node's parameters point to, as the program was told: good as long as the node.
#[derive(Default)]
struct Kept {
    /// In words, for the alignment of what lies there.
    bytes: Box<[u64]>,
    /// Addresses of parameters.
    list: Box<[usize]>,
    graphs: Box<[usize]>,
}

/// Which nodes and inner graphs belong to which graph: their handles end with it.
#[derive(Default)]
struct Known {
    nodes: HashMap<u32, HashSet<u32>>,
    owner: HashMap<u32, u32>,
    inner: HashMap<u32, Vec<u32>>,
    kept: HashMap<u32, Kept>,
}

fn known() -> MutexGuard<'static, Known> {
    static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The graph that a node is known to belong to.
pub(super) fn owner(node: u32) -> Option<u32> {
    known().owner.get(&node).copied()
}

/// Says that a node belongs to a graph.
pub(super) fn own(graph: u32, node: u32) {
    let mut k = known();
    k.owner.insert(node, graph);
    k.nodes.entry(graph).or_default().insert(node);
}

/// The handle of a graph's node whose id came from the worker.
pub(super) fn adopt(cx: Cx, graph: u32, node: u32) -> Result<CUgraphNode, CUresult> {
    let h = handles::adopt(Kind::GraphNode, node, cx.scope)?;
    own(graph, node);
    Ok(h as CUgraphNode)
}

/// The handles of a graph's nodes.
fn adopt_all(cx: Cx, graph: u32, nodes: &[u32]) -> Result<Vec<CUgraphNode>, CUresult> {
    nodes.iter().map(|n| adopt(cx, graph, *n)).collect()
}

/// The annotations of so many edges.
pub(super) fn annotations(bytes: &[u8], n: usize) -> Result<Vec<CUgraphEdgeData>, CUresult> {
    let list: Option<Vec<_>> = busbar_abi::items_from_bytes(bytes);
    list.filter(|l| l.is_empty() || l.len() == n)
        .ok_or(CUDA_ERROR_UNKNOWN)
}

/// The handle of the graph inside a node.
pub(super) fn adopt_inner(cx: Cx, node: u32, graph: u32) -> Result<u64, CUresult> {
    let handle = handles::adopt(Kind::Graph, graph, cx.scope)?;
    let mut k = known();
    if let Some(outer) = k.owner.get(&node).copied() {
        let list = k.inner.entry(outer).or_default();
        if !list.contains(&graph) {
            list.push(graph);
        }
    }
    Ok(handle)
}

/// The driver's array of the `n` graphs in a conditional node.
pub(super) fn bodies(
    cx: Cx,
    graph: u32,
    node: u32,
    ids: &[u32],
    n: usize,
) -> Result<*mut CUgraph, CUresult> {
    if ids.len() != n {
        return Err(CUDA_ERROR_UNKNOWN);
    }
    let handle = |g: &u32| Ok(handles::adopt(Kind::Graph, *g, cx.scope)? as usize);
    let list = ids.iter().map(handle).collect::<Result<_, CUresult>>()?;
    let mut k = known();
    k.inner.entry(graph).or_default().extend(ids);
    let kept = k.kept.entry(node).or_default();
    kept.graphs = list;
    Ok(kept.graphs.as_mut_ptr().cast())
}

/// Keeps bytes for as long as a node, and says where.
pub(super) fn store_bytes(node: u32, bytes: &[u8]) -> *mut c_void {
    if bytes.is_empty() {
        return std::ptr::null_mut();
    }
    let mut words = vec![0u64; bytes.len().div_ceil(8)];
    for (w, b) in words.iter_mut().zip(bytes.chunks(8)) {
        let mut whole = [0; 8];
        whole[..b.len()].copy_from_slice(b);
        *w = u64::from_ne_bytes(whole);
    }
    let mut k = known();
    let kept = k.kept.entry(node).or_default();
    kept.bytes = words.into();
    kept.bytes.as_mut_ptr().cast()
}

/// Keeps packed kernel parameters, and gives the array of their addresses.
pub(super) fn store_params(node: u32, packed: &[u8], layout: &[(u32, u32)]) -> *mut *mut c_void {
    let fits = |(o, s): &(u32, u32)| (*o + *s) as usize <= packed.len();
    if layout.is_empty() || !layout.iter().all(fits) {
        return std::ptr::null_mut();
    }
    let base = store_bytes(node, packed) as usize;
    let mut k = known();
    let kept = k.kept.entry(node).or_default();
    kept.list = layout.iter().map(|(o, _)| base + *o as usize).collect();
    kept.list.as_mut_ptr().cast()
}

impl Known {
    fn drop_node(&mut self, node: u32) {
        self.kept.remove(&node);
        self.owner.remove(&node);
        handles::destroy(Kind::GraphNode, node);
    }

    fn drop_graph(&mut self, graph: u32) {
        for n in self.nodes.remove(&graph).into_iter().flatten() {
            self.drop_node(n);
        }
        for g in self.inner.remove(&graph).into_iter().flatten() {
            self.drop_graph(g);
        }
        handles::destroy(Kind::Graph, graph);
    }
}

/// Node ids and edges' annotations of a program's arrays.
///
/// # Safety
/// The arrays are of that length; the second may be null.
pub(super) unsafe fn dependencies(
    nodes: *const CUgraphNode,
    data: *const CUgraphEdgeData,
    n: usize,
) -> Result<(Vec<u32>, Vec<u8>), CUresult> {
    if n > 0 && nodes.is_null() || n > busbar_wire::limits::MAX_ITEMS {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let mut ids = Vec::with_capacity(n);
    for i in 0..n {
        // SAFETY: the program's array of `n` nodes.
        let raw = unsafe { nodes.add(i).read() };
        let id = handles::id(Kind::GraphNode, raw as u64);
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

/// Hands out lists in CUDA's way: without an array, only their length; room beyond it is zeroed.
unsafe fn hand_out(
    lists: &[(*mut CUgraphNode, &[CUgraphNode])],
    data: (*mut CUgraphEdgeData, &[CUgraphEdgeData]),
    count: *mut usize,
) -> Result<(), CUresult> {
    if count.is_null() {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let len = lists[0].1.len();
    if lists.iter().all(|(out, _)| out.is_null()) {
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

fn nodes(graph: CUgraph, roots: u32, out: *mut CUgraphNode, count: *mut usize) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let graph = cx.handle(Kind::Graph, graph as u64)?;
        let reply = cx.call(&msg::GraphNodes { graph, roots })?;
        let ids = decode::<msg::GraphNodesReply>(&reply)?.nodes;
        let list = adopt_all(cx, graph, &ids)?;
        // SAFETY: the program's pointers.
        unsafe { hand_out(&[(out, &list)], NO_DATA, count) }
    })
}

pub(super) unsafe fn cuGraphGetNodes(
    graph: CUgraph,
    out: *mut CUgraphNode,
    count: *mut usize,
) -> CUresult {
    nodes(graph, 0, out, count)
}

pub(super) unsafe fn cuGraphGetRootNodes(
    graph: CUgraph,
    out: *mut CUgraphNode,
    count: *mut usize,
) -> CUresult {
    nodes(graph, 1, out, count)
}

pub(super) unsafe fn cuGraphGetEdges_v2(
    graph: CUgraph,
    from: *mut CUgraphNode,
    to: *mut CUgraphNode,
    data: *mut CUgraphEdgeData,
    count: *mut usize,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let graph = cx.handle(Kind::Graph, graph as u64)?;
        if from.is_null() != to.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let reply = cx.call(&msg::GraphEdges { graph })?;
        let r = decode::<msg::GraphEdgesReply<'_>>(&reply)?;
        let f = adopt_all(cx, graph, &r.from)?;
        let t = adopt_all(cx, graph, &r.to)?;
        let edges = annotations(r.edges, f.len())?;
        // SAFETY: the program's pointers.
        unsafe { hand_out(&[(from, &f), (to, &t)], (data, &edges), count) }
    })
}

pub(super) unsafe fn cuGraphGetEdges(
    graph: CUgraph,
    from: *mut CUgraphNode,
    to: *mut CUgraphNode,
    count: *mut usize,
) -> CUresult {
    // SAFETY: passed on to the caller.
    unsafe { cuGraphGetEdges_v2(graph, from, to, std::ptr::null_mut(), count) }
}

fn neighbours(
    raw: CUgraphNode,
    dependents: u32,
    out: *mut CUgraphNode,
    data: *mut CUgraphEdgeData,
    count: *mut usize,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let node = cx.handle(Kind::GraphNode, raw as u64)?;
        let reply = cx.call(&msg::GraphNeighbours { node, dependents })?;
        let r = decode::<msg::GraphNeighboursReply<'_>>(&reply)?;
        let graph = owner(node);
        let handle = |n: &u32| match graph {
            Some(g) => adopt(cx, g, *n),
            None => Ok(handles::adopt(Kind::GraphNode, *n, cx.scope)? as CUgraphNode),
        };
        let list = r.nodes.iter().map(handle).collect::<Result<Vec<_>, _>>()?;
        let edges = annotations(r.edges, list.len())?;
        // SAFETY: the program's pointers.
        unsafe { hand_out(&[(out, &list)], (data, &edges), count) }
    })
}

pub(super) unsafe fn cuGraphNodeGetDependencies(
    node: CUgraphNode,
    out: *mut CUgraphNode,
    count: *mut usize,
) -> CUresult {
    neighbours(node, 0, out, std::ptr::null_mut(), count)
}

pub(super) unsafe fn cuGraphNodeGetDependencies_v2(
    node: CUgraphNode,
    out: *mut CUgraphNode,
    data: *mut CUgraphEdgeData,
    count: *mut usize,
) -> CUresult {
    neighbours(node, 0, out, data, count)
}

pub(super) unsafe fn cuGraphNodeGetDependentNodes(
    node: CUgraphNode,
    out: *mut CUgraphNode,
    count: *mut usize,
) -> CUresult {
    neighbours(node, 1, out, std::ptr::null_mut(), count)
}

pub(super) unsafe fn cuGraphNodeGetDependentNodes_v2(
    node: CUgraphNode,
    out: *mut CUgraphNode,
    data: *mut CUgraphEdgeData,
    count: *mut usize,
) -> CUresult {
    neighbours(node, 1, out, data, count)
}

pub(super) unsafe fn cuGraphNodeFindInClone(
    out: *mut CUgraphNode,
    node: CUgraphNode,
    graph: CUgraph,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let node = cx.handle(Kind::GraphNode, node as u64)?;
        let graph = cx.handle(Kind::Graph, graph as u64)?;
        let reply = cx.call(&msg::GraphFind { node, graph })?;
        let found = decode::<msg::GraphFindReply>(&reply)?.found;
        // SAFETY: the program's pointer.
        unsafe { put(out, adopt(cx, graph, found)?) }
    })
}

pub(super) unsafe fn cuGraphDestroy(graph: CUgraph) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let h_graph = cx.handle(Kind::Graph, graph as u64)?;
        cx.send(&msg::CuGraphDestroy { h_graph })?;
        known().drop_graph(h_graph);
        Ok(())
    })
}

pub(super) unsafe fn cuGraphDestroyNode(node: CUgraphNode) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let h_node = cx.handle(Kind::GraphNode, node as u64)?;
        cx.send(&msg::CuGraphDestroyNode { h_node })?;
        let mut k = known();
        if let Some(g) = k.owner.get(&h_node).copied()
            && let Some(all) = k.nodes.get_mut(&g)
        {
            all.remove(&h_node);
        }
        k.drop_node(h_node);
        Ok(())
    })
}

pub(super) unsafe fn cuGraphDebugDotPrint(
    graph: CUgraph,
    path: *const c_char,
    flags: u32,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let graph = cx.handle(Kind::Graph, graph as u64)?;
        if path.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let reply = cx.call(&msg::GraphDot { graph, flags })?;
        let text = decode::<msg::GraphDotReply<'_>>(&reply)?.text;
        // SAFETY: checked for null above; the program's C string.
        let path = OsStr::from_bytes(unsafe { CStr::from_ptr(path) }.to_bytes());
        std::fs::write(path, text).map_err(|_| CUDA_ERROR_OPERATING_SYSTEM)
    })
}

unsafe fn mem_attribute(
    device: CUdevice,
    attribute: CUgraphMem_attribute,
    value: *mut c_void,
    set: bool,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        if usize::try_from(device).map_or(true, |d| d >= cx.rt.devices.len()) {
            return Err(CUDA_ERROR_INVALID_DEVICE);
        }
        if value.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let p = value.cast::<u64>();
        let mut given = 0;
        if set {
            // SAFETY: checked for null above; every attribute is a 64-bit number.
            given = unsafe { p.read_unaligned() };
        }
        let reply = cx.call(&msg::GraphMemAttribute {
            device,
            attribute: attribute as _,
            set: u32::from(set),
            value: given,
        })?;
        let present = decode::<msg::GraphMemAttributeReply>(&reply)?.present;
        if !set {
            // SAFETY: as above.
            unsafe { put_opt(p, present) };
        }
        Ok(())
    })
}

pub(super) unsafe fn cuDeviceGetGraphMemAttribute(
    device: CUdevice,
    attribute: CUgraphMem_attribute,
    value: *mut c_void,
) -> CUresult {
    // SAFETY: passed on to the caller.
    unsafe { mem_attribute(device, attribute, value, false) }
}

pub(super) unsafe fn cuDeviceSetGraphMemAttribute(
    device: CUdevice,
    attribute: CUgraphMem_attribute,
    value: *mut c_void,
) -> CUresult {
    // SAFETY: passed on to the caller.
    unsafe { mem_attribute(device, attribute, value, true) }
}
