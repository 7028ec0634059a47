//! The functions that build and question graphs.

use crate::engine::node::{add, copy, fill, from_params, host, kernel};
use crate::entry::api;
use crate::ffi::*;
use crate::state::device;
use crate::state::event::EVENTS;
use crate::state::function::FUNCTIONS;
use crate::state::graph::{self, Graph, NODES, by_handle};
use crate::state::work::{Copy, Fill, Plane, Work};
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex};

/// For each clone of a graph: which of its nodes came from which.
static CLONES: Mutex<Option<HashMap<CUgraph, HashMap<CUgraphNode, CUgraphNode>>>> =
    Mutex::new(None);

/// Forgets all clones.
pub fn reset() {
    *CLONES.lock().unwrap() = None;
}

/// Hands out a list in the C way: a null list asks for the count; room beyond the count is zeroed.
unsafe fn hand_out(items: &[CUgraphNode], out: *mut CUgraphNode, count: *mut usize) -> Res {
    // SAFETY: by the caller's contract `out` is null or has room for `count` items.
    unsafe {
        let room = get(count)?;
        if out.is_null() {
            return put(count, items.len());
        }
        for i in 0..room {
            out.add(i).write(items.get(i).copied().unwrap_or(0));
        }
        put(count, room.min(items.len()))
    }
}

fn edges_of(graph: &Graph) -> Vec<(CUgraphNode, CUgraphNode)> {
    let nodes = graph.nodes();
    let edges = nodes
        .iter()
        .flat_map(|(to, node)| node.after.iter().map(|from| (*from, *to)));
    edges.collect()
}

unsafe fn change_edges(
    graph: CUgraph,
    from: *const CUgraphNode,
    to: *const CUgraphNode,
    count: usize,
    add: bool,
) -> Res {
    // SAFETY: by the caller's contract each list has `count` items.
    let (from, to) = unsafe { (list(from, count)?, list(to, count)?) };
    let edges: Vec<_> = from.into_iter().zip(to).collect();
    by_handle(graph)?.change_edges(&edges, add)
}

fn dependents(node: CUgraphNode) -> R<Vec<CUgraphNode>> {
    let (graph, _) = graph::find(node)?;
    let edges = edges_of(&graph);
    Ok(edges
        .into_iter()
        .filter(|(from, _)| *from == node)
        .map(|(_, to)| to)
        .collect())
}

fn kernel_params(node: CUgraphNode) -> R<KernelNodeParams> {
    let (_, node) = graph::find(node)?;
    let Work::Kernel(launch) = &node.work else {
        return Err(INVALID_VALUE);
    };
    let v1 = KernelNodeParamsV1 {
        func: launch.function.handle,
        grid: launch.grid,
        block: launch.block,
        shared: launch.shared,
        // The pointers live as long as the node keeps these parameters.
        params: match launch.pointers.is_empty() {
            true => std::ptr::null_mut(),
            false => launch.pointers.as_ptr() as *mut *mut c_void,
        },
        extra: std::ptr::null_mut(),
    };
    Ok(KernelNodeParams {
        v1,
        kern: 0,
        ctx: launch.function.context,
    })
}

fn copy_params(copy: &Copy) -> Memcpy3D {
    let kind = |device| {
        if device {
            MEMORYTYPE_DEVICE
        } else {
            MEMORYTYPE_HOST
        }
    };
    let at = |plane: &Plane| {
        let host = if plane.device { 0 } else { plane.addr as usize };
        (
            kind(plane.device),
            host,
            if plane.device { plane.addr } else { 0 },
        )
    };
    let (src_type, src_host, src_device) = at(&copy.src);
    let (dst_type, dst_host, dst_device) = at(&copy.dst);
    copy.params.unwrap_or(Memcpy3D {
        src_type,
        src_host,
        src_device,
        src_pitch: copy.src.pitch,
        src_height: copy.height,
        dst_type,
        dst_host,
        dst_device,
        dst_pitch: copy.dst.pitch,
        dst_height: copy.height,
        width: copy.width,
        height: copy.height,
        depth: copy.depth,
        ..Memcpy3D::default()
    })
}

