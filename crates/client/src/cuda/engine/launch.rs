//! Launches: the hottest path there is. A launch is checked here, as far as CUDA reports mistakes
//! at once, packed, and queued; nothing waits.

use super::prelude::*;
use crate::cuda::call::thread;
use crate::cuda::engine::{addresses, context};
use crate::cuda::state::functions::{Function, MAX_DYNAMIC_SHARED, MAX_THREADS, REGISTERS};
use crate::cuda::state::repeats::{LONG, Sent};
use busbar_abi::{member, set_member};
use busbar_channel::Closed;
use busbar_wire::generated::cuda::op;

/// The id of a function handle, and what is known of it.
#[inline]
pub fn function(cx: Cx, raw: CUfunction) -> Result<(u32, &'static Function), CUresult> {
    let id = cx.handle(Kind::Function, raw as u64)?;
    cx.state()
        .functions
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

impl Params<'_> {
    /// How many bytes they are, packed.
    #[inline]
    fn len(&self, f: &Function) -> usize {
        match self {
            Self::Each(_) => f.packed as usize,
            Self::Packed(bytes) => bytes.len(),
        }
    }
}

const EXTRA_END: u64 = 0;
const EXTRA_POINTER: u64 = 1;
const EXTRA_SIZE: u64 = 2;

/// The `extra` list of a launch with packed parameters, whose number of bytes is at `size`.
pub fn extra(params: &[u8], size: &mut usize) -> [*mut c_void; 5] {
    let word = |key: u64| std::ptr::without_provenance_mut(key as usize);
    let (at, size) = (params.as_ptr().cast_mut().cast(), std::ptr::from_mut(size));
    let (pointer, length) = (word(EXTRA_POINTER), word(EXTRA_SIZE));
    [pointer, at, length, size.cast(), word(EXTRA_END)]
}

/// Reads the `extra` list of a launch. A kernel may be given fewer bytes than it takes, but neither
/// none nor more.
unsafe fn read_extra<'a>(f: &Function, extra: *mut *mut c_void) -> Result<&'a [u8], CUresult> {
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
    let takes = f.packed as usize;
    let missing = if n == 0 { takes > 0 } else { p.is_null() };
    refuse_if(missing, CUDA_ERROR_INVALID_VALUE)?;
    refuse_if(n > takes, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES)?;
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
pub fn check(
    cx: Cx,
    f: &Function,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
) -> Result<(), CUresult> {
    const ASKED: [usize; 4] = [
        MAX_DYNAMIC_SHARED,
        REQUIRED_CLUSTER,
        REQUIRED_CLUSTER + 1,
        REQUIRED_CLUSTER + 2,
    ];
    let [most_shared, clusters @ ..] = f.attributes_on(ASKED, || cx.device_or_first());
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
        || i64::from(shared) > i64::from(most_shared);
    refuse_if(bad, CUDA_ERROR_INVALID_VALUE)?;
    if threads > f.attribute(MAX_THREADS) as u64 {
        return Err(too_many(f, threads));
    }
    // Clusters that the kernel was compiled for must fill the grid.
    for (cluster, blocks) in clusters.into_iter().zip(grid) {
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
                    let from = list.add(i).read().cast::<u8>();
                    let to = out.as_mut_ptr().add(start + *offset as usize);
                    // Nearly all are of these sizes, which need no call.
                    match *size {
                        8 => std::ptr::copy_nonoverlapping(from, to, 8),
                        4 => std::ptr::copy_nonoverlapping(from, to, 4),
                        n => std::ptr::copy_nonoverlapping(from, to, n as usize),
                    }
                }
            }
        }
    }
}

/// Refuses a cooperative launch whose blocks cannot all run at once.
#[cold]
pub fn check_fits(
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
    refuse_if(blocks > most, CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE)?;
    Ok(())
}

/// A launch, checked and about to be queued.
pub struct Launch<'a> {
    /// The kernel's id.
    pub function: u32,
    /// The stream's id.
    pub stream: u32,
    /// Blocks of the grid.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared: u32,
    /// [`COOPERATIVE`], or 0.
    pub flags: u32,
    /// Attributes, as bytes.
    pub attrs: &'a [u8],
    /// Whether the driver has nothing to refuse that was not checked here.
    pub usual: bool,
}

