//! Executable graphs: making, updating, launching them.

use super::prelude::*;
use crate::cuda::engine::{addresses, graph, graph_host, stream};
use crate::cuda::life::{enter, guard};

const UPLOAD: u64 = 2;

/// What an attempt to instantiate says beside its result.
struct Told {
    result: u32,
    node: CUgraphNode,
}

fn instantiate(
    out: *mut CUgraphExec,
    raw: CUgraph,
    flags: u64,
    upload: Option<(CUstream, bool)>,
    told: &mut Told,
) -> Result<()> {
    let cx = enter()?;
    cx.need_context()?;
    let graph = cx.handle(Kind::Graph, raw as u64)?;
    refuse_if(out.is_null(), CUDA_ERROR_INVALID_VALUE)?;
    cx.must_be_safe()?;
    let stream = match upload {
        Some((s, per_thread)) if flags & UPLOAD != 0 => cx.stream(s, per_thread)?,
        _ => 0,
    };
    let exec = cx.create(Kind::GraphExec);
    let m = msg::GraphInstantiate {
        exec,
        graph,
        flags,
        stream,
    };
    let fail = |_: &CUresult| cx.destroy(Kind::GraphExec, exec);
    let (rc, body) = cx.call_any(&m).inspect_err(fail)?;
    let r = decode::<msg::GraphInstantiateReply>(&body).inspect_err(fail)?;
    told.result = r.result;
    if r.node != 0 {
        told.node = graph::adopt(cx, graph, r.node).inspect_err(fail)?;
    }
    if rc != CUDA_SUCCESS {
        fail(&rc);
        return Err(rc);
    }
    cx.state().graphs.learn(exec, r.sources, r.destinations);
    if r.keeps != 0 {
        cx.state().graphs.keeps(exec);
    }
    // What kernels launch, they know by the driver's handle, which the program gives them.
    let given = match r.handle {
        0 => None,
        own => cx.state().handles.alias(Kind::GraphExec, own, exec),
    };
    let given = given.unwrap_or_else(|| cx.raw(Kind::GraphExec, exec));
    // SAFETY: checked for null above; the program's pointer.
    unsafe { put(out, given as CUgraphExec) }
}

fn nothing() -> Told {
    Told {
        result: CUDA_GRAPH_INSTANTIATE_ERROR,
        node: std::ptr::null_mut(),
    }
}

pub unsafe fn cuGraphInstantiateWithFlags(
    out: *mut CUgraphExec,
    graph: CUgraph,
    flags: u64,
) -> CUresult {
    guard(|| instantiate(out, graph, flags, None, &mut nothing()))
}

pub unsafe fn cuGraphInstantiate(
    out: *mut CUgraphExec,
    graph: CUgraph,
    node: *mut CUgraphNode,
    log: *mut c_char,
    room: usize,
) -> CUresult {
    guard(|| {
        let mut told = nothing();
        let rc = instantiate(out, graph, 0, None, &mut told);
        // SAFETY: the program's pointers, which it need not give.
        unsafe {
            put_opt(node, told.node);
            if room > 0 {
                put_opt(log, 0);
            }
        }
        rc
    })
}

pub unsafe fn cuGraphInstantiateWithParams(
    out: *mut CUgraphExec,
    graph: CUgraph,
    params: *mut CUDA_GRAPH_INSTANTIATE_PARAMS,
    per_thread: bool,
) -> CUresult {
    guard(|| {
        // SAFETY: the program's pointer.
        let p = unsafe { params.as_mut() }.ok_or(CUDA_ERROR_INVALID_VALUE)?;
        let mut told = nothing();
        let upload = Some((p.hUploadStream, per_thread));
        let rc = instantiate(out, graph, p.flags, upload, &mut told);
        p.result_out = told.result as _;
        p.hErrNode_out = told.node;
        rc
    })
}

pub unsafe fn cuGraphExecUpdate_v2(
    cx: Cx,
    exec: u32,
    graph: u32,
    info: *mut CUgraphExecUpdateResultInfo,
) -> Result<()> {
    cx.state().graphs.forget_changes(exec);
    let (rc, body) = cx.call_any(&msg::GraphExecUpdate { exec, graph })?;
    let r = decode::<msg::GraphExecUpdateReply>(&body)?;
    let node = |id| match id {
        0 => Ok(std::ptr::null_mut()),
        id => graph::adopt(cx, graph, id),
    };
    let told = CUgraphExecUpdateResultInfo {
        result: r.result as _,
        errorNode: node(r.node)?,
        errorFromNode: node(r.from)?,
    };
    // SAFETY: the program's pointer.
    unsafe { put_opt(info, told) };
    if rc != CUDA_SUCCESS {
        return Err(rc);
    }
    cx.state().graphs.learn(exec, r.sources, r.destinations);
    Ok(())
}

pub unsafe fn cuGraphExecUpdate(
    cx: Cx,
    exec: u32,
    graph: u32,
    node: *mut CUgraphNode,
    result: *mut CUgraphExecUpdateResult,
) -> Result<()> {
    let mut info: CUgraphExecUpdateResultInfo = busbar_abi::zeroed();
    // SAFETY: passed on to the caller.
    let updated = unsafe { cuGraphExecUpdate_v2(cx, exec, graph, &mut info) };
    // SAFETY: the program's pointers.
    unsafe {
        put_opt(node, info.errorNode);
        put_opt(result, info.result);
    }
    updated
}

pub fn cuGraphNodeSetEnabled(
    cx: Cx,
    h_graph_exec: u32,
    h_node: u32,
    is_enabled: u32,
) -> Result<()> {
    cx.call(&msg::CuGraphNodeSetEnabled {
        h_graph_exec,
        h_node,
        is_enabled,
    })?;
    // One that reads and writes nothing of the program's may do so once all is enabled again.
    let r = cx.reply_to(&msg::GraphExecLists { exec: h_graph_exec })?;
    cx.state()
        .graphs
        .learn(h_graph_exec, r.sources, r.destinations);
    Ok(())
}

pub unsafe fn cuGraphLaunch(cx: Cx, h_graph: u32, h_stream: u32) -> Result<()> {
    let m = msg::CuGraphLaunch { h_graph, h_stream };
    let _sending = addresses::work(cx, h_stream, Touch::All)?;
    let usual = !cx.state().graphs.may_refuse_launch();
    let Some(l) = cx.state().graphs.lists(h_graph) else {
        cx.send_if(usual, &m, Touch::All)?;
        return cx.has_begun(h_stream);
    };
    if stream::captures(cx, h_stream)? {
        // It becomes a node, and copies when that is launched.
        return cx.send(&m);
    }
    // SAFETY: the program's memory, as it named it in the graph.
    unsafe {
        graph_host::before_launch(cx, &l, h_stream)?;
        cx.send_if(usual && !l.keeps, &m, Touch::All)?;
        graph_host::after_launch(cx, h_graph, &l, h_stream)?;
    }
    cx.has_begun(h_stream)
}
