//! A node's parameters: what a program gives, as it travels, and back.

use super::prelude::*;
use crate::cuda::engine::{
    addresses, callback, context, ends, graph, graph_host, launch, peer, pool,
};
use crate::cuda::state::promised::Function;
use crate::cuda::state::ranges::{Sort, plausible};
use crate::cuda::state::rows;
use busbar_wire::codec::Request as _;

/// Parameters as they travel.
pub struct Encoded {
    p: CUgraphNodeParams,
    extra: Vec<u8>,
    mirrors: [u32; 2],
    /// Whether no driver refuses them, as far as is known here.
    usual: bool,
}

/// Parameters of a kind.
pub fn of<T: busbar_abi::Plain>(kind: CUgraphNodeType, v: T) -> CUgraphNodeParams {
    let mut p: CUgraphNodeParams = busbar_abi::zeroed();
    p.r#type = kind;
    busbar_abi::set_member(&mut p.u, v);
    p
}

/// What a program's pointer points to.
unsafe fn read<T: Copy>(p: *const T) -> Result<T> {
    refuse_if(p.is_null(), CUDA_ERROR_INVALID_VALUE)?;
    // SAFETY: not null; the program's pointer.
    Ok(unsafe { p.read_unaligned() })
}

/// The bytes of a program's array.
unsafe fn array<T: busbar_abi::Plain>(p: *const T, n: usize) -> Result<Vec<u8>> {
    if n == 0 {
        return Ok(Vec::new());
    }
    refuse_if(p.is_null() || n > 4096, CUDA_ERROR_INVALID_VALUE)?;
    // SAFETY: the program's array of `n` items.
    Ok(busbar_abi::slice_bytes(unsafe { std::slice::from_raw_parts(p, n) }).to_vec())
}

fn context(cx: Cx, raw: CUcontext) -> Result<CUcontext> {
    let id = match raw as u64 {
        0 => cx.need_context()?,
        raw => cx.handle(Kind::Context, raw)?,
    };
    Ok(id as usize as CUcontext)
}