impl Launch<'_> {
    /// Bytes of its fields, without attributes.
    const FIELDS: usize = 44;

    /// Its fields, as they stand in all its messages.
    #[inline]
    fn write(&self, out: &mut Vec<u8>) {
        let [gx, gy, gz] = self.grid;
        let [bx, by, bz] = self.block;
        let attrs = self.attrs.len() as u32;
        let words = [
            self.function,
            self.stream,
            gx,
            gy,
            gz,
            bx,
            by,
            bz,
            self.shared,
            self.flags,
            attrs,
        ];
        out.extend_from_slice(words.map(u32::to_le_bytes).as_flattened());
        out.extend_from_slice(self.attrs);
    }
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
        refuse_if(!extra.is_null(), CUDA_ERROR_INVALID_VALUE)?;
        let null = (0..f.params.len())
            // SAFETY: the program gives one pointer for each parameter of the kernel.
            .any(|i| unsafe { kernel_params.add(i).read() }.is_null());
        refuse_if(null, CUDA_ERROR_INVALID_VALUE)?;
        Ok(Params::Each(kernel_params))
    } else if !extra.is_null() {
        // SAFETY: the program's list.
        Ok(Params::Packed(unsafe { read_extra(f, extra)? }))
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
pub unsafe fn for_node(
    cx: Cx,
    f: &Function,
    (grid, block, shared): ([u32; 3], [u32; 3], u32),
    kernel_params: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Result<Vec<u8>, CUresult> {
    check(cx, f, grid, block, shared)?;
    let mut out = Vec::new();
    // SAFETY: passed on to the caller.
    unsafe { pack(f, &params(f, kernel_params, extra)?, &mut out) };
    addresses::translate(cx, f, &mut out, true)?;
    Ok(out)
}

/// Queues a launch, or waits for what the driver says of it where that is not `usual`: then also
/// the name by which kernels know the node that it has become, if they may change it, else 0.
pub unsafe fn queue(
    cx: Cx,
    f: &Function,
    l: &Launch<'_>,
    kernel_params: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Result<u64, CUresult> {
    // SAFETY: passed on to the caller.
    unsafe {
        let params = params(f, kernel_params, extra)?;
        match cx.state().shadows.concerns_launches() {
            true => queue_seen(cx, f, l, &params),
            false => send(cx, f, l, &params),
        }
    }
}

/// Queues a launch where there is memory that kernels and the program see. Apart, so that a launch
/// without takes a straight way.
///
/// # Safety
/// As for [`queue`].
#[inline(never)]
unsafe fn queue_seen(cx: Cx, f: &Function, l: &Launch<'_>, params: &Params<'_>) -> Result<u64> {
    let mut known = Vec::new();
    // SAFETY: passed on to the caller.
    unsafe { pack(f, params, &mut known) };
    let named = addresses::translate(cx, f, &mut known, cx.state().captures.any())?;
    let _sending = addresses::work(cx, l.stream, Touch::At(&named))?;
    // SAFETY: the parameters are here.
    unsafe { send(cx, f, l, &Params::Packed(&known)) }
}

/// Queues a launch with these parameters, or waits for it, as [`queue`] does.
///
/// # Safety
/// As for [`queue`].
#[inline]
unsafe fn send(cx: Cx, f: &Function, l: &Launch<'_>, params: &Params<'_>) -> Result<u64> {
    // The driver loads a kernel's code in each context when it is first launched there.
    let _pass = cx.pass(cx.client.many && f.is_first_in(cx.scope));
    // In a stream of another context than the function's it may be refused. A kernel has none.
    let handles = &cx.state().handles;
    let here = {
        let stream = cx.context_of(l.stream);
        let function = handles.context(Kind::Function, l.function);
        stream == function || function == 0 && stream == cx.scope
    };
    if !(l.usual && here) || f.is_deep() {
        let mut packed = Vec::new();
        // SAFETY: passed on to the caller.
        unsafe { pack(f, params, &mut packed) };
        let reply = cx.reply_to(&msg::LaunchNow {
            function: l.function,
            stream: l.stream,
            grid: l.grid,
            block: l.block,
            shared: l.shared,
            flags: l.flags,
            attrs: l.attrs,
            params: &packed,
        })?;
        f.has_local_memory();
        return Ok(reply.node);
    }
    if f.packed >= LONG && cx.client.session.keeps {
        // SAFETY: passed on to the caller.
        let sent = unsafe { queue_long(cx, f, l, params) };
        return queued(cx, sent);
    }
    // Written field by field into the queue, as the message `LaunchKernel` encodes itself: this is
    // the one call whose cost a program feels, and a copy of its parameters in between is a third
    // of it.
    let sent = cx
        .client
        .session
        .queue_raw(op::LAUNCH_KERNEL, cx.scope, |out| {
            let n = params.len(f);
            out.reserve(Launch::FIELDS + l.attrs.len() + 4 + n);
            l.write(out);
            out.extend_from_slice(&(n as u32).to_le_bytes());
            // SAFETY: passed on to the caller.
            unsafe { pack(f, params, out) };
        });
    queued(cx, sent)
}

/// A launch is in the queue, unless the session is lost. It has no name as a node.
#[inline]
fn queued(cx: Cx, sent: Result<(), Closed>) -> Result<u64> {
    sent.and_then(|()| cx.queued_one())
        .map_err(|_| CUDA_ERROR_DEVICE_UNAVAILABLE)?;
    Ok(0)
}

/// Queues a launch with long parameters: as a `LaunchKernel`, as a `LaunchKept` if the worker is to
/// keep them, or as a `LaunchAgain` or `LaunchChanged` if it has them, or nearly these. Apart, so
/// that what is shorter takes a straight way.
///
/// # Safety
/// As for [`queue`].
#[inline(never)]
unsafe fn queue_long(
    cx: Cx,
    f: &Function,
    l: &Launch<'_>,
    params: &Params<'_>,
) -> Result<(), Closed> {
    let session = &cx.client.session;
    let (mut packed, mut changes) = thread::take_scratch();
    // SAFETY: passed on to the caller.
    unsafe { pack(f, params, &mut packed) };
    let may_change = session.changes.then_some(&mut changes);
    let kept = &cx.state().kept.parameters;
    let (op, place, bytes) = match thread::look(kept, l.function, &packed, may_change) {
        Sent::Plain => (op::LAUNCH_KERNEL, None, Some(&packed)),
        Sent::Kept(place) => (op::LAUNCH_KEPT, Some(place), Some(&packed)),
        Sent::Again(place) => (op::LAUNCH_AGAIN, Some(place), None),
        Sent::Changed(place) => (op::LAUNCH_CHANGED, Some(place), Some(&changes)),
    };
    let queued = session.queue_raw(op, cx.scope, |out| {
        out.extend_from_slice(place.map(u32::to_le_bytes).as_slice().as_flattened());
        l.write(out);
        if let Some(bytes) = bytes {
            out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
            out.extend_from_slice(bytes);
        }
    });
    thread::put_scratch((packed, changes));
    queued
}

/// Whether the driver will take an attribute of a launch, as far as is known here.
pub fn usual(cx: Cx, f: &Function, grid: [u32; 3], a: &CUlaunchAttribute) -> bool {
    match a.id {
        CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION => {
            let cluster: [u32; 3] = member(&a.value);
            // More than this some devices allow, when the kernel does.
            const ALWAYS: u64 = 8;
            let blocks: u64 = cluster.iter().map(|n| u64::from(*n)).product();
            let fits = |i: usize| {
                let own = f.attribute_on(REQUIRED_CLUSTER + i, || cx.device_or_first());
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
pub unsafe fn attributes(
    cx: Cx,
    config: &CUlaunchConfig,
) -> Result<Vec<CUlaunchAttribute>, CUresult> {
    let n = config.numAttrs as usize;
    if n == 0 {
        return Ok(Vec::new());
    }
    refuse_if(config.attrs.is_null() || n > 64, CUDA_ERROR_INVALID_VALUE)?;
    // SAFETY: the program's array of `n` attributes.
    let mut attrs = unsafe { std::slice::from_raw_parts(config.attrs, n) }.to_vec();
    for a in &mut attrs {
        if let CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT
        | CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT = a.id
        {
            cx.state().events.recorded_unseen();
            let event = cx.handle(Kind::Event, member(&a.value))?;
            set_member(&mut a.value, u64::from(event));
        }
    }
    Ok(attrs)
}
