//! A node's parameters: from the client's ids to the driver's handles, and back.

use super::address::{check_destination, check_source};
use super::graph_host::mirror;
use super::graph_walk::ends;
use super::prelude::*;
use super::reach;
use super::state::handles::pointers;
use super::state::host_node::{HostNode, host_node};
use super::submit::{EXTRA_END, EXTRA_POINTER, EXTRA_SIZE, in_one_piece};
use std::any::Any;

/// Parameters for the driver, and all that their pointers point to.
pub struct Params {
    /// The structure.
    pub p: CUgraphNodeParams,
    /// What must live as long as the node.
    pub keep: Vec<Box<dyn Any + Send>>,
    bytes: Vec<u8>,
    size: Box<usize>,
    list: Vec<*mut c_void>,
    ops: Vec<CUstreamBatchMemOpParams>,
    descs: Vec<CUmemAccessDesc>,
}

fn context(w: &mut Cuda, id: CUcontext) -> Result<CUcontext> {
    let id = if id.is_null() { w.current } else { id as u32 };
    Ok(w.handle(Kind::Context, id)? as CUcontext)
}

impl Params {
    /// A kernel's arguments as the driver takes them: pointers to each, or all in one piece.
    fn kernel(&mut self, w: &mut Cuda) -> Result {
        let mut k: CUDA_KERNEL_NODE_PARAMS_v3 = busbar_abi::member(&self.p.u);
        let id = k.func as u32;
        if w.gate.is_limited() {
            w.charge_locals(id)?;
        }
        let f = w.handles.function(id)?.clone();
        k.ctx = context(w, k.ctx)?;
        (k.func, k.kern) = if f.kernel {
            (std::ptr::null_mut(), f.raw as CUkernel)
        } else {
            (f.raw as CUfunction, std::ptr::null_mut())
        };
        k.kernelParams = std::ptr::null_mut();
        k.extra = std::ptr::null_mut();
        if pointers(f.layout(), &self.bytes, &mut self.list) {
            k.kernelParams = self.list.as_mut_ptr();
        } else if !self.bytes.is_empty() {
            self.list = in_one_piece(&self.bytes, &mut self.size).to_vec();
            k.extra = self.list.as_mut_ptr();
        }
        busbar_abi::set_member(&mut self.p.u, k);
        Ok(())
    }

    fn copy(&mut self, w: &mut Cuda, mirrors: [u32; 2]) -> Result {
        let mut c: CUDA_MEMCPY_NODE_PARAMS = busbar_abi::member(&self.p.u);
        c.copyCtx = context(w, c.copyCtx)?;
        let q = &mut c.copyParams;
        if !q.srcArray.is_null() {
            q.srcArray = w.handle(Kind::Array, q.srcArray as u32)? as CUarray;
        }
        if !q.dstArray.is_null() {
            q.dstArray = w.handle(Kind::Array, q.dstArray as u32)? as CUarray;
        }
        self.keep = mirror(w, q, mirrors)?;
        if mirrors[0] == 0 {
            check_source(w, q)?;
        }
        if mirrors[1] == 0 {
            check_destination(w, q)?;
        }
        c.copyCtx = reach::node(w, c.copyCtx, &c.copyParams)?;
        busbar_abi::set_member(&mut self.p.u, c);
        Ok(())
    }

    fn allocation(&mut self, w: &mut Cuda, extra: &[u8]) -> Result {
        let mut a: CUDA_MEM_ALLOC_NODE_PARAMS_v2 = busbar_abi::member(&self.p.u);
        w.locate(&mut a.poolProps.location)?;
        self.descs = busbar_abi::items_from_bytes(extra).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        for d in &mut self.descs {
            w.locate(&mut d.location)?;
        }
        a.poolProps.win32SecurityAttributes = std::ptr::null_mut();
        a.accessDescCount = self.descs.len();
        a.accessDescs = if self.descs.is_empty() {
            std::ptr::null()
        } else {
            self.descs.as_ptr()
        };
        busbar_abi::set_member(&mut self.p.u, a);
        Ok(())
    }
}

