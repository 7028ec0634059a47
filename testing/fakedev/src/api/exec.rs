//! The functions on executable graphs.

use crate::engine::{node, submit};
use crate::entry::{self, api};
use crate::ffi::*;
use crate::state::event::EVENTS;
use crate::state::exec::{EXECS, Exec, plan, share};
use crate::state::stream::Flavour;
use crate::state::work::{HostCall, Work};
use crate::state::{capture, context, graph, user_object};
use std::ffi::c_char;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const KNOWN_FLAGS: u64 = 0xf;
/// Why a graph cannot be made executable: what one of its nodes does.
const NODE_NOT_SUPPORTED: i32 = 3;
const UPDATE_OK: i32 = 0;

/// Makes an executable graph; an error may come with the node whose fault it is.
fn instantiate(
    out: *mut CUgraphExec,
    graph: CUgraph,
    flags: u64,
) -> Result<(), (CUresult, CUgraphNode)> {
    let plain = |code| (code, 0);
    let context = context::current().map_err(plain)?;
    let graph = graph::by_handle(graph).map_err(plain)?;
    capture::check_unsafe().map_err(plain)?;
    if out.is_null() || flags & !KNOWN_FLAGS != 0 {
        return Err(plain(INVALID_VALUE));
    }
    let handle = Exec::create(&graph, flags, &context)?;
    // SAFETY: not null, and valid by the caller's contract.
    unsafe { put(out, handle) }.map_err(plain)
}

fn exec_of(exec: CUgraphExec) -> R<Arc<Exec>> {
    EXECS.get(exec).map_err(|_| INVALID_VALUE)
}

/// Updates an executable graph: how that went, and the node whose fault it is.
fn update(handle: CUgraphExec, graph: CUgraph) -> R<(i32, CUgraphNode)> {
    let exec = exec_of(handle)?;
    let graph = graph::by_handle(graph)?;
    Ok(match exec.update(&graph) {
        Ok(()) => {
            share(&graph, handle);
            (UPDATE_OK, 0)
        }
        Err(problem) => problem,
    })
}

fn launch(exec: CUgraphExec, stream: CUstream, flavour: Flavour) -> Res {
    let exec = exec_of(exec)?;
    let (stream, context) = submit::resolve(stream, flavour)?;
    capture::refuse(&stream)?;
    entry::launch_cost();
    let (plan, waits) = exec.launch()?;
    submit::submit_to(&stream, &context, Work::All(plan))?;
    if waits {
        stream.wait_done(stream.submitted());
    }
    Ok(())
}

