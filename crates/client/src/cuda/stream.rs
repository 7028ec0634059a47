//! Streams: their special values, waiting for them, and what is known of captures.

use super::context;
use super::runtime::{Cx, ReplyBytes, decode, enter, enter_local, guard, put, put_opt};
use super::{handles, settled, shadow};
use busbar_abi::cuda::*;
use busbar_wire::codec::Request;
use busbar_wire::generated::cuda::{self as msg, Kind};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

/// `CU_STREAM_LEGACY` and `CU_STREAM_PER_THREAD`, as handles.
const LEGACY: u64 = 1;
const PER_THREAD: u64 = 2;

/// Captures in progress in this process. While there are none, every question about captures has
/// the same answer, and frameworks ask it thousands of times a second.
static CAPTURES: AtomicU32 = AtomicU32::new(0);

/// Whether something has been refused during the captures in progress: one of them may be void.
static DOUBT: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// The handles of the calling thread's own default streams, by context. Another thread may end
    /// a context, and its id be another's then.
    static OWN: RefCell<HashMap<u32, u64>> = RefCell::new(HashMap::new());
    static CAPTURE_MODE: Cell<u32> = const { Cell::new(0) };
    static NODES: RefCell<(Vec<CUgraphNode>, Vec<CUgraphEdgeData>)> =
        const { RefCell::new((Vec::new(), Vec::new())) };
}

/// The id of a stream handle; 0 is the legacy default stream.
#[inline]
pub fn id(cx: Cx, raw: CUstream, per_thread: bool) -> Result<u32, CUresult> {
    match raw as u64 {
        0 if per_thread => own(cx),
        0 | LEGACY => Ok(0),
        PER_THREAD => own(cx),
        raw => handles::id(Kind::Stream, raw).ok_or(CUDA_ERROR_INVALID_HANDLE),
    }
}

/// The calling thread's own default stream in the current context: an ordinary blocking stream,
/// made when it is first needed.
#[cold]
fn own(cx: Cx) -> Result<u32, CUresult> {
    let scope = cx.need_context()?;
    if let Some(raw) = OWN.with(|o| o.borrow().get(&scope).copied())
        && let Some(id) = handles::id(Kind::Stream, raw)
        && handles::context(Kind::Stream, id) == scope
    {
        return Ok(id);
    }
    let id = cx.create(Kind::Stream);
    settled::not_alone(cx)?;
    cx.send(&msg::CuStreamCreate {
        ph_stream: id,
        flags: 0,
    })?;
    OWN.with(|o| o.borrow_mut().insert(scope, cx.raw(Kind::Stream, id)));
    Ok(id)
}

/// A context is gone, and every stream in it.
pub fn forget_context(id: u32) {
    let _ = OWN.try_with(|o| o.borrow_mut().remove(&id));
}

/// Whether any stream of the process may be capturing.
#[inline]
pub fn capturing() -> bool {
    CAPTURES.load(Ordering::Relaxed) > 0
}

/// A call has been refused for what it means to a capture. Says whether it has: the end of that
/// capture tells, so nothing else must.
pub(super) fn spoils(error: CUresult) -> bool {
    let of_capture = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED..=CUDA_ERROR_CAPTURED_EVENT;
    let hit = of_capture.contains(&error);
    if hit && capturing() {
        DOUBT.store(true, Ordering::Release);
    }
    hit
}

/// Work is about to be queued: not into a capture that is void.
#[inline]
pub(super) fn not_void(cx: Cx, stream: u32) -> Result<(), CUresult> {
    if DOUBT.load(Ordering::Relaxed) {
        captures(cx, stream)?;
    }
    Ok(())
}

/// Whether this stream captures. An invalidated capture is an error.
pub(super) fn captures(cx: Cx, stream: u32) -> Result<bool, CUresult> {
    let Some(a) = ask(cx, stream, 0)? else {
        return Ok(false);
    };
    match decode::<msg::CaptureInfoReply<'_>>(&a)?.status as CUstreamCaptureStatus {
        CU_STREAM_CAPTURE_STATUS_NONE => Ok(false),
        CU_STREAM_CAPTURE_STATUS_ACTIVE => Ok(true),
        _ => Err(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED),
    }
}

