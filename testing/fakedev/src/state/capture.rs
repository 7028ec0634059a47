//! Stream capture: work handed to a stream becomes nodes of a graph instead of running.

use super::graph::{self, Graph};
use super::handle;
use super::stream::{Order, Stream};
use super::work::Work;
use crate::ffi::*;
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};

/// Calls of any thread endanger the capture.
pub const GLOBAL: u32 = 0;
/// Nothing that other threads do endangers the capture.
pub const RELAXED: u32 = 2;

/// Captures in progress: to find those that a call in another thread endangers.
static ACTIVE: Mutex<Vec<Arc<Capture>>> = Mutex::new(Vec::new());

thread_local! {
    /// Which captures the thread's calls endanger.
    pub static MODE: Cell<u32> = const { Cell::new(GLOBAL) };
}

/// Forgets all captures, and what this thread does to them.
pub fn reset() {
    MODE.set(GLOBAL);
    let all = std::mem::take(&mut *ACTIVE.lock().unwrap());
    drop(all);
}

/// A capture in progress.
pub struct Capture {
    /// The number by which a program knows it.
    pub id: u64,
    /// The graph that it makes.
    pub graph: Arc<Graph>,
    /// Whether the capture made its graph: a failed one then ends with it.
    own_graph: bool,
    mode: u32,
    origin: Arc<Stream>,
    thread: ThreadId,
    invalid: AtomicBool,
    /// By the streams' ids, what the next node of each depends on.
    members: Mutex<HashMap<u64, Vec<CUgraphNode>>>,
}

/// The capture that a stream takes part in, even an invalidated one.
pub fn even_invalid(stream: &Stream) -> Option<Arc<Capture>> {
    let active = ACTIVE.lock().unwrap();
    let mut of_stream = active.iter().filter(|capture| capture.has(stream));
    of_stream.next().cloned()
}

/// Whether a stream takes part in a capture.
pub fn is_member(stream: &Stream) -> bool {
    even_invalid(stream).is_some()
}

/// The capture that a stream takes part in; an invalidated one is an error.
pub fn of(stream: &Stream) -> R<Option<Arc<Capture>>> {
    match even_invalid(stream) {
        Some(capture) if !capture.valid() => Err(STREAM_CAPTURE_INVALIDATED),
        capture => Ok(capture),
    }
}

/// The capture in progress that has this id.
pub fn by_id(id: u64) -> Option<Arc<Capture>> {
    let active = ACTIVE.lock().unwrap();
    active.iter().find(|capture| capture.id == id).cloned()
}

/// Spoils a capture, if it is in progress.
pub fn invalidate(id: u64) {
    if let Some(capture) = by_id(id) {
        capture.invalidate();
    }
}

/// Fails for the legacy default stream while a stream that it would wait for is captured; that
/// capture goes on.
pub fn check_implicit(order: &Order) -> Res {
    let mut blocking = order.all.iter().filter(|stream| stream.blocking());
    if blocking.any(|stream| is_member(stream)) {
        Err(STREAM_CAPTURE_IMPLICIT)
    } else {
        Ok(())
    }
}