api! {
    fn [cuGraphInstantiateWithFlags] (out: *mut CUgraphExec, graph: CUgraph, flags: u64) {
        instantiate(out, graph, flags).map_err(|e| e.0)
    }

    fn [cuGraphInstantiate cuGraphInstantiate_v2] (
        out: *mut CUgraphExec, graph: CUgraph, error: *mut CUgraphNode, log: *mut c_char,
        room: usize,
    ) {
        put_opt(error, 0);
        if room > 0 {
            put_opt(log, 0);
        }
        instantiate(out, graph, 0).map_err(|e| e.0)
    }

    fn [cuGraphInstantiateWithParams; cuGraphInstantiateWithParams_ptsz] (
        out: *mut CUgraphExec, graph: CUgraph, params: *mut InstantiateParams,
    ) {
        if params.is_null() {
            return Err(INVALID_VALUE);
        }
        let done = instantiate(out, graph, (*params).flags);
        let node = done.err().map_or(0, |e| e.1);
        (*params).error_node = node;
        (*params).result = match done {
            Ok(()) => 0,
            Err(_) if node != 0 => NODE_NOT_SUPPORTED,
            Err(_) => 1,
        };
        done.map_err(|e| e.0)
    }

    fn [cuGraphExecDestroy] (exec: CUgraphExec) {
        capture::check_unsafe()?;
        let gone = EXECS.remove(exec).map_err(|_| INVALID_VALUE)?;
        gone.leave_streams();
        gone.lose_memory();
        user_object::drop_graph(exec);
        Ok(())
    }

    fn [cuGraphExecGetFlags] (exec: CUgraphExec, out: *mut u64) {
        put(out, exec_of(exec)?.flags)
    }

    fn [cuGraphUpload; cuGraphUpload_ptsz] (exec: CUgraphExec, stream: CUstream) {
        let exec = exec_of(exec)?;
        submit::resolve(stream, FLAVOUR)?;
        exec.uploaded.store(true, Ordering::Release);
        Ok(())
    }

    fn [cuGraphLaunch; cuGraphLaunch_ptsz] (exec: CUgraphExec, stream: CUstream) {
        launch(exec, stream, FLAVOUR)
    }

    fn [cuGraphExecUpdate_v2] (exec: CUgraphExec, graph: CUgraph, info: *mut ExecUpdateResult) {
        let (result, node) = update(exec, graph)?;
        put(info, ExecUpdateResult { result, error_node: node, error_from_node: 0 })?;
        if result == UPDATE_OK { Ok(()) } else { Err(GRAPH_EXEC_UPDATE_FAILURE) }
    }

    fn [cuGraphExecUpdate] (
        exec: CUgraphExec, graph: CUgraph, node: *mut CUgraphNode, result: *mut i32,
    ) {
        let (code, at) = update(exec, graph)?;
        put_opt(node, at);
        put(result, code)?;
        if code == UPDATE_OK { Ok(()) } else { Err(GRAPH_EXEC_UPDATE_FAILURE) }
    }

    fn [cuGraphExecKernelNodeSetParams] (
        exec: CUgraphExec, node: CUgraphNode, params: *const KernelNodeParamsV1,
    ) {
        exec_of(exec)?.set(node, node::kernel(&get(params)?, 0)?)
    }

    fn [cuGraphExecKernelNodeSetParams_v2] (
        exec: CUgraphExec, node: CUgraphNode, params: *const KernelNodeParams,
    ) {
        let params = get(params)?;
        exec_of(exec)?.set(node, node::kernel(&params.v1, params.kern)?)
    }

    fn [cuGraphExecMemcpyNodeSetParams] (
        exec: CUgraphExec, node: CUgraphNode, params: *const Memcpy3D, context: CUcontext,
    ) {
        exec_of(exec)?.set(node, node::copy(&get(params)?, context)?)
    }

    fn [cuGraphExecMemsetNodeSetParams] (
        exec: CUgraphExec, node: CUgraphNode, params: *const MemsetNodeParams, context: CUcontext,
    ) {
        exec_of(exec)?.set(node, node::fill(&get(params)?, context)?)
    }

    fn [cuGraphExecHostNodeSetParams] (
        exec: CUgraphExec, node: CUgraphNode, params: *const HostNodeParams,
    ) {
        let params = get(params)?;
        let call = HostCall { f: params.f.ok_or(INVALID_VALUE)?, user: params.user as usize };
        exec_of(exec)?.set(node, Work::Host(call))
    }

    fn [cuGraphExecNodeSetParams] (
        exec: CUgraphExec, node: CUgraphNode, params: *mut NodeParams,
    ) {
        let (work, child) = node::from_params(params)?;
        if child.is_some() {
            return Err(NOT_SUPPORTED);
        }
        exec_of(exec)?.set(node, work)
    }

    fn [cuGraphNodeSetEnabled] (exec: CUgraphExec, node: CUgraphNode, enabled: u32) {
        let exec = exec_of(exec)?;
        exec.switchable(node)?;
        let mut disabled = exec.disabled.lock().unwrap();
        if enabled != 0 { disabled.remove(&node) } else { disabled.insert(node) };
        Ok(())
    }

    fn [cuGraphNodeGetEnabled] (exec: CUgraphExec, node: CUgraphNode, out: *mut u32) {
        let exec = exec_of(exec)?;
        exec.switchable(node)?;
        let disabled = exec.disabled.lock().unwrap().contains(&node);
        put(out, u32::from(!disabled))
    }

    fn [cuGraphExecChildGraphNodeSetParams] (
        exec: CUgraphExec, node: CUgraphNode, child: CUgraph,
    ) {
        let child = graph::by_handle(child)?;
        exec_of(exec)?.set(node, Work::All(Arc::new(plan(&child)?.0)))
    }

    fn [cuGraphExecEventRecordNodeSetEvent] (
        exec: CUgraphExec, node: CUgraphNode, event: CUevent,
    ) {
        exec_of(exec)?.set(node, Work::RecordNode(EVENTS.get(event)?))
    }

    fn [cuGraphExecEventWaitNodeSetEvent] (exec: CUgraphExec, node: CUgraphNode, event: CUevent) {
        exec_of(exec)?.set(node, Work::WaitNode(EVENTS.get(event)?))
    }
}