/// Encodes parameters: handles become ids.
///
/// # Safety
/// The pointers inside are as the API asks.
pub unsafe fn encode(cx: Cx, p: &CUgraphNodeParams) -> Result<Encoded> {
    let mut e = Encoded {
        p: *p,
        extra: Vec::new(),
        mirrors: [0; 2],
        usual: true,
    };
    let u = &mut e.p.u;
    match p.r#type {
        CU_GRAPH_NODE_TYPE_KERNEL => {
            let mut k: CUDA_KERNEL_NODE_PARAMS_v3 = busbar_abi::member(u);
            let named = if k.func.is_null() {
                k.kern as CUfunction
            } else {
                k.func
            };
            let (id, f) = launch::function(cx, named)?;
            let grid = [k.gridDimX, k.gridDimY, k.gridDimZ];
            let block = [k.blockDimX, k.blockDimY, k.blockDimZ];
            let size = (grid, block, k.sharedMemBytes);
            // SAFETY: passed on to the caller.
            e.extra = unsafe { launch::for_node(cx, f, size, k.kernelParams, k.extra)? };
            k.ctx = context(cx, k.ctx)?;
            // A kernel of a library is every context's.
            let own = cx.state().handles.context(Kind::Function, id);
            e.usual = own == 0 || own == k.ctx as usize as u32;
            k.func = id as usize as CUfunction;
            k.kern = std::ptr::null_mut();
            k.kernelParams = std::ptr::null_mut();
            k.extra = std::ptr::null_mut();
            busbar_abi::set_member(u, k);
        }
        CU_GRAPH_NODE_TYPE_MEMCPY => {
            let mut c: CUDA_MEMCPY_NODE_PARAMS = busbar_abi::member(u);
            c.copyCtx = context(cx, c.copyCtx)?;
            let asked = rows::rows_of(&c.copyParams);
            e.usual = ends::is_usual(cx, &asked);
            let r = cx.state().resolved(&asked);
            for end in [&r.src, &r.dst]
                .into_iter()
                .filter(|e| e.memory == rows::DEVICE)
            {
                peer::may_copy(cx, c.copyCtx as usize as u32, end.device)?;
            }
            let t = graph_host::travel(cx, &asked)?;
            c.copyParams = t.shape;
            c.copyParams.srcArray = t.arrays[0] as usize as CUarray;
            c.copyParams.dstArray = t.arrays[1] as usize as CUarray;
            e.mirrors = t.mirrors;
            busbar_abi::set_member(u, c);
        }
        CU_GRAPH_NODE_TYPE_MEMSET => {
            let mut s: CUDA_MEMSET_NODE_PARAMS_v2 = busbar_abi::member(u);
            if !matches!(s.elementSize, 1 | 2 | 4) || s.width == 0 || s.height == 0 {
                return Err(CUDA_ERROR_INVALID_VALUE);
            }
            let (pitch, element) = (s.pitch as usize, s.elementSize as usize);
            let (width, height) = (s.width as usize, s.height as usize);
            let filled = ends::fill(cx, s.dst, pitch, element, width, height);
            e.usual = filled == Ok(ends::Filled::Known);
            let asked = context(cx, s.ctx)? as usize as u32;
            peer::may_copy(cx, asked, s.dst)?;
            s.ctx = peer::fills_in(cx, asked, s.dst) as usize as CUcontext;
            s.dst = addresses::of_node(cx, s.dst)?;
            busbar_abi::set_member(u, s);
        }
        CU_GRAPH_NODE_TYPE_GRAPH => u[0] = u64::from(cx.handle(Kind::Graph, u[0])?),
        kind @ (CU_GRAPH_NODE_TYPE_WAIT_EVENT | CU_GRAPH_NODE_TYPE_EVENT_RECORD) => {
            if kind == CU_GRAPH_NODE_TYPE_EVENT_RECORD {
                cx.state().events.recorded_unseen();
            }
            u[0] = u64::from(cx.handle(Kind::Event, u[0])?);
        }
        CU_GRAPH_NODE_TYPE_MEM_ALLOC => {
            let mut a: CUDA_MEM_ALLOC_NODE_PARAMS_v2 = busbar_abi::member(u);
            // SAFETY: passed on to the caller.
            e.extra = unsafe { array(a.accessDescs, a.accessDescCount)? };
            a.accessDescs = std::ptr::null();
            busbar_abi::set_member(u, a);
        }
        CU_GRAPH_NODE_TYPE_BATCH_MEM_OP => {
            let mut b: CUDA_BATCH_MEM_OP_NODE_PARAMS_v2 = busbar_abi::member(u);
            // SAFETY: passed on to the caller.
            e.extra = unsafe { array(b.paramArray, b.count as usize)? };
            addresses::of_operations(cx, &mut e.extra)?;
            b.ctx = context(cx, b.ctx)?;
            b.paramArray = std::ptr::null_mut();
            busbar_abi::set_member(u, b);
        }
        CU_GRAPH_NODE_TYPE_CONDITIONAL => {
            let mut c: CUDA_CONDITIONAL_NODE_PARAMS = busbar_abi::member(u);
            c.ctx = context(cx, c.ctx)?;
            c.phGraph_out = std::ptr::null_mut();
            busbar_abi::set_member(u, c);
        }
        CU_GRAPH_NODE_TYPE_HOST => {
            let n: CUDA_HOST_NODE_PARAMS = busbar_abi::member(u);
            let f = n.r#fn.ok_or(CUDA_ERROR_INVALID_VALUE)?;
            let data = n.userData as u64;
            *u = [0; 29];
            u[0] = callback::in_graphs(cx, Function { f, data })?;
        }
        CU_GRAPH_NODE_TYPE_EMPTY | CU_GRAPH_NODE_TYPE_MEM_FREE => {}
        // Memory and semaphores of other APIs cannot leave their machine.
        CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL | CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT => {
            return Err(CUDA_ERROR_NOT_SUPPORTED);
        }
        _ => return Err(CUDA_ERROR_INVALID_VALUE),
    }
    Ok(e)
}

