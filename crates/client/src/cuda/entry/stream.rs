//! Streams: making them, waiting for them, capturing on them.

use super::green;
use super::prelude::*;
use crate::cuda::call::thread;
use crate::cuda::engine::activity::{self, Resource};
use crate::cuda::engine::{across, callback, graph, settled, stream};
use crate::cuda::life::{enter_in_functions, guard};
use crate::marks;
use busbar_wire::capture::{WANTS_GRAPH, WANTS_NODES};
use busbar_wire::codec::Request;

const NON_BLOCKING: u32 = 1;

/// Makes a stream, once CUDA's own objections are met.
fn create<'a, R: Request<'a>>(cx: Cx, flags: u32, message: impl Fn(u32) -> R) -> Result<u32> {
    refuse_if(flags & !NON_BLOCKING != 0, CUDA_ERROR_INVALID_VALUE)?;
    let id = cx.create(Kind::Stream);
    // A stream takes memory of the device: who has a part of that is told at once if there is none.
    let make = |m: R| match cx.client.session.welcome.memory {
        0 => cx.send(&m),
        _ => cx.call(&m).map(drop),
    };
    settled::not_alone(cx)
        .and_then(|()| make(message(id)))
        .inspect_err(|_| cx.destroy(Kind::Stream, id))?;
    if marks::is_on() {
        let context = cx.raw(Kind::Context, cx.scope);
        let raw = cx.raw(Kind::Stream, id);
        activity::resource(Resource::StreamCreated, context, raw);
    }
    Ok(id)
}

