//! Stream capture: work handed to a stream becomes nodes of a graph instead of running.

use crate::entry::{Flavour, api};
use crate::ffi::*;
use crate::graph::Graph;
use crate::handle;
use crate::stream::{self, Order, Stream};
use crate::work::Work;
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};

const GLOBAL: u32 = 0;
const RELAXED: u32 = 2;

const STATUS_NONE: i32 = 0;
const STATUS_ACTIVE: i32 = 1;
const STATUS_INVALIDATED: i32 = 2;

/// Captures in progress: to find those that a call in another thread endangers.
static ACTIVE: Mutex<Vec<Arc<Capture>>> = Mutex::new(Vec::new());

thread_local! {
    static MODE: Cell<u32> = const { Cell::new(GLOBAL) };
    /// What the last capture question handed out: the caller may read it until its next call.
    static FRONTIER: RefCell<Vec<CUgraphNode>> = const { RefCell::new(Vec::new()) };
    static EDGES: RefCell<Vec<EdgeData>> = const { RefCell::new(Vec::new()) };
}

/// A capture in progress.
pub struct Capture {
    id: u64,
    graph: Arc<Graph>,
    /// Whether the capture made its graph: a failed one then ends with it.
    own_graph: bool,
    mode: u32,
    origin: Arc<Stream>,
    thread: ThreadId,
    invalid: AtomicBool,
    members: Mutex<HashMap<u64, Member>>,
}

struct Member {
    stream: Arc<Stream>,
    /// What the stream's next node depends on.
    frontier: Vec<CUgraphNode>,
}

/// The capture that a stream takes part in; an invalidated one is an error.
pub fn of(stream: &Stream) -> R<Option<Arc<Capture>>> {
    let capture = stream.capture.lock().unwrap().clone();
    match capture {
        Some(capture) if capture.invalid.load(Ordering::Acquire) => Err(STREAM_CAPTURE_INVALIDATED),
        capture => Ok(capture),
    }
}

/// Fails for the legacy default stream while a stream that it would wait for is captured; that
/// capture goes on.
fn check_implicit(order: &Order) -> Res {
    let captured = |stream: &Arc<Stream>| stream.capture.lock().unwrap().is_some();
    let hit = order
        .all
        .iter()
        .any(|stream| stream.blocking() && captured(stream));
    if hit {
        Err(STREAM_CAPTURE_IMPLICIT)
    } else {
        Ok(())
    }
}

/// Refuses work in the legacy default stream while a stream that it would wait for is captured.
pub fn refuse_implicit(order: &Order) -> Res {
    let mut found = Ok(());
    for stream in order.all.iter().filter(|stream| stream.blocking()) {
        if let Some(capture) = &*stream.capture.lock().unwrap() {
            capture.invalidate();
            found = Err(STREAM_CAPTURE_IMPLICIT);
        }
    }
    found
}

/// Refuses a call that could disturb a capture, such as an allocation.
pub fn check_unsafe() -> Res {
    let mode = MODE.get();
    if mode == RELAXED {
        return Ok(());
    }
    let me = thread::current().id();
    let active = ACTIVE.lock().unwrap();
    let endangered = |capture: &&Arc<Capture>| {
        (mode == GLOBAL && capture.mode == GLOBAL)
            || (capture.mode != RELAXED && capture.thread == me)
    };
    let hit: Vec<_> = active.iter().filter(endangered).collect();
    hit.iter().for_each(|capture| capture.invalidate());
    if hit.is_empty() {
        Ok(())
    } else {
        Err(STREAM_CAPTURE_UNSUPPORTED)
    }
}

/// Refuses a call that would wait for a captured stream.
pub fn refuse_wait(stream: &Stream) -> Res {
    match &*stream.capture.lock().unwrap() {
        Some(capture) => {
            capture.invalidate();
            Err(STREAM_CAPTURE_UNSUPPORTED)
        }
        None => Ok(()),
    }
}