/// What a new node depends on, how (annotations of the edges, or null), and how many of them.
type After = (*const CUgraphNode, *const CUgraphEdgeData, usize);

/// Adds a node; writes what its making tells into `p`.
///
/// # Safety
/// The pointers are as the API asks.
unsafe fn add(cx: Cx, graph: u32, at: After, p: &mut CUgraphNodeParams) -> Result<u32> {
    // SAFETY: passed on to the caller.
    let (after, edges) = unsafe { graph::dependencies(cx, at.0, at.1, at.2)? };
    let other = |n: &u32| cx.state().graphs.owner(*n).is_some_and(|g| g != graph);
    let mut sorted = after.clone();
    sorted.sort_unstable();
    if after.iter().any(other) || sorted.windows(2).any(|w| w[0] == w[1]) {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: passed on to the caller.
    let e = unsafe { encode(cx, p)? };
    let node = cx.create(Kind::GraphNode);
    let (params, extra, mirrors) = (busbar_abi::bytes_of(&e.p), &e.extra[..], e.mirrors);
    let fail = |_: &CUresult| cx.destroy(Kind::GraphNode, node);
    let m = msg::GraphAddNode {
        node,
        graph,
        kind: p.r#type,
        after,
        edges: &edges,
        params,
        extra,
        mirrors,
    };
    if m.queued() && e.usual && edges.iter().all(|b| *b == 0) {
        cx.send(&m).inspect_err(fail)?;
        cx.state().graphs.own(graph, node);
    } else {
        let r = cx.reply_to(&m).inspect_err(fail)?;
        cx.state().graphs.own(graph, node);
        match p.r#type {
            CU_GRAPH_NODE_TYPE_MEM_ALLOC => {
                let mut a: CUDA_MEM_ALLOC_NODE_PARAMS_v2 = busbar_abi::member(&p.u);
                a.dptr = r.va as CUdeviceptr;
                let size = a.bytesize as u64;
                let of = context::home_on(cx, a.poolProps.location.id)?;
                plausible(r.va, size)?;
                cx.state()
                    .ranges
                    .add(r.va, size, Sort::Foreign, of, pool::OF_GRAPH);
                busbar_abi::set_member(&mut p.u, a);
            }
            CU_GRAPH_NODE_TYPE_CONDITIONAL => {
                let mut c: CUDA_CONDITIONAL_NODE_PARAMS = busbar_abi::member(&p.u);
                c.phGraph_out = graph::bodies(cx, node, &r.graphs, c.size as usize)?;
                busbar_abi::set_member(&mut p.u, c);
            }
            _ => {}
        }
    }
    Ok(node)
}

