//! Launches: the hottest path there is. A launch is checked here, as far as CUDA reports mistakes
//! at once, packed, and queued; nothing waits.

use super::addresses;
use super::context;
use super::event;
use super::handles::Side;
use super::runtime::{Cx, decode, enter, guard};
use super::{shadow, stream};
use busbar_abi::cuda::*;
use busbar_abi::{member, set_member, slice_bytes};
use busbar_wire::generated::cuda::{self as msg, Kind, op};
use std::ffi::{CString, c_void};
use std::sync::atomic::{AtomicI32, Ordering};

/// How many attributes of a function there are.
pub const ATTRIBUTES: usize = 16;
const MAX_THREADS: usize = 0;
const STATIC_SHARED: usize = 1;
const REGISTERS: usize = 4;
const MAX_DYNAMIC_SHARED: usize = 8;

/// The most bytes of parameters that any kernel has.
const MOST_PARAMS: u32 = 1 << 15;

/// How many bytes parameters (offset and size of each) take; `None` if no kernel has such. They lie
/// one behind the other, so that there are no more of them, and no more of the program's bytes are
/// read for them, than that.
fn extent(params: &[(u32, u32)]) -> Option<u32> {
    let end = params.iter().try_fold(0u32, |end, (offset, n)| {
        let fits = *offset >= end && *n > 0;
        fits.then(|| offset.checked_add(*n)).flatten()
    })?;
    (end <= MOST_PARAMS).then_some(end)
}

/// What the client knows of a kernel or function.
#[derive(Debug)]
pub struct Function {
    /// Its name.
    pub name: CString,
    /// Offset and size of each parameter.
    pub params: Vec<(u32, u32)>,
    /// Bytes of the packed parameters.
    pub packed: u32,
    /// The attributes, as `cuFuncGetAttribute` numbers them.
    pub attributes: [AtomicI32; ATTRIBUTES],
    /// The library it is a kernel of; 0 for a module's function.
    pub library: u32,
    /// The module it is a function of; 0 for a library's kernel.
    pub module: u32,
    /// Where its parameters have addresses of page-locked memory.
    pub places: addresses::Places,
}

/// Functions by id.
pub static FUNCTIONS: Side<Function> = Side::new();

impl Function {
    /// From the worker's description: parameters as offset and size in turn, and the attributes. An
    /// error when they make no sense: launches write what they say.
    pub fn new(
        name: CString,
        params: &[u32],
        attributes: &[u32],
        library: u32,
        module: u32,
    ) -> Result<Self, CUresult> {
        let params: Vec<_> = params.chunks_exact(2).map(|p| (p[0], p[1])).collect();
        let packed = extent(&params).ok_or_else(|| {
            crate::log!(Error, "the worker says that {name:?} takes {params:?}");
            CUDA_ERROR_UNKNOWN
        })?;
        let value = |i: usize| AtomicI32::new(attributes.get(i).copied().unwrap_or(0) as i32);
        Ok(Self {
            name,
            params,
            packed,
            attributes: std::array::from_fn(value),
            library,
            module,
            places: addresses::Places::default(),
        })
    }

    /// An attribute's value.
    pub fn attribute(&self, i: usize) -> i32 {
        self.attributes[i].load(Ordering::Relaxed)
    }
}

/// The id of a function handle, and what is known of it.
#[inline]
pub fn function(cx: Cx, raw: CUfunction) -> Result<(u32, &'static Function), CUresult> {
    let id = cx.handle(Kind::Function, raw as u64)?;
    FUNCTIONS
        .get(id)
        .map(|f| (id, f))
        .ok_or(CUDA_ERROR_INVALID_HANDLE)
}

/// Where the parameters of a launch are.
enum Params<'a> {
    /// One pointer each.
    Each(*mut *mut c_void),
    /// Packed by the program.
    Packed(&'a [u8]),
}

const EXTRA_END: u64 = 0;
const EXTRA_POINTER: u64 = 1;
const EXTRA_SIZE: u64 = 2;

