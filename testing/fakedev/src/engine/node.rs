//! What the nodes of graphs do, from what a program says of them.

use super::{copies, reach};
use crate::ffi::*;
use crate::state::event::EVENTS;
use crate::state::graph::{self, Graph, Node};
use crate::state::graph_memory::{self, GraphMemory};
use crate::state::launch::Launch;
use crate::state::work::{Fill, HostCall, Work};
use crate::state::{context, module};
use std::ffi::c_void;
use std::sync::Arc;

/// A kernel node's work.
pub fn kernel(p: &KernelNodeParamsV1, kern: CUkernel) -> R<Work> {
    let function = module::resolve(if p.func != 0 { p.func } else { kern })?;
    // SAFETY: the caller gives parameters as for a launch.
    let launch = unsafe { Launch::new(function, (p.grid, p.block), p.shared, p.params, p.extra) };
    launch.map(|launch| Work::Kernel(Arc::new(launch)))
}

/// A copy node's work.
pub fn copy(p: &Memcpy3D, context: CUcontext) -> R<Work> {
    let (copy, context) = (copies::from_3d(p)?, reach::asked(context)?);
    if copy.check(|at, n| reach::may_copy(at, n, context.device)) {
        Ok(Work::Copy(Arc::new(copy)))
    } else {
        Err(INVALID_VALUE)
    }
}

/// A fill node's work.
pub fn fill(p: &MemsetNodeParams, context: CUcontext) -> R<Work> {
    let asked = reach::asked(context)?;
    let element = p.element_size as usize;
    if !matches!(element, 1 | 2 | 4) || p.width == 0 || p.height == 0 {
        return Err(INVALID_VALUE);
    }
    let (dst, pitch, value) = (p.dst, p.pitch, p.value);
    let fill = Fill {
        dst,
        pitch,
        value,
        element,
        width: p.width,
        height: p.height,
        context: reach::of_fill(dst, &asked),
    };
    let fill = copies::checked_fill(fill)?;
    let n = fill.span().unwrap_or(0);
    match n == 0 || reach::may_copy(dst, n, asked.device) {
        true => Ok(Work::Fill(fill)),
        false => Err(INVALID_VALUE),
    }
}

/// Any node's work, and a child node's graph.
pub fn from_params(params: *mut NodeParams) -> R<(Work, Option<Arc<Graph>>)> {
    if params.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: not null, so valid by the caller's contract; the kind says what the body holds, and
    // the body is larger than each of these structures and aligned as they are.
    unsafe {
        let body = (&raw const (*params).body).cast::<c_void>();
        let work = match (*params).kind {
            0 => {
                let p = body.cast::<KernelNodeParams>().read();
                kernel(&p.v1, p.kern)?
            }
            1 => {
                let p = body.cast::<MemcpyNodeParams>().read();
                copy(&p.copy, p.ctx)?
            }
            2 => {
                let p = body.cast::<WideMemsetNodeParams>().read();
                fill(&p.v1, p.ctx)?
            }
            3 => host(&body.cast::<HostNodeParams>().read())?,
            4 => {
                let child = graph::by_handle(body.cast::<CUgraph>().read())?;
                return Ok((Work::All(Arc::default()), Some(child)));
            }
            5 => Work::Empty,
            6 => Work::WaitNode(EVENTS.get(body.cast::<CUevent>().read())?),
            7 => Work::RecordNode(EVENTS.get(body.cast::<CUevent>().read())?),
            10 => {
                let p = body.cast::<MemAllocParams>().read();
                let memory = GraphMemory::new(p, &*context::current()?)?;
                let body = (&raw mut (*params).body).cast::<MemAllocParams>();
                (*body).address = memory.address();
                Work::Allocate(memory)
            }
            11 => Work::Free(graph_memory::find(body.cast::<CUdeviceptr>().read())?),
            _ => return Err(NOT_SUPPORTED),
        };
        Ok((work, None))
    }
}

/// A host node's work.
pub fn host(p: &HostNodeParams) -> R<Work> {
    Ok(Work::Host(HostCall {
        f: p.f.ok_or(INVALID_VALUE)?,
        user: p.user as usize,
    }))
}

/// Adds a node to a graph.
///
/// # Safety
/// The pointers are null or as the API asks.
pub unsafe fn add(
    out: *mut CUgraphNode,
    graph: CUgraph,
    after: *const CUgraphNode,
    count: usize,
    work: Work,
    child: Option<Arc<Graph>>,
) -> Res {
    let graph = graph::by_handle(graph)?;
    if out.is_null()
        || child
            .as_ref()
            .is_some_and(|child| child.handle == graph.handle)
    {
        return Err(INVALID_VALUE);
    }
    let child = match child {
        Some(child) => Some(child.copy()?.0),
        None => None,
    };
    // SAFETY: by the caller's contract.
    unsafe {
        put(
            out,
            graph.add_node(Node {
                work,
                after: list(after, count)?,
                child,
            })?,
        )
    }
}