/// Asks for a node's parameters, with handles in the place of ids.
fn get(cx: Cx, node: u32, kind: CUgraphNodeType) -> Result<CUgraphNodeParams> {
    let reply = cx.call(&msg::GraphGetNode { node, kind })?;
    let r = decode::<msg::GraphGetNodeReply<'_>>(&reply)?;
    let mut p: CUgraphNodeParams = busbar_abi::from_bytes(r.params).ok_or(CUDA_ERROR_UNKNOWN)?;
    let raw = |kind: Kind, id: u64| if id == 0 { 0 } else { cx.raw(kind, id as u32) };
    let (u, graphs) = (&mut p.u, &cx.state().graphs);
    match kind {
        CU_GRAPH_NODE_TYPE_KERNEL => {
            let mut k: CUDA_KERNEL_NODE_PARAMS_v3 = busbar_abi::member(u);
            let f = cx.state().functions.get(k.func as u32);
            // A library's kernel is known by its own handle: the runtime knows it by that alone.
            let handle = raw(Kind::Function, k.func as u64);
            (k.func, k.kern) = match f.as_ref().is_some_and(|f| f.library != 0) {
                true => (std::ptr::null_mut(), handle as CUkernel),
                false => (handle as CUfunction, std::ptr::null_mut()),
            };
            k.ctx = raw(Kind::Context, k.ctx as u64) as CUcontext;
            k.extra = std::ptr::null_mut();
            k.kernelParams = f.map_or(0, |f| graphs.store_params(node, r.extra, &f.params)) as _;
            busbar_abi::set_member(u, k);
        }
        CU_GRAPH_NODE_TYPE_MEMCPY => {
            let mut c: CUDA_MEMCPY_NODE_PARAMS = busbar_abi::member(u);
            let q = &mut c.copyParams;
            q.srcArray = raw(Kind::Array, q.srcArray as u64) as CUarray;
            q.dstArray = raw(Kind::Array, q.dstArray as u64) as CUarray;
            // What is host memory here, a mirror stands for.
            (q.srcHost, q.dstHost) = (std::ptr::null(), std::ptr::null_mut());
            graph_host::restore(cx, q, r.mirrors);
            busbar_abi::set_member(u, c);
        }
        CU_GRAPH_NODE_TYPE_GRAPH => u[0] = graph::adopt_inner(cx, node, u[0] as u32)?,
        CU_GRAPH_NODE_TYPE_HOST => {
            let run = callback::of_node(cx, u[0]).ok_or(CUDA_ERROR_UNKNOWN)?;
            let n = CUDA_HOST_NODE_PARAMS {
                r#fn: Some(run.f),
                userData: run.data as *mut c_void,
            };
            busbar_abi::set_member(u, n);
        }
        CU_GRAPH_NODE_TYPE_WAIT_EVENT | CU_GRAPH_NODE_TYPE_EVENT_RECORD => {
            u[0] = raw(Kind::Event, u[0]);
        }
        CU_GRAPH_NODE_TYPE_MEM_ALLOC => {
            let mut a: CUDA_MEM_ALLOC_NODE_PARAMS_v2 = busbar_abi::member(u);
            a.accessDescs = graphs.store_bytes(node, r.extra) as _;
            a.accessDescCount = r.extra.len() / size_of::<CUmemAccessDesc>();
            busbar_abi::set_member(u, a);
        }
        CU_GRAPH_NODE_TYPE_BATCH_MEM_OP => {
            let mut b: CUDA_BATCH_MEM_OP_NODE_PARAMS_v2 = busbar_abi::member(u);
            b.ctx = raw(Kind::Context, b.ctx as u64) as CUcontext;
            b.paramArray = graphs.store_bytes(node, r.extra) as _;
            b.count = (r.extra.len() / size_of::<CUstreamBatchMemOpParams>()) as u32;
            busbar_abi::set_member(u, b);
        }
        _ => {}
    }
    Ok(p)
}

/// Asks for a node's parameters, of which `take` takes what the program wants.
pub fn get_node<T: busbar_abi::Plain>(
    cx: Cx,
    node: u32,
    kind: CUgraphNodeType,
    take: impl FnOnce(&[u64; 29]) -> T,
) -> Result<T> {
    Ok(take(&get(cx, node, kind)?.u))
}

fn wide(k: &CUDA_KERNEL_NODE_PARAMS_v1) -> CUDA_KERNEL_NODE_PARAMS_v3 {
    let mut all: CUDA_KERNEL_NODE_PARAMS_v3 = busbar_abi::zeroed();
    busbar_abi::set_member(&mut all, *k);
    all
}

pub fn memset(s: CUDA_MEMSET_NODE_PARAMS, ctx: CUcontext) -> CUgraphNodeParams {
    let mut all: CUDA_MEMSET_NODE_PARAMS_v2 = busbar_abi::zeroed();
    busbar_abi::set_member(&mut all, s);
    all.ctx = ctx;
    of(CU_GRAPH_NODE_TYPE_MEMSET, all)
}