/// Reads the `extra` list of a launch.
unsafe fn read_extra<'a>(extra: *mut *mut c_void) -> Result<&'a [u8], CUresult> {
    let (mut p, mut n) = (std::ptr::null::<u8>(), 0usize);
    let mut i = 0;
    while i < 16 {
        // SAFETY: the program's list, which ends with a zero.
        let key = unsafe { extra.add(i).read() } as u64;
        if key == EXTRA_END {
            break;
        }
        // SAFETY: each key but the last is followed by its value.
        let value = unsafe { extra.add(i + 1).read() };
        match key {
            EXTRA_POINTER => p = value.cast(),
            // SAFETY: the value is a pointer to a size.
            EXTRA_SIZE => n = unsafe { value.cast::<usize>().read_unaligned() },
            _ => return Err(CUDA_ERROR_INVALID_VALUE),
        }
        i += 2;
    }
    if n > 0 && p.is_null() || n > 1 << 16 {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    Ok(if n == 0 {
        &[]
    } else {
        // SAFETY: the program says that `n` bytes lie there.
        unsafe { std::slice::from_raw_parts(p, n) }
    })
}

/// `CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH`, and then height and depth.
const REQUIRED_CLUSTER: usize = 11;

/// What CUDA refuses before it queues a launch.
#[inline]
fn check(f: &Function, grid: [u32; 3], block: [u32; 3], shared: u32) -> Result<(), CUresult> {
    // No two of them go beyond 64 bits, and the third must be small.
    let threads = u64::from(block[0]) * u64::from(block[1]);
    let threads = threads.saturating_mul(u64::from(block[2]));
    let bad = threads == 0
        || threads > 1024
        || block[2] > 64
        || grid.contains(&0)
        || grid[0] > i32::MAX as u32
        || grid[1] > 65535
        || grid[2] > 65535
        || i64::from(shared) > i64::from(f.attribute(MAX_DYNAMIC_SHARED));
    if bad {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    if threads > f.attribute(MAX_THREADS) as u64 {
        return Err(too_many(f, threads));
    }
    // Clusters that the kernel was compiled for must fill the grid.
    for (i, blocks) in grid.iter().enumerate() {
        let cluster = f.attribute(REQUIRED_CLUSTER + i);
        if cluster > 1 && !blocks.is_multiple_of(cluster as u32) {
            return Err(CUDA_ERROR_INVALID_CLUSTER_SIZE);
        }
    }
    Ok(())
}

/// What is wrong with a block that the kernel cannot have: it was compiled for less, or there are
/// not as many registers.
#[cold]
fn too_many(f: &Function, threads: u64) -> CUresult {
    // Warps get theirs in portions of 256.
    let warps = threads.div_ceil(32).next_multiple_of(4);
    let each = (f.attribute(REGISTERS).max(0) as u64 * 32).next_multiple_of(256);
    if warps * each > 65536 {
        CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES
    } else {
        CUDA_ERROR_INVALID_VALUE
    }
}

/// Packs each parameter where the kernel looks for it.
#[inline]
unsafe fn pack(f: &Function, params: &Params<'_>, out: &mut Vec<u8>) {
    match params {
        Params::Packed(bytes) => out.extend_from_slice(bytes),
        Params::Each(list) => {
            let start = out.len();
            out.resize(start + f.packed as usize, 0);
            for (i, (offset, size)) in f.params.iter().enumerate() {
                // SAFETY: the program gives one valid pointer for each parameter of the kernel,
                // and each parameter ends within the packed bytes.
                unsafe {
                    let from = list.add(i).read();
                    let to = out.as_mut_ptr().add(start + *offset as usize);
                    std::ptr::copy_nonoverlapping(from.cast::<u8>(), to, *size as usize);
                }
            }
        }
    }
}

/// Refuses a cooperative launch whose blocks cannot all run at once.
#[cold]
fn check_fits(
    cx: Cx,
    function: u32,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
) -> Result<(), CUresult> {
    let each = msg::CuOccupancyMaxActiveBlocksPerMultiprocessor {
        func: function,
        block_size: (block[0] * block[1] * block[2]) as i32,
        dynamic_s_mem_size: u64::from(shared),
    };
    let reply = cx.cached(&each)?;
    let each = decode::<msg::CuOccupancyMaxActiveBlocksPerMultiprocessorReply>(&reply)?.num_blocks;
    let count = CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT as i32;
    let all = context::device_of(cx)?.attributes.get(&count);
    let most = u128::from(each as u32) * u128::from(*all.unwrap_or(&0) as u32);
    let blocks: u128 = grid.iter().map(|n| u128::from(*n)).product();
    if blocks > most {
        return Err(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
    }
    Ok(())
}

/// A launch, checked and about to be queued.
struct Launch<'a> {
    function: u32,
    stream: u32,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    flags: u32,
    attrs: &'a [u8],
    /// Whether the driver has nothing to refuse that was not checked here.
    usual: bool,
}

/// `LaunchKernel.flags`: a cooperative launch.
pub const COOPERATIVE: u32 = 1;

/// Where a launch's parameters are.
#[inline]
unsafe fn params<'a>(
    f: &Function,
    kernel_params: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Result<Params<'a>, CUresult> {
    if !kernel_params.is_null() {
        if !extra.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let null = (0..f.params.len())
            // SAFETY: the program gives one pointer for each parameter of the kernel.
            .any(|i| unsafe { kernel_params.add(i).read() }.is_null());
        if null {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        Ok(Params::Each(kernel_params))
    } else if !extra.is_null() {
        // SAFETY: the program's list.
        Ok(Params::Packed(unsafe { read_extra(extra)? }))
    } else if f.params.is_empty() {
        Ok(Params::Packed(&[]))
    } else {
        Err(CUDA_ERROR_INVALID_VALUE)
    }
}

/// A kernel node's parameters, checked and packed.
///
/// # Safety
/// The pointers are as for a launch.
pub(super) unsafe fn for_node(
    f: &Function,
    (grid, block, shared): ([u32; 3], [u32; 3], u32),
    kernel_params: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Result<Vec<u8>, CUresult> {
    check(f, grid, block, shared)?;
    let mut out = Vec::new();
    // SAFETY: passed on to the caller.
    unsafe { pack(f, &params(f, kernel_params, extra)?, &mut out) };
    Ok(out)
}

/// Queues a launch, or waits for what the driver says of it where that is not `usual`: then also
/// the name by which kernels know the node that it has become, if they may change it, else 0.
unsafe fn queue(
    cx: Cx,
    f: &Function,
    l: &Launch<'_>,
    kernel_params: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Result<u64, CUresult> {
    // SAFETY: passed on to the caller.
    let params = unsafe { params(f, kernel_params, extra)? };
    let mut known = Vec::new();
    let params = if shadow::concerns_launches() {
        // SAFETY: passed on to the caller.
        unsafe { pack(f, &params, &mut known) };
        addresses::translate(cx, f, &mut known)?;
        if shadow::active() {
            shadow::work(cx, l.stream, false)?;
        }
        Params::Packed(&known)
    } else {
        params
    };
    if !l.usual {
        let mut packed = Vec::new();
        // SAFETY: passed on to the caller.
        unsafe { pack(f, &params, &mut packed) };
        let reply = cx.call(&msg::LaunchNow {
            function: l.function,
            stream: l.stream,
            grid: l.grid,
            block: l.block,
            shared: l.shared,
            flags: l.flags,
            attrs: l.attrs,
            params: &packed,
        })?;
        return Ok(decode::<msg::LaunchNowReply>(&reply)?.node);
    }
    // Written field by field into the queue, as the message `LaunchKernel` encodes itself: this is
    // the one call whose cost a program feels, and a copy of its parameters in between is a third
    // of it.
    let sent = cx.rt.session.queue_raw(op::LAUNCH_KERNEL, cx.scope, |out| {
        let [gx, gy, gz] = l.grid;
        let [bx, by, bz] = l.block;
        let words = [
            l.function, l.stream, gx, gy, gz, bx, by, bz, l.shared, l.flags,
        ];
        for w in words {
            out.extend_from_slice(&w.to_le_bytes());
        }
        out.extend_from_slice(&(l.attrs.len() as u32).to_le_bytes());
        out.extend_from_slice(l.attrs);
        let at = out.len();
        out.extend_from_slice(&[0; 4]);
        // SAFETY: passed on to the caller.
        unsafe { pack(f, &params, out) };
        let n = (out.len() - at - 4) as u32;
        out[at..at + 4].copy_from_slice(&n.to_le_bytes());
    });
    sent.and_then(|()| cx.queued_one())
        .map_err(|_| CUDA_ERROR_DEVICE_UNAVAILABLE)?;
    Ok(0)
}

#[expect(clippy::too_many_arguments, reason = "the API's own")]
unsafe fn launch(
    f: CUfunction,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    stream: CUstream,
    flags: u32,
    kernel_params: *mut *mut c_void,
    extra: *mut *mut c_void,
    per_thread: bool,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        cx.need_context()?;
        let (id, info) = function(cx, f)?;
        check(info, grid, block, shared)?;
        if flags & COOPERATIVE != 0 {
            check_fits(cx, id, grid, block, shared)?;
        }
        let stream = stream::id(cx, stream, per_thread)?;
        stream::not_void(cx, stream)?;
        let l = Launch {
            function: id,
            stream,
            grid,
            block,
            shared,
            flags,
            attrs: &[],
            usual: true,
        };
        // SAFETY: the program's parameters.
        unsafe { queue(cx, info, &l, kernel_params, extra).map(drop) }
    })
}

/// A launch whose parameters are packed already.
pub(super) fn launch_packed(
    cx: Cx,
    f: CUfunction,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    stream: CUstream,
    params: &[u8],
) -> Result<(), CUresult> {
    cx.need_context()?;
    let (function, info) = function(cx, f)?;
    check(info, grid, block, shared)?;
    if params.len() < info.packed as usize {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let stream = stream::id(cx, stream, false)?;
    cx.send(&msg::LaunchKernel {
        function,
        stream,
        grid,
        block,
        shared,
        flags: 0,
        attrs: &[],
        params: &params[..info.packed as usize],
    })
}

pub(super) unsafe fn cuLaunchKernel(
    f: CUfunction,
    gx: u32,
    gy: u32,
    gz: u32,
    bx: u32,
    by: u32,
    bz: u32,
    shared: u32,
    stream: CUstream,
    kernel_params: *mut *mut c_void,
    extra: *mut *mut c_void,
    per_thread: bool,
) -> CUresult {
    let (grid, block) = ([gx, gy, gz], [bx, by, bz]);
    // SAFETY: passed on to the caller.
    unsafe {
        launch(
            f,
            grid,
            block,
            shared,
            stream,
            0,
            kernel_params,
            extra,
            per_thread,
        )
    }
}

pub(super) unsafe fn cuLaunchCooperativeKernel(
    f: CUfunction,
    gx: u32,
    gy: u32,
    gz: u32,
    bx: u32,
    by: u32,
    bz: u32,
    shared: u32,
    stream: CUstream,
    kernel_params: *mut *mut c_void,
    per_thread: bool,
) -> CUresult {
    let (grid, block, none) = ([gx, gy, gz], [bx, by, bz], std::ptr::null_mut());
    let flags = COOPERATIVE;
    // SAFETY: passed on to the caller.
    unsafe {
        launch(
            f,
            grid,
            block,
            shared,
            stream,
            flags,
            kernel_params,
            none,
            per_thread,
        )
    }
}

/// Whether the driver will take an attribute of a launch, as far as is known here.
fn usual(f: &Function, grid: [u32; 3], a: &CUlaunchAttribute) -> bool {
    match a.id {
        CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION => {
            let cluster: [u32; 3] = member(&a.value);
            // More than this some devices allow, when the kernel does.
            const ALWAYS: u64 = 8;
            let blocks: u64 = cluster.iter().map(|n| u64::from(*n)).product();
            let fits = |i: usize| {
                let own = f.attribute(REQUIRED_CLUSTER + i);
                let (all, n) = (grid[i], cluster[i]);
                n > 0 && all.is_multiple_of(n) && (own == 0 || own as u32 == n)
            };
            blocks <= ALWAYS && (0..3).all(fits)
        }
        CU_LAUNCH_ATTRIBUTE_IGNORE
        | CU_LAUNCH_ATTRIBUTE_COOPERATIVE
        | CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE
        | CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        | CU_LAUNCH_ATTRIBUTE_PRIORITY
        | CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN => true,
        _ => false,
    }
}

/// Launch attributes as they travel: events by id instead of by handle.
pub(super) unsafe fn attributes(
    cx: Cx,
    config: &CUlaunchConfig,
) -> Result<Vec<CUlaunchAttribute>, CUresult> {
    let n = config.numAttrs as usize;
    if n == 0 {
        return Ok(Vec::new());
    }
    if config.attrs.is_null() || n > 64 {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: the program's array of `n` attributes.
    let mut attrs = unsafe { std::slice::from_raw_parts(config.attrs, n) }.to_vec();
    for a in &mut attrs {
        if let CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT
        | CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT = a.id
        {
            event::recorded_unseen();
            let event = cx.handle(Kind::Event, member(&a.value))?;
            set_member(&mut a.value, u64::from(event));
        }
    }
    Ok(attrs)
}

pub(super) unsafe fn cuLaunchKernelEx(
    config: *const CUlaunchConfig,
    f: CUfunction,
    kernel_params: *mut *mut c_void,
    extra: *mut *mut c_void,
    per_thread: bool,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        cx.need_context()?;
        // SAFETY: the program's pointer.
        let c = unsafe { config.as_ref() }.ok_or(CUDA_ERROR_INVALID_VALUE)?;
        let (function, info) = function(cx, f)?;
        let grid = [c.gridDimX, c.gridDimY, c.gridDimZ];
        let block = [c.blockDimX, c.blockDimY, c.blockDimZ];
        check(info, grid, block, c.sharedMemBytes)?;
        // SAFETY: as above.
        let attrs = unsafe { attributes(cx, c)? };
        let has = |id| attrs.iter().position(|a| a.id == id);
        let cooperative = has(CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
            .is_some_and(|i| member::<i32, _>(&attrs[i].value) != 0);
        // How many clusters fit is another question, which is left to the driver.
        if cooperative && has(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION).is_none() {
            check_fits(cx, function, grid, block, c.sharedMemBytes)?;
        }
        let stream = stream::id(cx, c.hStream, per_thread)?;
        stream::not_void(cx, stream)?;
        let updatable = has(CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE);
        let l = Launch {
            function,
            stream,
            grid,
            block,
            shared: c.sharedMemBytes,
            flags: 0,
            attrs: slice_bytes(&attrs),
            usual: updatable.is_none() && attrs.iter().all(|a| usual(info, grid, a)),
        };
        // SAFETY: the program's parameters.
        let node = unsafe { queue(cx, info, &l, kernel_params, extra)? };
        if let Some(i) = updatable {
            // SAFETY: the attribute is one of the program's, and its value, a number and then the
            // name of the node, is for us to write.
            unsafe {
                let value = (&raw mut (*c.attrs.add(i)).value).cast::<u64>();
                value.add(1).write_unaligned(node);
            }
        }
        Ok(())
    })
}

pub(super) unsafe fn cuLaunchHostFunc(
    stream: CUstream,
    f: CUhostFn,
    data: *mut c_void,
    per_thread: bool,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let Some(f) = f else {
            return Err(CUDA_ERROR_INVALID_VALUE);
        };
        let stream = stream::id(cx, stream, per_thread)?;
        stream::not_void(cx, stream)?;
        super::callback::queue_host_function(cx, stream, f, data)
    })
}

/// Static shared memory of a function, in bytes.
pub fn static_shared(f: &Function) -> i32 {
    f.attribute(STATIC_SHARED)
}

// The calls from before CUDA 4 have a file of their own.
pub(super) use super::launch_old::*;
