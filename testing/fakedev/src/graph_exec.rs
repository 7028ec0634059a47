//! Executable graphs.

use crate::context::{self, Context};
use crate::entry::{self, Flavour, api};
use crate::ffi::*;
use crate::graph::{self, EXECS, GRAPHS, Graph};
use crate::graph_api;
use crate::graph_memory;
use crate::handle;
use crate::stream;
use crate::user_object;
use crate::work::{HostCall, Work};
use std::collections::HashSet;
use std::ffi::c_char;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

const KNOWN_FLAGS: u64 = 0xf;
const AUTO_FREE: u64 = 1;
const UPLOAD: u64 = 2;
const DEVICE_LAUNCH: u64 = 4;
/// Why a graph cannot be made executable: what one of its nodes does.
const NODE_NOT_SUPPORTED: i32 = 3;
const UPDATE_OK: i32 = 0;
const UPDATE_ERROR: i32 = 1;
const UPDATE_TOPOLOGY: i32 = 2;
const UPDATE_NODE_TYPE: i32 = 3;

/// A list of work, ready to run.
type Plan = Vec<(CUgraphNode, Work)>;

/// An executable graph.
pub struct Exec {
    flags: u64,
    plan: Mutex<Arc<Plan>>,
    /// Nodes that a launch leaves out.
    disabled: Mutex<HashSet<CUgraphNode>>,
    /// Whether a kernel finds it on the device already.
    uploaded: AtomicBool,
    /// Where it was made, and so where kernels run it.
    context: Weak<Context>,
    /// For each node in the plan, how many nodes it waits for: an update must match it.
    shape: Vec<usize>,
}

/// Turns a graph into its work, in an order that its edges allow.
fn plan(graph: &Graph) -> R<(Plan, Vec<usize>)> {
    let mut plan = Vec::new();
    let mut shape = Vec::new();
    for (handle, node) in graph.sorted()? {
        let work = match &node.child {
            Some(child) => Work::All(Arc::new(self::plan(child)?.0)),
            None => node.work,
        };
        shape.push(node.after.len());
        plan.push((handle, work));
    }
    Ok((plan, shape))
}

/// Lets an executable graph hold what a graph and those inside it hold.
fn share(graph: &Graph, exec: CUgraphExec) {
    user_object::share(graph.handle, exec);
    for (_, node) in graph.nodes() {
        if let Some(child) = &node.child {
            share(child, exec);
        }
    }
}

/// The first node that a graph for devices to launch may not have: they copy, fill and run kernels.
fn not_for_devices(plan: &Plan) -> Option<CUgraphNode> {
    let bad = |(_, work): &&(CUgraphNode, Work)| match work {
        Work::All(child) => not_for_devices(child).is_some(),
        work => graph::kind(work) > 2,
    };
    plan.iter().find(bad).map(|(node, _)| *node)
}

/// Makes an executable graph; an error may come with the node whose fault it is.
fn instantiate(
    out: *mut CUgraphExec,
    graph: CUgraph,
    flags: u64,
) -> Result<(), (CUresult, CUgraphNode)> {
    let plain = |code| (code, 0);
    let context = context::current().map_err(plain)?;
    let graph = GRAPHS.get(graph).map_err(|_| plain(INVALID_VALUE))?;
    if out.is_null() || flags & !KNOWN_FLAGS != 0 {
        return Err(plain(INVALID_VALUE));
    }
    let (plan, shape) = plan(&graph).map_err(plain)?;
    if flags & DEVICE_LAUNCH != 0
        && let Some(node) = not_for_devices(&plan)
    {
        return Err((INVALID_VALUE, node));
    }
    let handle = handle::fresh();
    share(&graph, handle);
    let plan = Mutex::new(Arc::new(plan));
    EXECS.insert(
        handle,
        Arc::new(Exec {
            flags,
            plan,
            disabled: Mutex::default(),
            uploaded: AtomicBool::new(flags & UPLOAD != 0),
            context: Arc::downgrade(&context),
            shape,
        }),
    );
    // SAFETY: not null, and valid by the caller's contract.
    unsafe { put(out, handle) }.map_err(plain)
}

