//! Streams and captures.

use super::done::{Job, reply};
use super::driver::RELAXED;
use super::graph::{edge_list, node_list, or_null};
use super::{Cuda, attempt, check};
use busbar_abi::cuda::*;
use busbar_wire::WireError;
use busbar_wire::codec::Message;
use busbar_wire::generated::cuda::{self as msg, Kind};
use busbar_wire::record::Header;

pub(super) fn cu_stream_synchronize(
    w: &mut Cuda,
    h: &Header,
    m: msg::CuStreamSynchronize,
) -> Result<(), WireError> {
    let ctx = w.handle(Kind::Context, h.aux).unwrap_or(0);
    match w.stream(m.h_stream) {
        Ok(s) => w.completer.answer_after(Job::Stream(ctx, s, h.call)),
        Err(e) => w.completer.now(e, reply(h.call)),
    }
    Ok(())
}

pub(super) fn cu_stream_query(
    w: &mut Cuda,
    h: &Header,
    m: msg::CuStreamQuery,
) -> Result<(), WireError> {
    let rc = match w.stream(m.h_stream) {
        // SAFETY: a live stream.
        Ok(s) => unsafe { w.driver.cuStreamQuery(s as CUstream) },
        Err(e) => e,
    };
    w.completer.now(rc, reply(h.call));
    Ok(())
}

const WANTS_GRAPH: u32 = 1;
const WANTS_NODES: u32 = 2;

pub(super) fn capture_info(w: &mut Cuda, h: &Header, m: msg::CaptureInfo) -> Result<(), WireError> {
    let mut reply = msg::CaptureInfoReply {
        status: 0,
        id: 0,
        graph: 0,
        nodes: vec![],
        edges: &[],
    };
    let mut edges_bytes = Vec::new();
    let rc = attempt(|| {
        let stream = w.stream(m.stream)? as CUstream;
        let mut status = busbar_abi::zeroed();
        let mut id = 0;
        let mut graph: CUgraph = std::ptr::null_mut();
        let mut nodes = std::ptr::null();
        let mut edges = std::ptr::null();
        let mut count = 0;
        let graph_out = &raw mut graph;
        // SAFETY: pointers to live values; the arrays are the driver's until its next such call.
        unsafe {
            if m.detail & WANTS_NODES == 0 {
                check(w.driver.cuStreamGetCaptureInfo_v2(
                    stream,
                    &mut status,
                    &mut id,
                    graph_out,
                    std::ptr::null_mut(),
                    std::ptr::null_mut(),
                ))?;
            } else {
                let rc = w.driver.cuStreamGetCaptureInfo_v3(
                    stream,
                    &mut status,
                    &mut id,
                    graph_out,
                    &mut nodes,
                    &mut edges,
                    &mut count,
                );
                if rc == CUDA_ERROR_NOT_SUPPORTED {
                    check(w.driver.cuStreamGetCaptureInfo_v2(
                        stream,
                        &mut status,
                        &mut id,
                        graph_out,
                        &mut nodes,
                        &mut count,
                    ))?;
                } else {
                    check(rc)?;
                }
            }
        }
        reply.status = status as u32;
        reply.id = id;
        if !graph.is_null() && m.detail & WANTS_GRAPH != 0 {
            reply.graph = w.adopt(Kind::Graph, graph as u64, &[]);
        }
        if !nodes.is_null() {
            for i in 0..count {
                // SAFETY: the driver's array of `count` nodes.
                let node = unsafe { nodes.add(i).read() };
                let owner = w.adopt(Kind::Graph, graph as u64, &[]);
                reply.nodes.push(w.adopt_node(owner, node));
            }
            if !edges.is_null() {
                // SAFETY: beside it, the driver's array of as many edges.
                let list = unsafe { std::slice::from_raw_parts(edges, count) };
                edges_bytes = busbar_abi::slice_bytes(list).to_vec();
            }
        }
        Ok(())
    });
    reply.edges = &edges_bytes;
    w.reply(h, rc, |wr| reply.encode(wr));
    Ok(())
}

pub(super) fn cu_stream_begin_capture_v2(
    w: &mut Cuda,
    h: &Header,
    m: msg::CuStreamBeginCaptureV2,
) -> Result<(), WireError> {
    let rc = attempt(|| {
        let stream = w.stream(m.h_stream)? as CUstream;
        w.completer.settle_frees();
        // SAFETY: a live stream.
        check(unsafe { w.driver.cuStreamBeginCapture_v2(stream, RELAXED) })?;
        w.captures.insert(m.h_stream);
        Ok(())
    });
    w.reply(h, rc, |_| {});
    Ok(())
}

pub(super) fn capture_to_graph(
    w: &mut Cuda,
    h: &Header,
    m: msg::CaptureToGraph<'_>,
) -> Result<(), WireError> {
    let rc = attempt(|| {
        let stream = w.stream(m.stream)? as CUstream;
        let graph = w.handle(Kind::Graph, m.graph)? as CUgraph;
        let after = node_list(w, &m.after)?;
        let edges = edge_list(m.edges, after.len())?;
        w.completer.settle_frees();
        // SAFETY: live handles; the arrays are of that length.
        check(unsafe {
            w.driver.cuStreamBeginCaptureToGraph(
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
    });
    w.reply(h, rc, |_| {});
    Ok(())
}

pub(super) fn capture_end(w: &mut Cuda, h: &Header, m: msg::CaptureEnd) -> Result<(), WireError> {
    let mut reply = msg::CaptureEndReply { actual: 0 };
    let rc = attempt(|| {
        let stream = w.stream(m.stream)? as CUstream;
        let mut graph: CUgraph = std::ptr::null_mut();
        // SAFETY: a live stream and a pointer to a live handle.
        let rc = unsafe { w.driver.cuStreamEndCapture(stream, &mut graph) };
        let mut status = CU_STREAM_CAPTURE_STATUS_NONE;
        // An end may be refused and the capture go on.
        // SAFETY: a live stream and a pointer to a live number.
        let asked = unsafe { w.driver.cuStreamIsCapturing(stream, &mut status) };
        if asked != CUDA_SUCCESS || status == CU_STREAM_CAPTURE_STATUS_NONE {
            w.captures.remove(&m.stream);
        }
        check(rc)?;
        // The program may know it already: from a question, or since it gave it.
        reply.actual = match w.known(Kind::Graph, graph as u64) {
            0 => {
                w.made(h, &m, graph as u64);
                m.graph
            }
            id => id,
        };
        Ok(())
    });
    w.reply(h, rc, |wr| reply.encode(wr));
    Ok(())
}

pub(super) fn capture_update(
    w: &mut Cuda,
    h: &Header,
    m: msg::CaptureUpdate<'_>,
) -> Result<(), WireError> {
    let rc = attempt(|| {
        let stream = w.stream(m.stream)? as CUstream;
        let mut after = node_list(w, &m.after)?;
        let edges = edge_list(m.edges, after.len())?;
        // SAFETY: live handles; the arrays are of that length.
        check(unsafe {
            w.driver.cuStreamUpdateCaptureDependencies_v2(
                stream,
                after.as_mut_ptr(),
                or_null(&edges),
                after.len(),
                m.flags,
            )
        })
    });
    w.reply(h, rc, |_| {});
    Ok(())
}