/// A call is about to wait for a stream. If that captures, CUDA says what is wrong with that, and
/// the capture is void.
#[cold]
pub(super) fn refuse_wait(cx: Cx, stream: u32) -> Result<(), CUresult> {
    cx.call(&msg::CuStreamSynchronize { h_stream: stream })
        .map(drop)
}

const NON_BLOCKING: u32 = 1;

/// Makes a stream, once CUDA's own objections are met.
fn create<'a, R: Request<'a>>(
    out: *mut CUstream,
    flags: u32,
    message: impl Fn(u32) -> R,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        if out.is_null() || flags & !NON_BLOCKING != 0 {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let id = cx.create(Kind::Stream);
        settled::not_alone(cx)
            .and_then(|()| cx.send(&message(id)))
            .inspect_err(|_| cx.destroy(Kind::Stream, id))?;
        // SAFETY: checked for null above; the program's pointer.
        unsafe { put(out, cx.raw(Kind::Stream, id) as CUstream) }
    })
}

pub(super) unsafe fn cuStreamCreate(out: *mut CUstream, flags: u32) -> CUresult {
    create(out, flags, |ph_stream| msg::CuStreamCreate {
        ph_stream,
        flags,
    })
}

pub(super) unsafe fn cuStreamCreateWithPriority(
    out: *mut CUstream,
    flags: u32,
    priority: i32,
) -> CUresult {
    create(out, flags, |ph_stream| msg::CuStreamCreateWithPriority {
        ph_stream,
        flags,
        priority,
    })
}

pub(super) unsafe fn cuStreamSynchronize(stream: CUstream, per_thread: bool) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let h_stream = id(cx, stream, per_thread)?;
        shadow::about_to_wait(cx)?;
        let (since, mark) = (cx.queued(), shadow::mark());
        if !cx.idle(h_stream) {
            cx.call(&msg::CuStreamSynchronize { h_stream })?;
            cx.now_idle(h_stream, since);
        }
        shadow::waited(cx, cx.scope, Some(h_stream), mark);
        Ok(())
    })
}

pub(super) unsafe fn cuStreamQuery(stream: CUstream, per_thread: bool) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let h_stream = id(cx, stream, per_thread)?;
        if cx.idle(h_stream) {
            return Ok(());
        }
        shadow::about_to_wait(cx)?;
        cx.call(&msg::CuStreamQuery { h_stream }).map(drop)
    })
}

/// The context that a stream is of: the default stream, of the current one.
fn context_of(cx: Cx, stream: u32) -> Result<u32, CUresult> {
    match stream {
        0 => cx.need_context(),
        id => Ok(handles::context(Kind::Stream, id)),
    }
}

pub(super) unsafe fn cuStreamGetCtx(
    stream: CUstream,
    pctx: *mut CUcontext,
    per_thread: bool,
) -> CUresult {
    guard(|| {
        let cx = enter_local()?;
        let ctx = context_of(cx, id(cx, stream, per_thread)?)?;
        // SAFETY: the program's pointer.
        unsafe { put(pctx, handles::raw(Kind::Context, ctx) as CUcontext) }
    })
}

pub(super) unsafe fn cuStreamGetCtx_v2(
    stream: CUstream,
    pctx: *mut CUcontext,
    green: *mut CUgreenCtx,
    per_thread: bool,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let of = match id(cx, stream, per_thread)? {
            // No program has a green context that has not made one.
            s if s != 0 && !handles::at_most(Kind::GreenContext, 0) => {
                super::green::of_stream(cx, s)?
            }
            _ => std::ptr::null_mut(),
        };
        // SAFETY: the program's pointer.
        unsafe { put_opt(green, of) };
        // SAFETY: passed on to the caller.
        match unsafe { cuStreamGetCtx(stream, pctx, per_thread) } {
            CUDA_SUCCESS => Ok(()),
            e => Err(e),
        }
    })
}

pub(super) unsafe fn cuStreamGetDevice(
    stream: CUstream,
    device: *mut CUdevice,
    per_thread: bool,
) -> CUresult {
    guard(|| {
        let cx = enter_local()?;
        let ctx = context_of(cx, id(cx, stream, per_thread)?)?;
        let i = context::info(ctx).ok_or(CUDA_ERROR_INVALID_CONTEXT)?;
        // SAFETY: the program's pointer.
        unsafe { put(device, i.device) }
    })
}

