//! The functions on captures.

use crate::engine::submit;
use crate::entry::api;
use crate::ffi::*;
use crate::state::capture::{self, GLOBAL, MODE, RELAXED, begin};
use crate::state::graph::GRAPHS;
use crate::state::stream::Flavour;
use std::cell::RefCell;
use std::collections::HashMap;

type Told = (Vec<CUgraphNode>, Vec<EdgeData>);

thread_local! {
    /// What the last question about each stream's capture handed out: the caller may read it until
    /// its next such call.
    static TOLD: RefCell<HashMap<u64, Told>> = RefCell::default();
}

/// Forgets what this thread was told.
pub fn reset() {
    TOLD.with_borrow_mut(HashMap::clear);
}

const STATUS_NONE: i32 = 0;
const STATUS_ACTIVE: i32 = 1;
const STATUS_INVALIDATED: i32 = 2;

struct Info {
    status: i32,
    id: u64,
    graph: CUgraph,
    frontier: *const CUgraphNode,
    edges: *const EdgeData,
    count: usize,
}

fn info(stream: CUstream, flavour: Flavour) -> R<Info> {
    let (stream, context) = submit::resolve(stream, flavour)?;
    if stream.is_legacy() {
        capture::check_implicit(&context.order.lock().unwrap())?;
    }
    let capture = capture::even_invalid(&stream);
    let Some(capture) = capture.as_ref().filter(|capture| capture.valid()) else {
        let status = capture.map_or(STATUS_NONE, |_| STATUS_INVALIDATED);
        return Ok(Info {
            status,
            id: 0,
            graph: 0,
            frontier: std::ptr::null(),
            edges: std::ptr::null(),
            count: 0,
        });
    };
    let nodes = capture.frontier(&stream);
    let count = nodes.len();
    let (frontier, edges) = TOLD.with_borrow_mut(|told| {
        let lists = (nodes, vec![EdgeData::default(); count]);
        let kept = told.entry(stream.id).insert_entry(lists).into_mut();
        (kept.0.as_ptr(), kept.1.as_ptr())
    });
    let (id, graph) = (capture.id, capture.graph.handle);
    Ok(Info {
        status: STATUS_ACTIVE,
        id,
        graph,
        frontier,
        edges,
        count,
    })
}

fn update(stream: CUstream, flavour: Flavour, nodes: Vec<CUgraphNode>, replace: bool) -> Res {
    let (stream, _) = submit::resolve(stream, flavour)?;
    let capture = capture::of(&stream)?.ok_or(ILLEGAL_STATE)?;
    capture.follow(&stream, &nodes, replace)
}

api! {
    fn [cuStreamBeginCapture_v2; cuStreamBeginCapture_v2_ptsz] (stream: CUstream, mode: u32) {
        begin(&submit::resolve(stream, FLAVOUR)?.0, mode, None)
    }

    fn [cuStreamBeginCapture; cuStreamBeginCapture_ptsz] (stream: CUstream) {
        begin(&submit::resolve(stream, FLAVOUR)?.0, GLOBAL, None)
    }

    fn [cuStreamBeginCaptureToGraph; cuStreamBeginCaptureToGraph_ptsz] (
        stream: CUstream, graph: CUgraph, nodes: *const CUgraphNode, _edges: *const EdgeData,
        count: usize, mode: u32,
    ) {
        let graph = GRAPHS.get(graph).map_err(|_| INVALID_VALUE)?;
        let nodes = list(nodes, count)?;
        if !nodes.iter().all(|node| graph.contains(*node)) {
            return Err(INVALID_VALUE);
        }
        begin(&submit::resolve(stream, FLAVOUR)?.0, mode, Some((graph, nodes)))
    }

    fn [cuStreamEndCapture; cuStreamEndCapture_ptsz] (stream: CUstream, out: *mut CUgraph) {
        let (stream, _) = submit::resolve(stream, FLAVOUR)?;
        let capture = capture::even_invalid(&stream).ok_or(ILLEGAL_STATE)?;
        put_opt(out, 0);
        capture.end(&stream)?;
        put(out, capture.graph.handle)
    }

    fn [cuStreamIsCapturing; cuStreamIsCapturing_ptsz] (stream: CUstream, out: *mut i32) {
        put(out, info(stream, FLAVOUR)?.status)
    }

    fn [cuStreamGetCaptureInfo; cuStreamGetCaptureInfo_ptsz] (
        stream: CUstream, status: *mut i32, id: *mut u64,
    ) {
        let info = info(stream, FLAVOUR)?;
        put_opt(id, info.id);
        put(status, info.status)
    }

    fn [cuStreamGetCaptureInfo_v2; cuStreamGetCaptureInfo_v2_ptsz] (
        stream: CUstream, status: *mut i32, id: *mut u64, graph: *mut CUgraph,
        nodes: *mut *const CUgraphNode, count: *mut usize,
    ) {
        let info = info(stream, FLAVOUR)?;
        put_opt(id, info.id);
        put_opt(graph, info.graph);
        put_opt(nodes, info.frontier);
        put_opt(count, info.count);
        put(status, info.status)
    }

    fn [cuStreamGetCaptureInfo_v3; cuStreamGetCaptureInfo_v3_ptsz] (
        stream: CUstream, status: *mut i32, id: *mut u64, graph: *mut CUgraph,
        nodes: *mut *const CUgraphNode, edges: *mut *const EdgeData, count: *mut usize,
    ) {
        let info = info(stream, FLAVOUR)?;
        put_opt(id, info.id);
        put_opt(graph, info.graph);
        put_opt(nodes, info.frontier);
        put_opt(edges, info.edges);
        put_opt(count, info.count);
        put(status, info.status)
    }

    fn [cuStreamUpdateCaptureDependencies; cuStreamUpdateCaptureDependencies_ptsz] (
        stream: CUstream, nodes: *const CUgraphNode, count: usize, flags: u32,
    ) {
        update(stream, FLAVOUR, list(nodes, count)?, flags & 1 != 0)
    }

    fn [cuStreamUpdateCaptureDependencies_v2; cuStreamUpdateCaptureDependencies_v2_ptsz] (
        stream: CUstream, nodes: *const CUgraphNode, _edges: *const EdgeData, count: usize,
        flags: u32,
    ) {
        update(stream, FLAVOUR, list(nodes, count)?, flags & 1 != 0)
    }

    fn [cuThreadExchangeStreamCaptureMode] (mode: *mut u32) {
        let new = get(mode)?;
        if new > RELAXED {
            return Err(INVALID_VALUE);
        }
        put(mode, MODE.replace(new))
    }
}
