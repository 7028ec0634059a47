//! Streams: making them, waiting for them, capturing on them.

use super::green;
use crate::cuda::call::{Cx, decode, put, put_opt, thread};
use crate::cuda::engine::{callback, graph, settled, stream};
use crate::cuda::life::{enter, enter_local, guard};
use busbar_abi::cuda::*;
use busbar_wire::codec::Request;
use busbar_wire::generated::cuda::{self as msg, Kind};
use std::ffi::c_void;

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

/// Begins a capture, whose mode the worker need not know.
fn begin<'a, R: Request<'a>>(
    cx: Cx,
    stream: u32,
    mode: CUstreamCaptureMode,
    message: &R,
) -> Result<(), CUresult> {
    if mode > CU_STREAM_CAPTURE_MODE_RELAXED {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    cx.state().captures.begin(stream, mode, || cx.call(message))
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
        let sid = cx.stream(stream, per_thread)?;
        if out.status.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let wants_nodes = !out.nodes.is_null() || !out.count.is_null();
        let detail = u32::from(!out.graph.is_null()) | u32::from(wants_nodes) << 1;
        let answer = stream::ask(cx, sid, detail)?;
        let Some(a) = &answer else {
            // SAFETY: checked for null above; the program's pointer.
            return unsafe { put(out.status, CU_STREAM_CAPTURE_STATUS_NONE as _) };
        };
        let r = decode::<msg::CaptureInfoReply<'_>>(a)?;
        let scope = stream::context_of(cx, sid).unwrap_or(0);
        let there = cx.in_context(scope);
        let handle = |n: &u32| there.adopt(Kind::GraphNode, *n).map(|h| h as CUgraphNode);
        let nodes = r.nodes.iter().map(handle).collect::<Result<Vec<_>, _>>()?;
        let count = nodes.len();
        let edges = graph::annotations(r.edges, count)?;
        // The arrays belong to the driver, and are good until the thread's next such call.
        let (nodes, edges) = thread::tell(nodes, edges);
        // SAFETY: the program's pointers, of which only the first must be there.
        unsafe {
            put(out.status, r.status as CUstreamCaptureStatus)?;
            put_opt(out.id, r.id);
            if r.graph != 0 {
                put_opt(out.graph, there.adopt(Kind::Graph, r.graph)? as CUgraph);
            }
            put_opt(out.nodes, nodes);
            put_opt(out.edges, edges);
            put_opt(out.count, count);
        }
        Ok(())
    })
}

pub unsafe fn cuStreamCreate(out: *mut CUstream, flags: u32) -> CUresult {
    create(out, flags, |ph_stream| msg::CuStreamCreate {
        ph_stream,
        flags,
    })
}

pub unsafe fn cuStreamCreateWithPriority(
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

pub unsafe fn cuStreamSynchronize(stream: CUstream, per_thread: bool) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let h_stream = cx.stream(stream, per_thread)?;
        cx.about_to_wait()?;
        cx.synchronize(h_stream)
    })
}

pub unsafe fn cuStreamQuery(stream: CUstream, per_thread: bool) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let h_stream = cx.stream(stream, per_thread)?;
        if cx.idle(h_stream) {
            return Ok(());
        }
        cx.about_to_wait()?;
        cx.call(&msg::CuStreamQuery { h_stream }).map(drop)
    })
}

pub unsafe fn cuStreamGetCtx(stream: CUstream, pctx: *mut CUcontext, per_thread: bool) -> CUresult {
    guard(|| {
        let cx = enter_local()?;
        let ctx = stream::context_of(cx, cx.stream(stream, per_thread)?)?;
        // SAFETY: the program's pointer.
        unsafe { put(pctx, cx.raw(Kind::Context, ctx) as CUcontext) }
    })
}

