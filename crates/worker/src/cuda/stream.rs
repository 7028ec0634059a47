//! Streams and captures.

use super::completer::Then;
use super::waiters::Wait;
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
        Ok(s) => w.waiters.wait(ctx, Wait::Stream(s), h.call),
        Err(e) => w.completer.now(e, Then::Reply { call: h.call }),
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
    w.completer.now(rc, Then::Reply { call: h.call });
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
        let graph_out = if m.detail & WANTS_GRAPH != 0 {
            &raw mut graph
        } else {
            std::ptr::null_mut()
        };
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
        if !graph.is_null() {
            reply.graph = w.adopt(Kind::Graph, graph as u64);
        }
        if !nodes.is_null() {
            for i in 0..count {
                // SAFETY: the driver's array of `count` nodes.
                let node = unsafe { nodes.add(i).read() };
                reply.nodes.push(w.adopt(Kind::GraphNode, node as u64));
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