/// The driver's parameters for what the client sent.
pub fn build(w: &mut Cuda, params: &[u8], extra: &[u8], mirrors: [u32; 2]) -> Result<Params> {
    let p: CUgraphNodeParams = busbar_abi::from_bytes(params).ok_or(CUDA_ERROR_INVALID_VALUE)?;
    let bytes = extra.to_vec();
    let mut out = Params {
        p,
        keep: Vec::new(),
        size: Box::new(bytes.len()),
        bytes,
        list: Vec::new(),
        ops: Vec::new(),
        descs: Vec::new(),
    };
    let u = &mut out.p.u;
    match p.r#type {
        CU_GRAPH_NODE_TYPE_KERNEL => out.kernel(w)?,
        CU_GRAPH_NODE_TYPE_MEMCPY => out.copy(w, mirrors)?,
        CU_GRAPH_NODE_TYPE_MEMSET => {
            let mut s: CUDA_MEMSET_NODE_PARAMS_v2 = busbar_abi::member(u);
            s.ctx = context(w, s.ctx)?;
            w.address(s.dst)?;
            busbar_abi::set_member(u, s);
        }
        CU_GRAPH_NODE_TYPE_HOST => {
            let call = HostNode::new(Arc::new(w.promises.take(u[0], false)));
            let n = CUDA_HOST_NODE_PARAMS_v2 {
                r#fn: Some(host_node),
                userData: call.data(),
            };
            out.keep.push(Box::new(call));
            busbar_abi::set_member(u, n);
        }
        CU_GRAPH_NODE_TYPE_GRAPH => {
            let id: u64 = busbar_abi::member(u);
            u[0] = w.handle(Kind::Graph, id as u32)?;
        }
        CU_GRAPH_NODE_TYPE_WAIT_EVENT | CU_GRAPH_NODE_TYPE_EVENT_RECORD => {
            u[0] = w.handle(Kind::Event, u[0] as u32)?;
        }
        CU_GRAPH_NODE_TYPE_MEM_ALLOC => out.allocation(w, extra)?,
        CU_GRAPH_NODE_TYPE_BATCH_MEM_OP => {
            let mut b: CUDA_BATCH_MEM_OP_NODE_PARAMS_v2 = busbar_abi::member(u);
            b.ctx = context(w, b.ctx)?;
            out.ops = busbar_abi::items_from_bytes(extra).ok_or(CUDA_ERROR_INVALID_VALUE)?;
            w.operations(&out.ops)?;
            b.count = out.ops.len() as u32;
            b.paramArray = out.ops.as_mut_ptr();
            busbar_abi::set_member(u, b);
        }
        CU_GRAPH_NODE_TYPE_CONDITIONAL => {
            let mut c: CUDA_CONDITIONAL_NODE_PARAMS = busbar_abi::member(u);
            c.ctx = context(w, c.ctx)?;
            c.phGraph_out = std::ptr::null_mut();
            busbar_abi::set_member(u, c);
        }
        CU_GRAPH_NODE_TYPE_MEM_FREE => {
            w.address(u[0])?;
        }
        CU_GRAPH_NODE_TYPE_EMPTY => {}
        _ => return Err(CUDA_ERROR_NOT_SUPPORTED),
    }
    Ok(out)
}

/// What the client gets when it asks for a node's parameters.
pub struct Told {
    /// A `CUgraphNodeParams` with ids.
    pub p: CUgraphNodeParams,
    /// What its pointers point to.
    pub extra: Vec<u8>,
    /// The mirrors of a copy's ends.
    pub mirrors: [u32; 2],
}