impl Capture {
    /// Spoils the capture: only its end is left to call.
    pub fn invalidate(&self) {
        self.invalid.store(true, Ordering::Release);
    }

    /// Adds a node after the stream's last ones.
    pub fn add(&self, stream: &Arc<Stream>, work: Work) -> Res {
        if matches!(work, Work::Callback(..) | Work::FreeAsync(_)) {
            self.invalidate();
            return Err(STREAM_CAPTURE_UNSUPPORTED);
        }
        let mut members = self.members.lock().unwrap();
        let member = members
            .get_mut(&stream.id)
            .ok_or(STREAM_CAPTURE_INVALIDATED)?;
        let node = self.graph.add(work, &member.frontier)?;
        member.frontier = vec![node];
        Ok(())
    }

    /// What the stream's next node depends on.
    pub fn frontier(&self, stream: &Stream) -> Vec<CUgraphNode> {
        let members = self.members.lock().unwrap();
        members
            .get(&stream.id)
            .map(|member| member.frontier.clone())
            .unwrap_or_default()
    }

    /// Makes a stream wait for nodes; one that is in no capture joins this one.
    pub fn join(self: &Arc<Self>, stream: &Arc<Stream>, nodes: &[CUgraphNode]) -> Res {
        if let Some(other) = of(stream)? {
            if other.id != self.id {
                self.invalidate();
                other.invalidate();
                return Err(STREAM_CAPTURE_MERGE);
            }
        } else if stream.is_legacy() {
            self.invalidate();
            return Err(STREAM_CAPTURE_IMPLICIT);
        }
        if self.invalid.load(Ordering::Acquire) {
            return Err(STREAM_CAPTURE_INVALIDATED);
        }
        *stream.capture.lock().unwrap() = Some(self.clone());
        let mut members = self.members.lock().unwrap();
        let new = || Member {
            stream: stream.clone(),
            frontier: Vec::new(),
        };
        let member = members.entry(stream.id).or_insert_with(new);
        for node in nodes {
            if !member.frontier.contains(node) {
                member.frontier.push(*node);
            }
        }
        Ok(())
    }

    /// Ends the capture: no stream takes part any more.
    fn finish(self: &Arc<Self>) -> Res {
        let members = std::mem::take(&mut *self.members.lock().unwrap());
        ACTIVE
            .lock()
            .unwrap()
            .retain(|capture| capture.id != self.id);
        let reached: HashSet<CUgraphNode> = members
            .get(&self.origin.id)
            .map(|member| self.graph.ancestors(&member.frontier))
            .unwrap_or_default();
        let mut unjoined = false;
        for member in members.values() {
            *member.stream.capture.lock().unwrap() = None;
            unjoined |= member.frontier.iter().any(|node| !reached.contains(node));
        }
        if self.invalid.load(Ordering::Acquire) {
            Err(STREAM_CAPTURE_INVALIDATED)
        } else if unjoined {
            Err(STREAM_CAPTURE_UNJOINED)
        } else {
            Ok(())
        }
    }
}

fn begin(
    stream: CUstream,
    flavour: Flavour,
    mode: u32,
    into: Option<(Arc<Graph>, Vec<CUgraphNode>)>,
) -> Res {
    let (origin, _) = stream::resolve(stream, flavour)?;
    if mode > RELAXED {
        return Err(INVALID_VALUE);
    }
    if origin.is_legacy() {
        return Err(STREAM_CAPTURE_UNSUPPORTED);
    }
    let mut slot = origin.capture.lock().unwrap();
    if slot.is_some() {
        return Err(ILLEGAL_STATE);
    }
    let own_graph = into.is_none();
    let (graph, frontier) = into.unwrap_or_else(|| (Graph::new(), Vec::new()));
    let member = Member {
        stream: origin.clone(),
        frontier,
    };
    let capture = Arc::new(Capture {
        id: handle::fresh() as u64,
        graph,
        own_graph,
        mode,
        origin: origin.clone(),
        thread: thread::current().id(),
        invalid: AtomicBool::new(false),
        members: Mutex::new(HashMap::from([(origin.id, member)])),
    });
    ACTIVE.lock().unwrap().push(capture.clone());
    *slot = Some(capture);
    Ok(())
}