pub fn memcpy(c: CUDA_MEMCPY3D, ctx: CUcontext) -> CUgraphNodeParams {
    let all = CUDA_MEMCPY_NODE_PARAMS {
        flags: 0,
        reserved: 0,
        copyCtx: ctx,
        copyParams: c,
    };
    of(CU_GRAPH_NODE_TYPE_MEMCPY, all)
}

pub fn kernel_v1(k: CUDA_KERNEL_NODE_PARAMS_v1) -> CUgraphNodeParams {
    of(CU_GRAPH_NODE_TYPE_KERNEL, wide(&k))
}

pub fn kernel_v2(k: CUDA_KERNEL_NODE_PARAMS) -> CUgraphNodeParams {
    of(CU_GRAPH_NODE_TYPE_KERNEL, k)
}

/// What a copy node copies.
pub fn copy_of(u: &[u64; 29]) -> CUDA_MEMCPY3D {
    busbar_abi::member::<CUDA_MEMCPY_NODE_PARAMS, _>(u).copyParams
}

pub fn host(p: CUDA_HOST_NODE_PARAMS) -> CUgraphNodeParams {
    of(CU_GRAPH_NODE_TYPE_HOST, p)
}

pub fn batch(p: CUDA_BATCH_MEM_OP_NODE_PARAMS) -> CUgraphNodeParams {
    of(CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, p)
}

/// Adds a node, whose parameters `make` makes of the program's.
///
/// # Safety
/// The pointers are as the API asks.
pub unsafe fn add_node<T: Copy>(
    cx: Cx,
    graph: u32,
    after: *const CUgraphNode,
    count: usize,
    p: *const T,
    make: impl FnOnce(T) -> CUgraphNodeParams,
) -> Result<u32> {
    let at = (after, std::ptr::null(), count);
    // SAFETY: passed on to the caller.
    unsafe { add(cx, graph, at, &mut make(read(p)?)) }
}

pub unsafe fn cuGraphAddMemAllocNode(
    cx: Cx,
    graph: u32,
    after: *const CUgraphNode,
    count: usize,
    params: *mut CUDA_MEM_ALLOC_NODE_PARAMS,
) -> Result<u32> {
    let at = (after, std::ptr::null(), count);
    // SAFETY: the program's pointers.
    unsafe {
        let mut a = read(params)?;
        let mut p = of(CU_GRAPH_NODE_TYPE_MEM_ALLOC, a);
        let node = add(cx, graph, at, &mut p)?;
        let told: CUDA_MEM_ALLOC_NODE_PARAMS = busbar_abi::member(&p.u);
        a.dptr = told.dptr;
        put(params, a)?;
        Ok(node)
    }
}

pub unsafe fn cuGraphAddNode_v2(
    cx: Cx,
    graph: u32,
    after: *const CUgraphNode,
    data: *const CUgraphEdgeData,
    count: usize,
    params: *mut CUgraphNodeParams,
) -> Result<u32> {
    let at = (after, data, count);
    // SAFETY: the program's pointers.
    unsafe {
        let mut p = read(params)?;
        let node = add(cx, graph, at, &mut p)?;
        if matches!(
            p.r#type,
            CU_GRAPH_NODE_TYPE_MEM_ALLOC | CU_GRAPH_NODE_TYPE_CONDITIONAL
        ) {
            put(params, p)?;
        }
        Ok(node)
    }
}

/// Changes a node of a graph to what `make` makes of the program's parameters.
///
/// # Safety
/// The pointers are as the API asks.
pub unsafe fn set_node<T: Copy>(
    cx: Cx,
    node: u32,
    p: *const T,
    make: impl FnOnce(T) -> CUgraphNodeParams,
) -> Result<()> {
    // SAFETY: passed on to the caller.
    let e = unsafe { encode(cx, &make(read(p)?))? };
    cx.call(&msg::GraphSetNode {
        node,
        params: busbar_abi::bytes_of(&e.p),
        extra: &e.extra,
        mirrors: e.mirrors,
    })
    .map(drop)
}