fn set(node: CUgraphNode, work: Work) -> Res {
    graph::find(node)?.0.set_work(node, work)
}

api! {
    fn [cuGraphCreate] (out: *mut CUgraph, flags: u32) {
        device::initialized()?;
        if out.is_null() || flags != 0 {
            return Err(INVALID_VALUE);
        }
        put(out, Graph::new().handle)
    }

    fn [cuGraphDestroy] (graph: CUgraph) {
        graph::destroy(&*by_handle(graph)?);
        if let Some(clones) = CLONES.lock().unwrap().as_mut() {
            clones.remove(&graph);
        }
        Ok(())
    }

    fn [cuGraphClone] (out: *mut CUgraph, graph: CUgraph) {
        if out.is_null() {
            return Err(INVALID_VALUE);
        }
        let (copy, names) = by_handle(graph)?.copy()?;
        CLONES.lock().unwrap().get_or_insert_default().insert(copy.handle, names);
        put(out, copy.handle)
    }

    fn [cuGraphNodeFindInClone] (out: *mut CUgraphNode, node: CUgraphNode, clone: CUgraph) {
        let clones = CLONES.lock().unwrap();
        let names = clones.as_ref().and_then(|clones| clones.get(&clone)).ok_or(INVALID_VALUE)?;
        put(out, *names.get(&node).ok_or(INVALID_VALUE)?)
    }

    fn [cuGraphAddEmptyNode] (
        out: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize,
    ) {
        add(out, graph, after, count, Work::Empty, None)
    }

    fn [cuGraphAddKernelNode] (
        out: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize,
        params: *const KernelNodeParamsV1,
    ) {
        add(out, graph, after, count, kernel(&get(params)?, 0)?, None)
    }

    fn [cuGraphAddKernelNode_v2] (
        out: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize,
        params: *const KernelNodeParams,
    ) {
        let params = get(params)?;
        add(out, graph, after, count, kernel(&params.v1, params.kern)?, None)
    }

    fn [cuGraphAddMemcpyNode] (
        out: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize,
        params: *const Memcpy3D, context: CUcontext,
    ) {
        add(out, graph, after, count, copy(&get(params)?, context)?, None)
    }

    fn [cuGraphAddMemsetNode] (
        out: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize,
        params: *const MemsetNodeParams, context: CUcontext,
    ) {
        add(out, graph, after, count, fill(&get(params)?, context)?, None)
    }

    fn [cuGraphAddHostNode] (
        out: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize,
        params: *const HostNodeParams,
    ) {
        add(out, graph, after, count, host(&get(params)?)?, None)
    }

    fn [cuGraphAddChildGraphNode] (
        out: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize,
        child: CUgraph,
    ) {
        add(out, graph, after, count, Work::All(Arc::default()), Some(by_handle(child)?))
    }

    fn [cuGraphAddEventRecordNode] (
        out: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize,
        event: CUevent,
    ) {
        add(out, graph, after, count, Work::RecordNode(EVENTS.get(event)?), None)
    }

    fn [cuGraphAddEventWaitNode] (
        out: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize,
        event: CUevent,
    ) {
        add(out, graph, after, count, Work::WaitNode(EVENTS.get(event)?), None)
    }

    fn [cuGraphAddNode] (
        out: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, count: usize,
        params: *mut NodeParams,
    ) {
        let (work, child) = from_params(params)?;
        add(out, graph, after, count, work, child)
    }

    fn [cuGraphAddNode_v2] (
        out: *mut CUgraphNode, graph: CUgraph, after: *const CUgraphNode, _edges: *const EdgeData,
        count: usize, params: *mut NodeParams,
    ) {
        let (work, child) = from_params(params)?;
        add(out, graph, after, count, work, child)
    }

    fn [cuGraphNodeSetParams] (node: CUgraphNode, params: *mut NodeParams) {
        let (work, child) = from_params(params)?;
        if child.is_some() {
            return Err(NOT_SUPPORTED);
        }
        set(node, work)
    }

    fn [cuGraphKernelNodeGetParams] (node: CUgraphNode, out: *mut KernelNodeParamsV1) {
        put(out, kernel_params(node)?.v1)
    }

    fn [cuGraphKernelNodeGetParams_v2] (node: CUgraphNode, out: *mut KernelNodeParams) {
        let mut p = kernel_params(node)?;
        // A library's kernel goes by its own handle.
        if let Some(kern) = FUNCTIONS.get(p.v1.func)?.of.get() {
            (p.v1.func, p.kern) = (0, *kern);
        }
        put(out, p)
    }

    fn [cuGraphKernelNodeSetParams] (node: CUgraphNode, params: *const KernelNodeParamsV1) {
        set(node, kernel(&get(params)?, 0)?)
    }

    fn [cuGraphKernelNodeSetParams_v2] (node: CUgraphNode, params: *const KernelNodeParams) {
        let params = get(params)?;
        set(node, kernel(&params.v1, params.kern)?)
    }

    fn [cuGraphMemcpyNodeGetParams] (node: CUgraphNode, out: *mut Memcpy3D) {
        let (_, node) = graph::find(node)?;
        let Work::Copy(copy) = &node.work else { return Err(INVALID_VALUE) };
        put(out, copy_params(copy))
    }

    fn [cuGraphMemcpyNodeSetParams] (node: CUgraphNode, params: *const Memcpy3D) {
        set(node, copy(&get(params)?, 0)?)
    }

    fn [cuGraphMemsetNodeGetParams] (node: CUgraphNode, out: *mut MemsetNodeParams) {
        let (_, node) = graph::find(node)?;
        let Work::Fill(fill) = node.work else { return Err(INVALID_VALUE) };
        let element_size = fill.element as u32;
        let Fill { dst, pitch, value, width, height, .. } = fill;
        put(out, MemsetNodeParams { dst, pitch, value, element_size, width, height })
    }

    fn [cuGraphMemsetNodeSetParams] (node: CUgraphNode, params: *const MemsetNodeParams) {
        set(node, fill(&get(params)?, 0)?)
    }

    fn [cuGraphHostNodeGetParams] (node: CUgraphNode, out: *mut HostNodeParams) {
        let (_, node) = graph::find(node)?;
        let Work::Host(call) = node.work else { return Err(INVALID_VALUE) };
        put(out, HostNodeParams { f: Some(call.f), user: call.user as *mut c_void })
    }

    fn [cuGraphHostNodeSetParams] (node: CUgraphNode, params: *const HostNodeParams) {
        set(node, host(&get(params)?)?)
    }

    fn [cuGraphChildGraphNodeGetGraph] (node: CUgraphNode, out: *mut CUgraph) {
        put(out, graph::find(node)?.1.child.ok_or(INVALID_VALUE)?.handle)
    }

    fn [cuGraphEventRecordNodeGetEvent] (node: CUgraphNode, out: *mut CUevent) {
        match &graph::find(node)?.1.work {
            Work::RecordNode(event) => put(out, event.handle),
            _ => Err(INVALID_VALUE),
        }
    }

    fn [cuGraphEventWaitNodeGetEvent] (node: CUgraphNode, out: *mut CUevent) {
        match &graph::find(node)?.1.work {
            Work::WaitNode(event) => put(out, event.handle),
            _ => Err(INVALID_VALUE),
        }
    }

    fn [cuGraphEventRecordNodeSetEvent] (node: CUgraphNode, event: CUevent) {
        set(node, Work::RecordNode(EVENTS.get(event)?))
    }

    fn [cuGraphEventWaitNodeSetEvent] (node: CUgraphNode, event: CUevent) {
        set(node, Work::WaitNode(EVENTS.get(event)?))
    }

    fn [cuGraphGetNodes] (graph: CUgraph, out: *mut CUgraphNode, count: *mut usize) {
        let nodes: Vec<_> = by_handle(graph)?.nodes().iter().map(|(node, _)| *node).collect();
        hand_out(&nodes, out, count)
    }

    fn [cuGraphGetRootNodes] (graph: CUgraph, out: *mut CUgraphNode, count: *mut usize) {
        let nodes = by_handle(graph)?.nodes();
        let roots = nodes.iter().filter(|(_, node)| node.after.is_empty());
        hand_out(&roots.map(|(node, _)| *node).collect::<Vec<_>>(), out, count)
    }

    fn [cuGraphGetEdges] (
        graph: CUgraph, from: *mut CUgraphNode, to: *mut CUgraphNode, count: *mut usize,
    ) {
        let (first, second): (Vec<_>, Vec<_>) = edges_of(&*by_handle(graph)?).into_iter().unzip();
        if !from.is_null() && !to.is_null() {
            let mut room = get(count)?;
            hand_out(&second, to, &raw mut room)?;
        }
        hand_out(&first, from, count)
    }

    fn [cuGraphGetEdges_v2] (
        graph: CUgraph, from: *mut CUgraphNode, to: *mut CUgraphNode, edges: *mut EdgeData,
        count: *mut usize,
    ) {
        let (first, second): (Vec<_>, Vec<_>) = edges_of(&*by_handle(graph)?).into_iter().unzip();
        if !from.is_null() && !to.is_null() {
            let mut room = get(count)?;
            hand_out(&second, to, &raw mut room)?;
            for i in 0..if edges.is_null() { 0 } else { room } {
                edges.add(i).write(EdgeData::default());
            }
        }
        hand_out(&first, from, count)
    }

    fn [cuGraphNodeGetDependencies] (
        node: CUgraphNode, out: *mut CUgraphNode, count: *mut usize,
    ) {
        hand_out(&graph::find(node)?.1.after, out, count)
    }

    fn [cuGraphNodeGetDependencies_v2] (
        node: CUgraphNode, out: *mut CUgraphNode, edges: *mut EdgeData, count: *mut usize,
    ) {
        hand_out(&graph::find(node)?.1.after, out, count)?;
        for i in 0..if edges.is_null() || out.is_null() { 0 } else { get(count)? } {
            edges.add(i).write(EdgeData::default());
        }
        Ok(())
    }

    fn [cuGraphNodeGetDependentNodes] (
        node: CUgraphNode, out: *mut CUgraphNode, count: *mut usize,
    ) {
        hand_out(&dependents(node)?, out, count)
    }

    fn [cuGraphNodeGetDependentNodes_v2] (
        node: CUgraphNode, out: *mut CUgraphNode, edges: *mut EdgeData, count: *mut usize,
    ) {
        hand_out(&dependents(node)?, out, count)?;
        for i in 0..if edges.is_null() || out.is_null() { 0 } else { get(count)? } {
            edges.add(i).write(EdgeData::default());
        }
        Ok(())
    }

    fn [cuGraphAddDependencies] (
        graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode, count: usize,
    ) {
        change_edges(graph, from, to, count, true)
    }

    fn [cuGraphAddDependencies_v2] (
        graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode,
        _edges: *const EdgeData, count: usize,
    ) {
        change_edges(graph, from, to, count, true)
    }

    fn [cuGraphRemoveDependencies] (
        graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode, count: usize,
    ) {
        change_edges(graph, from, to, count, false)
    }

    fn [cuGraphRemoveDependencies_v2] (
        graph: CUgraph, from: *const CUgraphNode, to: *const CUgraphNode,
        _edges: *const EdgeData, count: usize,
    ) {
        change_edges(graph, from, to, count, false)
    }

    fn [cuGraphNodeGetType] (node: CUgraphNode, out: *mut u32) {
        put(out, graph::kind(&graph::find(node)?.1.work))
    }

    fn [cuGraphDestroyNode] (node: CUgraphNode) {
        let graph = NODES.get(node).map_err(|_| INVALID_VALUE)?;
        graph.remove(node)
    }
}
