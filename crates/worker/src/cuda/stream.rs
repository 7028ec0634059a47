//! Streams and captures.

use super::done::{Job, reply};
use super::driver::{RELAXED, is_capturing};
use super::graph::{edge_list, node_list, or_null};
use super::prelude::*;
use crate::answer::Behind;
use busbar_wire::capture::{WANTS_GRAPH, WANTS_NODES};

pub fn cu_stream_synchronize(
    w: &mut Cuda,
    m: msg::CuStreamSynchronize,
) -> Result<Answered, Behind> {
    let ctx = w.scope();
    let stream = w.stream(m.h_stream)?;
    let job = Job::Stream(ctx, stream, w.record.call);
    w.completer.answer_after(job);
    Ok(Answered)
}

pub fn cu_stream_destroy_v2(w: &mut Cuda, m: msg::CuStreamDestroyV2) -> Result {
    let stream = w.handle(Kind::Stream, m.h_stream)?;
    w.completer.probe().destroy_stream(stream)
}

pub fn cu_stream_query(w: &mut Cuda, m: msg::CuStreamQuery) -> Result<Answered, Behind> {
    let stream = w.stream(m.h_stream)? as CUstream;
    // SAFETY: a live stream.
    let rc = unsafe { w.cuStreamQuery(stream) };
    w.completer.now(rc, reply(w.record.call));
    Ok(Answered)
}

pub fn capture_info(w: &mut Cuda, m: msg::CaptureInfo) -> Result<Encoded> {
    let stream = w.stream(m.stream)? as CUstream;
    let mut status = busbar_abi::zeroed();
    let (mut id, mut graph, mut count) = (0, std::ptr::null_mut(), 0);
    let (mut list, mut edges) = (std::ptr::null(), std::ptr::null());
    let (d, s, i, g) = (w.driver, &raw mut status, &raw mut id, &raw mut graph);
    let (l, n, null) = (&raw mut list, &raw mut count, std::ptr::null_mut());
    // SAFETY: pointers to live values; the arrays are the driver's until its next such call.
    check(unsafe {
        if m.detail & WANTS_NODES == 0 {
            d.cuStreamGetCaptureInfo_v2(stream, s, i, g, null, null.cast())
        } else {
            match d.cuStreamGetCaptureInfo_v3(stream, s, i, g, l, &mut edges, n) {
                CUDA_ERROR_NOT_SUPPORTED => d.cuStreamGetCaptureInfo_v2(stream, s, i, g, l, n),
                rc => rc,
            }
        }
    })?;
    let (mut nodes, mut notes) = (&[][..], &[][..]);
    if !list.is_null() && count > 0 {
        // SAFETY: the driver's array of `count` nodes, and beside it one of as many edges.
        unsafe {
            nodes = std::slice::from_raw_parts(list, count);
            if !edges.is_null() {
                notes = std::slice::from_raw_parts(edges, count);
            }
        }
    }
    let wanted = m.detail & WANTS_GRAPH != 0;
    let owner = match graph.is_null() || !wanted && nodes.is_empty() {
        true => 0,
        false => w.adopt(Kind::Graph, graph as u64, &[]),
    };
    Ok(Encoded::of(&msg::CaptureInfoReply {
        status: status as u32,
        id,
        graph: if wanted { owner } else { 0 },
        nodes: nodes.iter().map(|n| w.adopt_node(owner, *n)).collect(),
        edges: busbar_abi::slice_bytes(notes),
    }))
}

pub fn cu_stream_begin_capture_v2(w: &mut Cuda, m: msg::CuStreamBeginCaptureV2) -> Result {
    let stream = w.stream(m.h_stream)? as CUstream;
    w.completer.wait_for_frees();
    // SAFETY: a live stream.
    check(unsafe { w.cuStreamBeginCapture_v2(stream, RELAXED) })?;
    w.captures.insert(m.h_stream);
    Ok(())
}

pub fn capture_to_graph(w: &mut Cuda, m: msg::CaptureToGraph<'_>) -> Result {
    let stream = w.stream(m.stream)? as CUstream;
    let graph = w.handle(Kind::Graph, m.graph)? as CUgraph;
    let after = node_list(w, &m.after)?;
    let edges = edge_list(m.edges, after.len())?;
    w.completer.wait_for_frees();
    // SAFETY: live handles; the arrays are of that length.
    check(unsafe {
        w.cuStreamBeginCaptureToGraph(
            stream,
            graph,
            or_null(&after),
            or_null(&edges),
            after.len(),
            RELAXED,
        )
    })?;
    w.captures.insert(m.stream);
    Ok(())
}

pub fn capture_end(w: &mut Cuda, m: msg::CaptureEnd) -> Result<msg::CaptureEndReply> {
    let stream = w.stream(m.stream)? as CUstream;
    let mut graph: CUgraph = std::ptr::null_mut();
    // SAFETY: a live stream and a pointer to a live handle.
    let rc = unsafe { w.cuStreamEndCapture(stream, &mut graph) };
    // An end may be refused and the capture go on.
    if !is_capturing(w.driver, stream) {
        w.captures.remove(&m.stream);
    }
    check(rc)?;
    // The program may know it already: from a question, or since it gave it.
    let actual = match w.known(Kind::Graph, graph as u64) {
        0 => {
            w.made(&m, graph as u64);
            m.graph
        }
        id => id,
    };
    Ok(msg::CaptureEndReply { actual })
}

pub fn capture_update(w: &mut Cuda, m: msg::CaptureUpdate<'_>) -> Result {
    let stream = w.stream(m.stream)? as CUstream;
    let mut after = node_list(w, &m.after)?;
    let edges = edge_list(m.edges, after.len())?;
    // SAFETY: live handles; the arrays are of that length.
    check(unsafe {
        w.cuStreamUpdateCaptureDependencies_v2(
            stream,
            after.as_mut_ptr(),
            or_null(&edges),
            after.len(),
            m.flags,
        )
    })
}