/// As [`set_node`], of an executable graph.
///
/// # Safety
/// The pointers are as the API asks.
pub unsafe fn exec_set_node<T: Copy>(
    cx: Cx,
    exec: u32,
    node: u32,
    p: *const T,
    make: impl FnOnce(T) -> CUgraphNodeParams,
) -> Result<()> {
    // SAFETY: passed on to the caller.
    let e = unsafe { encode(cx, &make(read(p)?))? };
    let graphs = &cx.state().graphs;
    let seen = seen(cx, &e);
    let earlier = seen
        .as_ref()
        .is_some_and(|s| graphs.was_changed(exec, node, s));
    let m = msg::GraphExecSetNode {
        exec,
        node,
        earlier: earlier.into(),
        params: busbar_abi::bytes_of(&e.p),
        extra: &e.extra,
        mirrors: e.mirrors,
    };
    if m.queued() {
        return cx.send(&m);
    }
    let r = cx.reply_to(&m)?;
    graphs.changed(exec, node, seen);
    graphs.learn(exec, r.sources, r.destinations);
    Ok(())
}

/// What a driver looks at when a node is changed: all but the arguments of a kernel, what is filled
/// in, and where it lies within memory of one context. What it took once it takes again.
fn seen(cx: Cx, e: &Encoded) -> Option<Box<[u8]>> {
    if !e.usual || e.mirrors != [0; 2] {
        return None;
    }
    let mut p = e.p;
    let mut homes = [None; 2];
    match p.r#type {
        CU_GRAPH_NODE_TYPE_KERNEL => {}
        CU_GRAPH_NODE_TYPE_MEMSET => {
            let mut s: CUDA_MEMSET_NODE_PARAMS_v2 = busbar_abi::member(&p.u);
            homes[0] = Some(cx.state().ranges.home(s.dst)?);
            (s.dst, s.value) = (0, 0);
            busbar_abi::set_member(&mut p.u, s);
        }
        CU_GRAPH_NODE_TYPE_MEMCPY => {
            let mut c: CUDA_MEMCPY_NODE_PARAMS = busbar_abi::member(&p.u);
            let q = &mut c.copyParams;
            let on_device = CU_MEMORYTYPE_DEVICE;
            if (q.srcMemoryType, q.dstMemoryType) != (on_device, on_device) {
                return None;
            }
            homes[0] = Some(cx.state().ranges.home(q.srcDevice)?);
            homes[1] = Some(cx.state().ranges.home(q.dstDevice)?);
            (q.srcDevice, q.dstDevice) = (0, 0);
            busbar_abi::set_member(&mut p.u, c);
        }
        _ => return None,
    }
    let mut seen = busbar_abi::bytes_of(&p).to_vec();
    seen.extend(e.extra.len().to_ne_bytes());
    for (context, device) in homes.into_iter().flatten() {
        seen.extend(context.to_ne_bytes());
        seen.extend(device.to_ne_bytes());
    }
    Some(seen.into())
}

pub unsafe fn cuGraphKernelNodeSetAttribute(
    cx: Cx,
    h_node: u32,
    attr: CUkernelNodeAttrID,
    value: *const CUkernelNodeAttrValue,
) -> Result<()> {
    // SAFETY: the program's pointer.
    let given = unsafe { value.as_ref() }.ok_or(CUDA_ERROR_INVALID_VALUE)?;
    cx.call(&msg::CuGraphKernelNodeSetAttribute {
        h_node,
        attr,
        value: busbar_abi::to_array(given),
    })?;
    if attr != CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE {
        return Ok(());
    }
    // The name by which kernels know the node comes back in the value, constant or not. It is
    // the driver's own.
    let told = cx.reply_to(&msg::CuGraphKernelNodeGetAttribute { h_node, attr })?;
    let told = busbar_abi::from_bytes(&told.value_out).ok_or(CUDA_ERROR_UNKNOWN)?;
    // SAFETY: as above; programs give a variable here, as they look at it afterwards.
    unsafe { put(value.cast_mut(), told) }
}