/// Begins a capture, whose mode the worker need not know.
fn begin<'a, R: Request<'a>>(
    cx: Cx,
    stream: u32,
    mode: CUstreamCaptureMode,
    message: &R,
) -> Result<()> {
    if mode > CU_STREAM_CAPTURE_MODE_RELAXED {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    cx.state().captures.begin(stream, mode, || cx.call(message))
}

pub fn cuStreamCreate(cx: Cx, flags: u32) -> Result<u32> {
    create(cx, flags, |ph_stream| msg::CuStreamCreate {
        ph_stream,
        flags,
    })
}

pub fn cuStreamCreateWithPriority(cx: Cx, flags: u32, priority: i32) -> Result<u32> {
    create(cx, flags, |ph_stream| msg::CuStreamCreateWithPriority {
        ph_stream,
        flags,
        priority,
    })
}

pub fn cuStreamSynchronize(cx: Cx, h_stream: u32) -> Result<()> {
    cx.about_to_wait()?;
    cx.synchronize(h_stream)
}

pub fn cuStreamQuery(cx: Cx, h_stream: u32) -> Result<()> {
    if cx.idle(h_stream) {
        cx.hears();
        return Ok(());
    }
    cx.about_to_wait()?;
    let mark = cx.state().shadows.mark();
    cx.call(&msg::CuStreamQuery { h_stream })?;
    cx.waited(cx.scope, Some(h_stream), mark);
    Ok(())
}

pub fn cuStreamGetCtx(cx: Cx, stream: u32) -> Result<CUcontext> {
    Ok(cx.raw(Kind::Context, stream::context_of(cx, stream)?) as CUcontext)
}

pub unsafe fn cuStreamGetCtx_v2(
    cx: Cx,
    stream: u32,
    context: *mut CUcontext,
    green: *mut CUgreenCtx,
) -> Result<()> {
    // No program has a green context that has not made one.
    let of = match stream != 0 && !cx.state().handles.at_most(Kind::GreenContext, 0) {
        true => green::of_stream(cx, stream)?,
        false => std::ptr::null_mut(),
    };
    let in_context = cuStreamGetCtx(cx, stream)?;
    // SAFETY: the program's pointers.
    unsafe {
        put_opt(green, of);
        put_opt(context, in_context);
    }
    Ok(())
}

pub fn cuStreamGetDevice(cx: Cx, stream: u32) -> Result<CUdevice> {
    let info = cx.state().contexts.info(stream::context_of(cx, stream)?);
    Ok(info.ok_or(CUDA_ERROR_INVALID_CONTEXT)?.device)
}

pub unsafe fn cuThreadExchangeStreamCaptureMode(
    _cx: Cx,
    mode: *mut CUstreamCaptureMode,
) -> Result<()> {
    refuse_if(mode.is_null(), CUDA_ERROR_INVALID_VALUE)?;
    // SAFETY: checked for null; the program's pointer.
    let wanted = unsafe { mode.read() };
    refuse_if(
        wanted > CU_STREAM_CAPTURE_MODE_RELAXED,
        CUDA_ERROR_INVALID_VALUE,
    )?;
    let old = thread::set_capture_mode(wanted);
    // SAFETY: as above.
    unsafe { put(mode, old as CUstreamCaptureMode) }
}

pub fn cuStreamBeginCapture_v2(cx: Cx, h_stream: u32, mode: CUstreamCaptureMode) -> Result<()> {
    let m = msg::CuStreamBeginCaptureV2 {
        h_stream,
        mode: mode as _,
    };
    begin(cx, h_stream, mode, &m)
}

pub unsafe fn cuStreamBeginCaptureToGraph(
    cx: Cx,
    stream: u32,
    graph: u32,
    nodes: *const CUgraphNode,
    data: *const CUgraphEdgeData,
    n: usize,
    mode: CUstreamCaptureMode,
) -> Result<()> {
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
}

pub unsafe fn cuStreamUpdateCaptureDependencies_v2(
    cx: Cx,
    stream: u32,
    nodes: *mut CUgraphNode,
    data: *const CUgraphEdgeData,
    n: usize,
    flags: u32,
) -> Result<()> {
    // SAFETY: the program's arrays.
    let (after, edges) = unsafe { graph::dependencies(cx, nodes, data, n)? };
    cx.call(&msg::CaptureUpdate {
        stream,
        after,
        edges: &edges,
        flags,
    })
    .map(drop)
}

pub unsafe fn cuStreamEndCapture(
    stream: CUstream,
    graph: *mut CUgraph,
    per_thread: bool,
) -> CUresult {
    guard(|| {
        let cx = enter_in_functions()?;
        let stream = cx.stream(stream, per_thread)?;
        // SAFETY: the program's pointer, which may be null: whoever captured to a graph has it.
        unsafe { put_opt(graph, std::ptr::null_mut()) };
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
        unsafe { put_opt(graph, cx.raw(Kind::Graph, actual) as CUgraph) };
        Ok(())
    })
}

pub fn cuStreamIsCapturing(cx: Cx, sid: u32) -> Result<CUstreamCaptureStatus> {
    cx.need_context()?;
    Ok(stream::capturing(cx, sid, false)?.status)
}

pub unsafe fn cuStreamGetCaptureInfo_v3(
    cx: Cx,
    stream: u32,
    status: *mut CUstreamCaptureStatus,
    id: *mut u64,
    graph: *mut CUgraph,
    nodes_out: *mut *const CUgraphNode,
    edges_out: *mut *const CUgraphEdgeData,
    count_out: *mut usize,
) -> Result<()> {
    refuse_if(status.is_null(), CUDA_ERROR_INVALID_VALUE)?;
    cx.need_context()?;
    let scope = stream::context_of(cx, stream).unwrap_or(0);
    let there = cx.in_context(scope);
    let wants_nodes = !nodes_out.is_null() || !count_out.is_null();
    let (says, lists) = if wants_nodes && cx.state().captures.any() {
        let wanted = u32::from(!graph.is_null()) * WANTS_GRAPH;
        let answer = stream::ask(cx, stream, wanted | WANTS_NODES)?;
        let r = decode::<msg::CaptureInfoReply<'_>>(&answer)?;
        let handle = |n: &u32| there.adopt(Kind::GraphNode, *n);
        let nodes = r.nodes.iter().map(handle).collect::<Result<Vec<_>, _>>()?;
        let edges = graph::annotations(r.edges, nodes.len())?;
        (stream::says(&r), Some((nodes, edges)))
    } else {
        (stream::capturing(cx, stream, !graph.is_null())?, None)
    };
    // SAFETY: the program's pointers, of which only the first must be there.
    unsafe {
        put(status, says.status)?;
        if says.status == CU_STREAM_CAPTURE_STATUS_NONE {
            return Ok(());
        }
        put_opt(id, says.id);
        if says.graph != 0 {
            put_opt(graph, there.adopt(Kind::Graph, says.graph)? as CUgraph);
        }
        if let Some((nodes, edges)) = lists {
            let count = nodes.len();
            let (nodes, edges) = cx.state().captures.tell(stream, nodes, edges);
            put_opt(nodes_out, nodes);
            put_opt(edges_out, edges);
            put_opt(count_out, count);
        }
    }
    Ok(())
}

pub unsafe fn cuStreamAddCallback(
    cx: Cx,
    stream: CUstream,
    callback: CUstreamCallback,
    data: *mut c_void,
    flags: u32,
    per_thread: bool,
) -> Result<()> {
    let Some(f) = callback else {
        return Err(CUDA_ERROR_INVALID_VALUE);
    };
    refuse_if(flags != 0, CUDA_ERROR_INVALID_VALUE)?;
    let stream_id = cx.stream(stream, per_thread)?;
    callback::queue_stream_callback(cx.at_stream(stream_id), stream_id, stream, f, data)
}

pub unsafe fn cuStreamWaitEvent(
    stream: CUstream,
    event: CUevent,
    flags: u32,
    per_thread: bool,
) -> CUresult {
    guard(|| {
        let cx = enter_in_functions()?;
        let h_stream = cx.stream(stream, per_thread)?;
        let cx = cx.at_stream(h_stream);
        cx.need_context()?;
        let raw = event as u64;
        if let Some(other) = cx.others(Kind::Event, raw) {
            return across::wait(cx, h_stream, other);
        }
        let h_event = cx.handle(Kind::Event, raw)?;
        let wait = msg::CuStreamWaitEvent {
            h_stream,
            h_event,
            flags,
        };
        if cx.state().events.is_abroad(h_event) {
            // Another process may record it anew as soon as this has returned.
            cx.call(&wait)?;
        } else {
            cx.send(&wait)?;
        }
        cx.state().captures.joins(h_stream);
        Ok(())
    })
}