pub(super) unsafe fn cuThreadExchangeStreamCaptureMode(mode: *mut CUstreamCaptureMode) -> CUresult {
    guard(|| {
        enter_local()?;
        if mode.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        // SAFETY: checked for null; the program's pointer.
        let wanted = unsafe { mode.read() };
        let old = CAPTURE_MODE.with(|m| m.replace(wanted));
        // SAFETY: as above.
        unsafe { put(mode, old as CUstreamCaptureMode) }
    })
}

pub(super) unsafe fn cuStreamBeginCapture(stream: CUstream, per_thread: bool) -> CUresult {
    // SAFETY: passed on to the caller.
    unsafe { cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL as _, per_thread) }
}

/// Begins a capture, whose mode the worker need not know.
fn begin(
    stream: u32,
    mode: CUstreamCaptureMode,
    begun: impl FnOnce() -> Result<ReplyBytes, CUresult>,
) -> Result<(), CUresult> {
    if mode > CU_STREAM_CAPTURE_MODE_RELAXED {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    // Counted before it begins: another thread must not miss it.
    CAPTURES.fetch_add(1, Ordering::AcqRel);
    begun().inspect_err(|_| ended_one())?;
    // No stream counts as idle now: to wait for this one is an error.
    lock_begun().insert(stream, (mode, std::thread::current().id()));
    Ok(())
}

/// A capture's mode, and the thread that began it.
type Begun = (CUstreamCaptureMode, ThreadId);

fn lock_begun() -> MutexGuard<'static, HashMap<u32, Begun>> {
    static BEGUN: LazyLock<Mutex<HashMap<u32, Begun>>> = LazyLock::new(Mutex::default);
    BEGUN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A call that could disturb a capture, as an allocation may, is refused and the capture void,
/// unless the capture or the calling thread asked for less care.
#[inline]
pub(super) fn must_be_safe(cx: Cx) -> Result<(), CUresult> {
    if capturing() { disturb(cx) } else { Ok(()) }
}

#[cold]
fn disturb(cx: Cx) -> Result<(), CUresult> {
    let (mine, me) = (CAPTURE_MODE.with(Cell::get), std::thread::current().id());
    if mine == CU_STREAM_CAPTURE_MODE_RELAXED {
        return Ok(());
    }
    const GLOBAL: CUstreamCaptureMode = CU_STREAM_CAPTURE_MODE_GLOBAL;
    let minds = |(mode, thread): &Begun| {
        mine == GLOBAL && *mode == GLOBAL
            || *mode != CU_STREAM_CAPTURE_MODE_RELAXED && *thread == me
    };
    let begun = lock_begun();
    let hit: Vec<u32> = begun
        .iter()
        .filter(|(_, b)| minds(b))
        .map(|(s, _)| *s)
        .collect();
    drop(begun);
    for stream in &hit {
        let scope = match stream {
            0 => cx.scope,
            s => handles::context(Kind::Stream, *s),
        };
        // That voids the capture; what is wrong is said below.
        let _ = refuse_wait(Cx { scope, ..cx }, *stream);
    }
    if hit.is_empty() {
        Ok(())
    } else {
        Err(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
    }
}

pub(super) unsafe fn cuStreamBeginCapture_v2(
    stream: CUstream,
    mode: CUstreamCaptureMode,
    per_thread: bool,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let h_stream = id(cx, stream, per_thread)?;
        begin(h_stream, mode, || {
            cx.call(&msg::CuStreamBeginCaptureV2 {
                h_stream,
                mode: mode as _,
            })
        })
    })
}

pub(super) unsafe fn cuStreamBeginCaptureToGraph(
    stream: CUstream,
    graph: CUgraph,
    nodes: *const CUgraphNode,
    data: *const CUgraphEdgeData,
    n: usize,
    mode: CUstreamCaptureMode,
    per_thread: bool,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let stream = id(cx, stream, per_thread)?;
        let graph = cx.handle(Kind::Graph, graph as u64)?;
        // SAFETY: the program's arrays.
        let (after, edges) = unsafe { super::graph::dependencies(nodes, data, n)? };
        begin(stream, mode, || {
            cx.call(&msg::CaptureToGraph {
                stream,
                graph,
                after,
                edges: &edges,
                mode: mode as _,
            })
        })
    })
}