struct Info {
    status: i32,
    id: u64,
    graph: CUgraph,
    frontier: *const CUgraphNode,
    edges: *const EdgeData,
    count: usize,
}

fn info(stream: CUstream, flavour: Flavour) -> R<Info> {
    let (stream, context) = stream::resolve(stream, flavour)?;
    if stream.is_legacy() {
        check_implicit(&context.order.lock().unwrap())?;
    }
    let capture = stream.capture.lock().unwrap().clone();
    let none = Info {
        status: STATUS_NONE,
        id: 0,
        graph: 0,
        frontier: std::ptr::null(),
        edges: std::ptr::null(),
        count: 0,
    };
    let Some(capture) = capture else {
        return Ok(none);
    };
    if capture.invalid.load(Ordering::Acquire) {
        return Ok(Info {
            status: STATUS_INVALIDATED,
            ..none
        });
    }
    let nodes = capture.frontier(&stream);
    let count = nodes.len();
    let frontier = FRONTIER.with_borrow_mut(|kept| {
        *kept = nodes;
        kept.as_ptr()
    });
    let edges = EDGES.with_borrow_mut(|kept| {
        *kept = vec![EdgeData::default(); count];
        kept.as_ptr()
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
    let (stream, _) = stream::resolve(stream, flavour)?;
    let capture = of(&stream)?.ok_or(ILLEGAL_STATE)?;
    if !nodes.iter().all(|node| capture.graph.contains(*node)) {
        return Err(INVALID_VALUE);
    }
    if replace && let Some(member) = capture.members.lock().unwrap().get_mut(&stream.id) {
        member.frontier.clear();
    }
    capture.join(&stream, &nodes)
}

api! {
    fn [cuStreamBeginCapture_v2; cuStreamBeginCapture_v2_ptsz] (stream: CUstream, mode: u32) {
        begin(stream, FLAVOUR, mode, None)
    }

    fn [cuStreamBeginCapture; cuStreamBeginCapture_ptsz] (stream: CUstream) {
        begin(stream, FLAVOUR, GLOBAL, None)
    }

    fn [cuStreamBeginCaptureToGraph; cuStreamBeginCaptureToGraph_ptsz] (
        stream: CUstream, graph: CUgraph, nodes: *const CUgraphNode, _edges: *const EdgeData,
        count: usize, mode: u32,
    ) {
        let graph = crate::graph::GRAPHS.get(graph).map_err(|_| INVALID_VALUE)?;
        let nodes = list(nodes, count)?;
        if !nodes.iter().all(|node| graph.contains(*node)) {
            return Err(INVALID_VALUE);
        }
        begin(stream, FLAVOUR, mode, Some((graph, nodes)))
    }

    fn [cuStreamEndCapture; cuStreamEndCapture_ptsz] (stream: CUstream, out: *mut CUgraph) {
        let (stream, _) = stream::resolve(stream, FLAVOUR)?;
        let capture = stream.capture.lock().unwrap().clone().ok_or(ILLEGAL_STATE)?;
        put_opt(out, 0);
        if capture.mode != RELAXED && capture.thread != thread::current().id() {
            return Err(STREAM_CAPTURE_WRONG_THREAD);
        }
        if capture.origin.id != stream.id {
            capture.invalidate();
            return Err(STREAM_CAPTURE_UNMATCHED);
        }
        if let Err(code) = capture.finish() {
            if capture.own_graph {
                crate::graph::destroy(&capture.graph);
            }
            return Err(code);
        }
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