impl Exec {
    /// Runs it from within a kernel.
    pub fn run_on_device(&self) -> Res {
        if self.flags & DEVICE_LAUNCH == 0 || !self.uploaded.load(Ordering::Acquire) {
            return Err(ILLEGAL_ADDRESS);
        }
        let context = self.context.upgrade().ok_or(ILLEGAL_ADDRESS)?;
        let plan = self.plan.lock().unwrap().clone();
        Work::All(plan).run_or_skip(&context, 0);
        Ok(())
    }

    fn update(&self, graph: &Graph) -> Result<(), (i32, CUgraphNode)> {
        let (new, shape) = plan(graph).map_err(|_| (UPDATE_ERROR, 0))?;
        let mut plan = self.plan.lock().unwrap();
        if shape != self.shape {
            return Err((UPDATE_TOPOLOGY, 0));
        }
        let differs =
            |((_, a), (_, b)): &(&(usize, Work), &(usize, Work))| graph::kind(a) != graph::kind(b);
        if let Some((_, (node, _))) = plan.iter().zip(&new).find(differs) {
            return Err((UPDATE_NODE_TYPE, *node));
        }
        // The nodes keep the names by which the program knows them.
        let names: Vec<_> = plan.iter().map(|(node, _)| *node).collect();
        let works = new.into_iter().map(|(_, work)| work);
        *plan = Arc::new(names.into_iter().zip(works).collect());
        Ok(())
    }

    fn set(&self, node: CUgraphNode, work: Work) -> Res {
        let mut plan = self.plan.lock().unwrap();
        let place = plan
            .iter()
            .position(|(name, _)| *name == node)
            .ok_or(INVALID_VALUE)?;
        if graph::kind(&plan[place].1) != graph::kind(&work) {
            return Err(INVALID_VALUE);
        }
        Arc::make_mut(&mut plan)[place].1 = work;
        Ok(())
    }
}

impl Exec {
    /// Whether a node is one of those that can be left out: kernels, copies and fills.
    fn switchable(&self, node: CUgraphNode) -> Res {
        let plan = self.plan.lock().unwrap();
        let found = plan
            .iter()
            .find(|(name, _)| *name == node)
            .ok_or(INVALID_VALUE)?;
        if graph::kind(&found.1) <= 2 {
            Ok(())
        } else {
            Err(INVALID_VALUE)
        }
    }
}

fn exec_of(exec: CUgraphExec) -> R<Arc<Exec>> {
    EXECS.get(exec).map_err(|_| INVALID_VALUE)
}

/// Begins a new recording for each event that the plan records.
fn arm(plan: &Plan) {
    for (_, work) in plan {
        match work {
            Work::RecordNode(event) => drop(event.arm()),
            Work::All(plan) => arm(plan),
            _ => {}
        }
    }
}