pub(super) unsafe fn cuStreamUpdateCaptureDependencies(
    stream: CUstream,
    nodes: *mut CUgraphNode,
    n: usize,
    flags: u32,
    per_thread: bool,
) -> CUresult {
    let data = std::ptr::null();
    // SAFETY: passed on to the caller.
    unsafe { cuStreamUpdateCaptureDependencies_v2(stream, nodes, data, n, flags, per_thread) }
}

pub(super) unsafe fn cuStreamUpdateCaptureDependencies_v2(
    stream: CUstream,
    nodes: *mut CUgraphNode,
    data: *const CUgraphEdgeData,
    n: usize,
    flags: u32,
    per_thread: bool,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let stream = id(cx, stream, per_thread)?;
        // SAFETY: the program's arrays.
        let (after, edges) = unsafe { super::graph::dependencies(nodes, data, n)? };
        cx.call(&msg::CaptureUpdate {
            stream,
            after,
            edges: &edges,
            flags,
        })
        .map(drop)
    })
}

pub(super) unsafe fn cuStreamEndCapture(
    stream: CUstream,
    graph: *mut CUgraph,
    per_thread: bool,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let stream = id(cx, stream, per_thread)?;
        if graph.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        // SAFETY: not null; the program's pointer.
        unsafe { put(graph, std::ptr::null_mut())? };
        let here = std::thread::current().id();
        const RELAXED: CUstreamCaptureMode = CU_STREAM_CAPTURE_MODE_RELAXED;
        if matches!(lock_begun().get(&stream), Some((m, t)) if *m != RELAXED && *t != here) {
            return Err(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
        }
        let mine = cx.create(Kind::Graph);
        let m = msg::CaptureEnd {
            stream,
            graph: mine,
        };
        // A failure of an earlier call is for another to tell: this answer must not be lost.
        let (rc, body) = cx.call_any(&m)?;
        if rc != CUDA_SUCCESS {
            cx.destroy(Kind::Graph, mine);
            // Any other leaves the stream as it was, mostly not capturing at all.
            let over = matches!(
                rc,
                CUDA_ERROR_STREAM_CAPTURE_INVALIDATED | CUDA_ERROR_STREAM_CAPTURE_UNJOINED
            );
            if over && lock_begun().remove(&stream).is_some() {
                ended_one();
            }
            return Err(rc);
        }
        if lock_begun().remove(&stream).is_some() {
            ended_one();
        }
        let actual = decode::<msg::CaptureEndReply>(&body)?.actual;
        if actual != mine {
            cx.destroy(Kind::Graph, mine);
            handles::adopt(Kind::Graph, actual, cx.scope)?;
        }
        // SAFETY: as above.
        unsafe { put(graph, cx.raw(Kind::Graph, actual) as CUgraph) }
    })
}

fn ended_one() {
    let less = |n: u32| n.checked_sub(1);
    if CAPTURES.fetch_update(Ordering::AcqRel, Ordering::Relaxed, less) == Ok(1) {
        DOUBT.store(false, Ordering::Release);
    }
}

/// Asks the worker; `None` when nothing captures.
fn ask(cx: Cx, stream: u32, detail: u32) -> Result<Option<ReplyBytes>, CUresult> {
    if !capturing() {
        return Ok(None);
    }
    cx.call(&msg::CaptureInfo { stream, detail }).map(Some)
}

pub(super) unsafe fn cuStreamIsCapturing(
    stream: CUstream,
    status: *mut CUstreamCaptureStatus,
    per_thread: bool,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let sid = id(cx, stream, per_thread)?;
        let answer = ask(cx, sid, 0)?;
        let v = match &answer {
            None => 0,
            Some(a) => decode::<msg::CaptureInfoReply<'_>>(a)?.status,
        };
        // SAFETY: the program's pointer.
        unsafe { put(status, v as CUstreamCaptureStatus) }
    })
}