/// The parameters of a kernel node, packed as the kernel takes them.
fn packed(w: &Cuda, k: &CUDA_KERNEL_NODE_PARAMS) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    if k.kernelParams.is_null() {
        let mut at = k.extra;
        let (mut p, mut n) = (std::ptr::null::<u8>(), 0);
        // SAFETY: the driver's list of keys and values, which a zero ends.
        while !at.is_null() && unsafe { at.read() as usize } != EXTRA_END {
            // SAFETY: as above.
            let (key, value) = unsafe { (at.read() as usize, at.add(1).read()) };
            match key {
                EXTRA_POINTER => p = value.cast(),
                // SAFETY: the value is a pointer to a size.
                EXTRA_SIZE => n = unsafe { value.cast::<usize>().read() },
                _ => return Err(CUDA_ERROR_NOT_SUPPORTED),
            }
            // SAFETY: as above.
            at = unsafe { at.add(2) };
        }
        if !p.is_null() {
            // SAFETY: the driver's buffer of `n` bytes.
            out.extend_from_slice(unsafe { std::slice::from_raw_parts(p, n) });
        }
        return Ok(out);
    }
    for i in 0.. {
        let (mut offset, mut size) = (0, 0);
        // SAFETY: a live function or kernel and pointers to live numbers.
        let rc = quietly(|| unsafe {
            if k.func.is_null() {
                w.cuKernelGetParamInfo(k.kern, i, &mut offset, &mut size)
            } else {
                w.cuFuncGetParamInfo(k.func, i, &mut offset, &mut size)
            }
        });
        if rc != CUDA_SUCCESS {
            break;
        }
        out.resize(out.len().max(offset + size), 0);
        // SAFETY: the driver has a pointer for each of the kernel's parameters.
        unsafe {
            let from = k.kernelParams.add(i).read().cast::<u8>();
            std::ptr::copy_nonoverlapping(from, out.as_mut_ptr().add(offset), size);
        }
    }
    Ok(out)
}