fn launch(exec: CUgraphExec, stream: CUstream, flavour: Flavour) -> Res {
    let exec = exec_of(exec)?;
    let (stream, context) = stream::resolve(stream, flavour)?;
    exec.uploaded.store(true, Ordering::Release);
    entry::launch_cost();
    let mut plan = exec.plan.lock().unwrap().clone();
    let disabled = exec.disabled.lock().unwrap();
    if !disabled.is_empty() {
        Arc::make_mut(&mut plan).retain(|(node, _)| !disabled.contains(node));
    }
    drop(disabled);
    graph_memory::launched(&plan, exec.flags & AUTO_FREE != 0)?;
    arm(&plan);
    stream::submit_to(&stream, &context, Work::All(plan))
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
        EXECS.remove(exec).map_err(|_| INVALID_VALUE)?;
        user_object::drop_graph(exec);
        Ok(())
    }

    fn [cuGraphExecGetFlags] (exec: CUgraphExec, out: *mut u64) {
        put(out, exec_of(exec)?.flags)
    }

    fn [cuGraphUpload; cuGraphUpload_ptsz] (exec: CUgraphExec, stream: CUstream) {
        let exec = exec_of(exec)?;
        stream::resolve(stream, FLAVOUR)?;
        exec.uploaded.store(true, Ordering::Release);
        Ok(())
    }

    fn [cuGraphLaunch; cuGraphLaunch_ptsz] (exec: CUgraphExec, stream: CUstream) {
        launch(exec, stream, FLAVOUR)
    }

    fn [cuGraphExecUpdate_v2] (exec: CUgraphExec, graph: CUgraph, info: *mut ExecUpdateResult) {
        let (handle, exec) = (exec, exec_of(exec)?);
        let graph = GRAPHS.get(graph).map_err(|_| INVALID_VALUE)?;
        let (result, node) = match exec.update(&graph) {
            Ok(()) => {
                share(&graph, handle);
                (UPDATE_OK, 0)
            }
            Err(problem) => problem,
        };
        put(info, ExecUpdateResult { result, error_node: node, error_from_node: 0 })?;
        if result == UPDATE_OK { Ok(()) } else { Err(GRAPH_EXEC_UPDATE_FAILURE) }
    }

    fn [cuGraphExecUpdate] (
        exec: CUgraphExec, graph: CUgraph, node: *mut CUgraphNode, result: *mut i32,
    ) {
        let (handle, exec) = (exec, exec_of(exec)?);
        let graph = GRAPHS.get(graph).map_err(|_| INVALID_VALUE)?;
        let (code, at) = match exec.update(&graph) {
            Ok(()) => {
                share(&graph, handle);
                (UPDATE_OK, 0)
            }
            Err(problem) => problem,
        };
        put_opt(node, at);
        put(result, code)?;
        if code == UPDATE_OK { Ok(()) } else { Err(GRAPH_EXEC_UPDATE_FAILURE) }
    }

    fn [cuGraphExecKernelNodeSetParams] (
        exec: CUgraphExec, node: CUgraphNode, params: *const KernelNodeParamsV1,
    ) {
        exec_of(exec)?.set(node, graph_api::kernel(&get(params)?, 0)?)
    }

    fn [cuGraphExecKernelNodeSetParams_v2] (
        exec: CUgraphExec, node: CUgraphNode, params: *const KernelNodeParams,
    ) {
        let params = get(params)?;
        exec_of(exec)?.set(node, graph_api::kernel(&params.v1, params.kern)?)
    }

    fn [cuGraphExecMemcpyNodeSetParams] (
        exec: CUgraphExec, node: CUgraphNode, params: *const Memcpy3D, _context: CUcontext,
    ) {
        exec_of(exec)?.set(node, graph_api::copy(&get(params)?)?)
    }

    fn [cuGraphExecMemsetNodeSetParams] (
        exec: CUgraphExec, node: CUgraphNode, params: *const MemsetNodeParams, _context: CUcontext,
    ) {
        exec_of(exec)?.set(node, graph_api::fill(&get(params)?)?)
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
        let (work, child) = graph_api::from_params(params)?;
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
        let child = GRAPHS.get(child).map_err(|_| INVALID_VALUE)?;
        exec_of(exec)?.set(node, Work::All(Arc::new(plan(&child)?.0)))
    }

    fn [cuGraphExecEventRecordNodeSetEvent] (
        exec: CUgraphExec, node: CUgraphNode, event: CUevent,
    ) {
        exec_of(exec)?.set(node, Work::RecordNode(crate::event::EVENTS.get(event)?))
    }

    fn [cuGraphExecEventWaitNodeSetEvent] (exec: CUgraphExec, node: CUgraphNode, event: CUevent) {
        exec_of(exec)?.set(node, Work::WaitNode(crate::event::EVENTS.get(event)?))
    }
}