struct Out {
    status: *mut CUstreamCaptureStatus,
    id: *mut u64,
    graph: *mut CUgraph,
    nodes: *mut *const CUgraphNode,
    edges: *mut *const CUgraphEdgeData,
    count: *mut usize,
}

fn capture_info(stream: CUstream, per_thread: bool, out: &Out) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let sid = id(cx, stream, per_thread)?;
        if out.status.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let wants_nodes = !out.nodes.is_null() || !out.count.is_null();
        let detail = u32::from(!out.graph.is_null()) | u32::from(wants_nodes) << 1;
        let answer = ask(cx, sid, detail)?;
        let Some(a) = &answer else {
            // SAFETY: checked for null above; the program's pointer.
            return unsafe { put(out.status, CU_STREAM_CAPTURE_STATUS_NONE as _) };
        };
        let r = decode::<msg::CaptureInfoReply<'_>>(a)?;
        let scope = if sid == 0 {
            cx.scope
        } else {
            handles::context(Kind::Stream, sid)
        };
        let handle = |n: &u32| handles::adopt(Kind::GraphNode, *n, scope).map(|h| h as CUgraphNode);
        let nodes = r.nodes.iter().map(handle).collect::<Result<Vec<_>, _>>()?;
        let count = nodes.len();
        let edges = super::graph::annotations(r.edges, count)?;
        // The arrays belong to the driver, and are good until the thread's next such call.
        let (nodes, edges) = NODES.with(|n| {
            *n.borrow_mut() = (nodes, edges);
            let n = n.borrow();
            (
                n.0.as_ptr(),
                if n.1.is_empty() {
                    std::ptr::null()
                } else {
                    n.1.as_ptr()
                },
            )
        });
        // SAFETY: the program's pointers, of which only the first must be there.
        unsafe {
            put(out.status, r.status as CUstreamCaptureStatus)?;
            put_opt(out.id, r.id);
            if r.graph != 0 {
                let graph = handles::adopt(Kind::Graph, r.graph, scope)?;
                put_opt(out.graph, graph as CUgraph);
            }
            put_opt(out.nodes, nodes);
            put_opt(out.edges, edges);
            put_opt(out.count, count);
        }
        Ok(())
    })
}

pub(super) unsafe fn cuStreamGetCaptureInfo(
    stream: CUstream,
    status: *mut CUstreamCaptureStatus,
    id: *mut u64,
    per_thread: bool,
) -> CUresult {
    let out = Out {
        status,
        id,
        graph: std::ptr::null_mut(),
        nodes: std::ptr::null_mut(),
        edges: std::ptr::null_mut(),
        count: std::ptr::null_mut(),
    };
    capture_info(stream, per_thread, &out)
}

pub(super) unsafe fn cuStreamGetCaptureInfo_v2(
    stream: CUstream,
    status: *mut CUstreamCaptureStatus,
    id: *mut u64,
    graph: *mut CUgraph,
    nodes: *mut *const CUgraphNode,
    count: *mut usize,
    per_thread: bool,
) -> CUresult {
    let out = Out {
        status,
        id,
        graph,
        nodes,
        edges: std::ptr::null_mut(),
        count,
    };
    capture_info(stream, per_thread, &out)
}

pub(super) unsafe fn cuStreamGetCaptureInfo_v3(
    stream: CUstream,
    status: *mut CUstreamCaptureStatus,
    id: *mut u64,
    graph: *mut CUgraph,
    nodes: *mut *const CUgraphNode,
    edges: *mut *const CUgraphEdgeData,
    count: *mut usize,
    per_thread: bool,
) -> CUresult {
    capture_info(
        stream,
        per_thread,
        &Out {
            status,
            id,
            graph,
            nodes,
            edges,
            count,
        },
    )
}

pub(super) unsafe fn cuStreamAddCallback(
    stream: CUstream,
    callback: CUstreamCallback,
    data: *mut c_void,
    flags: u32,
    per_thread: bool,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let Some(f) = callback else {
            return Err(CUDA_ERROR_INVALID_VALUE);
        };
        if flags != 0 {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let stream_id = id(cx, stream, per_thread)?;
        super::callback::queue_stream_callback(cx, stream_id, stream, f, data)
    })
}