/// Asks the driver for a node's parameters. `kind` is what the client believes it to be.
pub fn tell(w: &mut Cuda, (id, node): (u32, CUgraphNode), kind: u32) -> Result<Told> {
    let mut t = Told {
        p: busbar_abi::zeroed(),
        extra: Vec::new(),
        mirrors: [0; 2],
    };
    let d = w.driver;
    t.p.r#type = kind;
    let u = &mut t.p.u;
    match kind {
        CU_GRAPH_NODE_TYPE_KERNEL => {
            let mut k: CUDA_KERNEL_NODE_PARAMS = busbar_abi::zeroed();
            // SAFETY: a live node and a pointer to a live structure.
            check(unsafe { d.cuGraphKernelNodeGetParams_v2(node, &mut k) })?;
            t.extra = packed(w, &k)?;
            k.func = w.handles.function_id(k.func as u64, k.kern as u64) as usize as CUfunction;
            k.kern = std::ptr::null_mut();
            k.ctx = w.known(Kind::Context, k.ctx as u64) as usize as CUcontext;
            k.kernelParams = std::ptr::null_mut();
            k.extra = std::ptr::null_mut();
            busbar_abi::set_member(u, k);
        }
        CU_GRAPH_NODE_TYPE_MEMCPY => {
            let mut c: CUDA_MEMCPY_NODE_PARAMS = busbar_abi::zeroed();
            // SAFETY: as above.
            check(unsafe { d.cuGraphMemcpyNodeGetParams(node, &mut c.copyParams) })?;
            let (src, dst) = ends(w, &c.copyParams);
            t.mirrors = [src, dst].map(|m| m.map_or(0, |m| m.id));
            let q = &mut c.copyParams;
            q.srcArray = w.known(Kind::Array, q.srcArray as u64) as usize as CUarray;
            q.dstArray = w.known(Kind::Array, q.dstArray as u64) as usize as CUarray;
            busbar_abi::set_member(u, c);
        }
        CU_GRAPH_NODE_TYPE_MEMSET => {
            let mut s: CUDA_MEMSET_NODE_PARAMS = busbar_abi::zeroed();
            // SAFETY: as above.
            check(unsafe { d.cuGraphMemsetNodeGetParams(node, &mut s) })?;
            busbar_abi::set_member(u, s);
        }
        CU_GRAPH_NODE_TYPE_HOST => {
            u[0] = host(w, node)?.map_or(0, |n| n.promised.token());
        }
        CU_GRAPH_NODE_TYPE_GRAPH => {
            let mut g = std::ptr::null_mut();
            // SAFETY: as above.
            check(unsafe { d.cuGraphChildGraphNodeGetGraph(node, &mut g) })?;
            u[0] = u64::from(w.adopt(Kind::Graph, g as u64, &[(Kind::GraphNode, id)]));
        }
        CU_GRAPH_NODE_TYPE_WAIT_EVENT | CU_GRAPH_NODE_TYPE_EVENT_RECORD => {
            let mut e = std::ptr::null_mut();
            // SAFETY: as above.
            check(unsafe {
                if kind == CU_GRAPH_NODE_TYPE_WAIT_EVENT {
                    d.cuGraphEventWaitNodeGetEvent(node, &mut e)
                } else {
                    d.cuGraphEventRecordNodeGetEvent(node, &mut e)
                }
            })?;
            u[0] = u64::from(w.known(Kind::Event, e as u64));
        }
        CU_GRAPH_NODE_TYPE_MEM_ALLOC => {
            let mut a: CUDA_MEM_ALLOC_NODE_PARAMS = busbar_abi::zeroed();
            // SAFETY: as above.
            check(unsafe { d.cuGraphMemAllocNodeGetParams(node, &mut a) })?;
            let logical = |id: i32| w.devices.iter().position(|d| *d == id).unwrap_or(0) as i32;
            let mut descs = Vec::new();
            for i in 0..a.accessDescCount {
                // SAFETY: the driver's array of that many descriptions.
                let mut desc = unsafe { a.accessDescs.add(i).read() };
                desc.location.id = logical(desc.location.id);
                descs.push(desc);
            }
            t.extra = busbar_abi::slice_bytes(&descs).to_vec();
            a.poolProps.location.id = logical(a.poolProps.location.id);
            a.accessDescs = std::ptr::null();
            busbar_abi::set_member(u, a);
        }
        CU_GRAPH_NODE_TYPE_BATCH_MEM_OP => {
            let mut b: CUDA_BATCH_MEM_OP_NODE_PARAMS = busbar_abi::zeroed();
            // SAFETY: as above.
            check(unsafe { d.cuGraphBatchMemOpNodeGetParams(node, &mut b) })?;
            if !b.paramArray.is_null() {
                // SAFETY: the driver's array of `count` operations.
                let ops = unsafe { std::slice::from_raw_parts(b.paramArray, b.count as usize) };
                t.extra = busbar_abi::slice_bytes(ops).to_vec();
            }
            b.ctx = w.known(Kind::Context, b.ctx as u64) as usize as CUcontext;
            b.paramArray = std::ptr::null_mut();
            busbar_abi::set_member(u, b);
        }
        _ => return Err(CUDA_ERROR_INVALID_VALUE),
    }
    Ok(t)
}

/// What a host node calls, if it is one of the program's.
pub fn host(w: &Cuda, node: CUgraphNode) -> Result<Option<Arc<HostNode>>> {
    let mut n: CUDA_HOST_NODE_PARAMS = busbar_abi::zeroed();
    // SAFETY: a live node and a pointer to a live structure.
    check(unsafe { w.cuGraphHostNodeGetParams(node, &mut n) })?;
    let ours = n
        .r#fn
        .is_some_and(|f| std::ptr::fn_addr_eq(f, host_node as unsafe extern "C" fn(_)));
    Ok(ours.then(|| HostNode::of(n.userData)).flatten())
}