/// Refuses work in the legacy default stream while a stream that it would wait for is captured.
pub fn refuse_implicit(order: &Order) -> Res {
    let mut found = Ok(());
    for stream in order.all.iter().filter(|stream| stream.blocking()) {
        if let Some(capture) = even_invalid(stream) {
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

/// Refuses a call that would wait for a captured stream, or that no graph can hold.
pub fn refuse(stream: &Stream) -> Res {
    match even_invalid(stream) {
        Some(capture) => {
            capture.invalidate();
            Err(STREAM_CAPTURE_UNSUPPORTED)
        }
        None => Ok(()),
    }
}

impl Capture {
    fn has(&self, stream: &Stream) -> bool {
        self.members.lock().unwrap().contains_key(&stream.id)
    }

    /// Whether nothing has spoilt it.
    pub fn valid(&self) -> bool {
        !self.invalid.load(Ordering::Acquire)
    }

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
        let frontier = members
            .get_mut(&stream.id)
            .ok_or(STREAM_CAPTURE_INVALIDATED)?;
        let node = self.graph.add(work, frontier)?;
        *frontier = vec![node];
        Ok(())
    }

    /// What the stream's next node depends on.
    pub fn frontier(&self, stream: &Stream) -> Vec<CUgraphNode> {
        let members = self.members.lock().unwrap();
        members.get(&stream.id).cloned().unwrap_or_default()
    }

    /// Makes a stream wait for nodes; one that is in no capture joins this one.
    pub fn join(&self, stream: &Arc<Stream>, nodes: &[CUgraphNode]) -> Res {
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
        if !self.valid() {
            return Err(STREAM_CAPTURE_INVALIDATED);
        }
        let mut members = self.members.lock().unwrap();
        let frontier = members.entry(stream.id).or_default();
        for node in nodes {
            if !frontier.contains(node) {
                frontier.push(*node);
            }
        }
        Ok(())
    }

    /// Makes nodes of the capture's graph those that the stream's next one depends on, beside those
    /// that are already or in their place.
    pub fn follow(&self, stream: &Arc<Stream>, nodes: &[CUgraphNode], replace: bool) -> Res {
        if !nodes.iter().all(|node| self.graph.contains(*node)) {
            return Err(INVALID_VALUE);
        }
        if replace && let Some(frontier) = self.members.lock().unwrap().get_mut(&stream.id) {
            frontier.clear();
        }
        self.join(stream, nodes)
    }

    /// Ends the capture, asked for in a stream of it: no stream takes part any more. A capture that
    /// fails takes the graph along that it made.
    pub fn end(&self, stream: &Stream) -> Res {
        if self.mode != RELAXED && self.thread != thread::current().id() {
            return Err(STREAM_CAPTURE_WRONG_THREAD);
        }
        if self.origin.id != stream.id {
            self.invalidate();
            return Err(STREAM_CAPTURE_UNMATCHED);
        }
        ACTIVE
            .lock()
            .unwrap()
            .retain(|capture| capture.id != self.id);
        let members = std::mem::take(&mut *self.members.lock().unwrap());
        let reached: HashSet<CUgraphNode> = members
            .get(&self.origin.id)
            .map(|frontier| self.graph.ancestors(frontier))
            .unwrap_or_default();
        let joined = members
            .values()
            .flatten()
            .all(|node| reached.contains(node));
        let code = match (self.valid(), joined) {
            (true, true) => return Ok(()),
            (true, false) => STREAM_CAPTURE_UNJOINED,
            (false, _) => STREAM_CAPTURE_INVALIDATED,
        };
        if self.own_graph {
            graph::destroy(&self.graph);
        }
        Err(code)
    }
}

/// Begins a capture in a stream, into a graph after some of its nodes or into one of its own.
pub fn begin(origin: &Arc<Stream>, mode: u32, into: Option<(Arc<Graph>, Vec<CUgraphNode>)>) -> Res {
    if mode > RELAXED {
        return Err(INVALID_VALUE);
    }
    if origin.is_legacy() {
        return Err(STREAM_CAPTURE_UNSUPPORTED);
    }
    let mut active = ACTIVE.lock().unwrap();
    if active.iter().any(|capture| capture.has(origin)) {
        return Err(ILLEGAL_STATE);
    }
    let own_graph = into.is_none();
    let (graph, frontier) = into.unwrap_or_else(|| (Graph::new(), Vec::new()));
    active.push(Arc::new(Capture {
        id: handle::fresh() as u64,
        graph,
        own_graph,
        mode,
        origin: origin.clone(),
        thread: thread::current().id(),
        invalid: AtomicBool::new(false),
        members: Mutex::new(HashMap::from([(origin.id, frontier)])),
    }));
    Ok(())
}

/// A stream is gone: what was captured in it is not complete, and a capture ends with the stream
/// that it began in.
pub fn leave(stream: &Stream) {
    if let Some(capture) = even_invalid(stream) {
        capture.invalidate();
        capture.members.lock().unwrap().remove(&stream.id);
    }
    drop_origins(|origin| origin.id == stream.id);
}

/// Ends the captures that began in a context's streams.
pub fn drop_context(context: usize) {
    drop_origins(|origin| origin.context == context);
}

fn drop_origins(gone: impl Fn(&Stream) -> bool) {
    let ends = |capture: &mut Arc<Capture>| gone(&capture.origin);
    let ended: Vec<_> = ACTIVE.lock().unwrap().extract_if(.., ends).collect();
    for capture in ended.iter().filter(|capture| capture.own_graph) {
        graph::destroy(&capture.graph);
    }
}