pub unsafe fn cuStreamGetCtx_v2(
    stream: CUstream,
    pctx: *mut CUcontext,
    green: *mut CUgreenCtx,
    per_thread: bool,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let of = match cx.stream(stream, per_thread)? {
            // No program has a green context that has not made one.
            s if s != 0 && !cx.state().handles.at_most(Kind::GreenContext, 0) => {
                green::of_stream(cx, s)?
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

pub unsafe fn cuStreamGetDevice(
    stream: CUstream,
    device: *mut CUdevice,
    per_thread: bool,
) -> CUresult {
    guard(|| {
        let cx = enter_local()?;
        let ctx = stream::context_of(cx, cx.stream(stream, per_thread)?)?;
        let i = cx
            .state()
            .contexts
            .info(ctx)
            .ok_or(CUDA_ERROR_INVALID_CONTEXT)?;
        // SAFETY: the program's pointer.
        unsafe { put(device, i.device) }
    })
}

pub unsafe fn cuThreadExchangeStreamCaptureMode(mode: *mut CUstreamCaptureMode) -> CUresult {
    guard(|| {
        enter_local()?;
        if mode.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        // SAFETY: checked for null; the program's pointer.
        let wanted = unsafe { mode.read() };
        let old = thread::set_capture_mode(wanted);
        // SAFETY: as above.
        unsafe { put(mode, old as CUstreamCaptureMode) }
    })
}

pub unsafe fn cuStreamBeginCapture_v2(
    stream: CUstream,
    mode: CUstreamCaptureMode,
    per_thread: bool,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let h_stream = cx.stream(stream, per_thread)?;
        let m = msg::CuStreamBeginCaptureV2 {
            h_stream,
            mode: mode as _,
        };
        begin(cx, h_stream, mode, &m)
    })
}

pub unsafe fn cuStreamBeginCaptureToGraph(
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
        let stream = cx.stream(stream, per_thread)?;
        let graph = cx.handle(Kind::Graph, graph as u64)?;
        // SAFETY: the program's arrays.
        let (after, edges) = unsafe { graph::dependencies(cx, nodes, data, n)? };
        let m = msg::CaptureToGraph {
            stream,
            graph,
            after,
            edges: &edges,
            mode: mode as _,
        };
        begin(cx, stream, mode, &m)
    })
}

pub unsafe fn cuStreamUpdateCaptureDependencies_v2(
    stream: CUstream,
    nodes: *mut CUgraphNode,
    data: *const CUgraphEdgeData,
    n: usize,
    flags: u32,
    per_thread: bool,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let stream = cx.stream(stream, per_thread)?;
        // SAFETY: the program's arrays.
        let (after, edges) = unsafe { graph::dependencies(cx, nodes, data, n)? };
        cx.call(&msg::CaptureUpdate {
            stream,
            after,
            edges: &edges,
            flags,
        })
        .map(drop)
    })
}

pub unsafe fn cuStreamEndCapture(
    stream: CUstream,
    graph: *mut CUgraph,
    per_thread: bool,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let stream = cx.stream(stream, per_thread)?;
        if graph.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        // SAFETY: not null; the program's pointer.
        unsafe { put(graph, std::ptr::null_mut())? };
        if cx.state().captures.is_anothers(stream) {
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
            if over {
                cx.state().captures.end(stream);
            }
            return Err(rc);
        }
        cx.state().captures.end(stream);
        let actual = decode::<msg::CaptureEndReply>(&body)?.actual;
        if actual != mine {
            cx.destroy(Kind::Graph, mine);
            cx.adopt(Kind::Graph, actual)?;
        }
        // SAFETY: as above.
        unsafe { put(graph, cx.raw(Kind::Graph, actual) as CUgraph) }
    })
}

pub unsafe fn cuStreamIsCapturing(
    stream: CUstream,
    status: *mut CUstreamCaptureStatus,
    per_thread: bool,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let sid = cx.stream(stream, per_thread)?;
        let answer = stream::ask(cx, sid, 0)?;
        let v = match &answer {
            None => 0,
            Some(a) => decode::<msg::CaptureInfoReply<'_>>(a)?.status,
        };
        // SAFETY: the program's pointer.
        unsafe { put(status, v as CUstreamCaptureStatus) }
    })
}

pub unsafe fn cuStreamGetCaptureInfo_v3(
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

pub unsafe fn cuStreamAddCallback(
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
        let stream_id = cx.stream(stream, per_thread)?;
        callback::queue_stream_callback(cx, stream_id, stream, f, data)
    })
}
