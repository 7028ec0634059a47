//! Launches, as programs ask for them.

use super::prelude::*;
pub use crate::cuda::engine::launch::COOPERATIVE;
use crate::cuda::engine::launch::Launch;
use crate::cuda::engine::{callback, launch};
use crate::cuda::state::promised::Function;
use busbar_abi::{member, slice_bytes};

/// Launches a kernel: blocks and threads, shared memory and flags, parameters in either form.
pub unsafe fn launch(
    cx: Cx,
    f: CUfunction,
    (grid, block): ([u32; 3], [u32; 3]),
    (shared, flags): (u32, u32),
    (stream, per_thread): (CUstream, bool),
    (kernel_params, extra): (*mut *mut c_void, *mut *mut c_void),
) -> Result<()> {
    let (id, info) = launch::function(cx, f)?;
    launch::check(cx, info, grid, block, shared)?;
    if flags & COOPERATIVE != 0 {
        launch::check_fits(cx, id, grid, block, shared)?;
    }
    let stream = cx.stream(stream, per_thread)?;
    let l = Launch {
        function: id,
        stream,
        grid,
        block,
        shared,
        flags,
        attrs: &[],
        usual: !cx.captures_mind(stream),
    };
    // SAFETY: the program's parameters.
    unsafe { launch::queue(cx, info, &l, kernel_params, extra)? };
    cx.has_begun(stream)
}

/// Launches a function as it was set up, as before CUDA 4.
pub unsafe fn start(
    cx: Cx,
    f: CUfunction,
    (width, height): (i32, i32),
    stream: CUstream,
) -> Result<()> {
    refuse_if(width <= 0 || height <= 0, CUDA_ERROR_INVALID_VALUE)?;
    let (id, info) = launch::function(cx, f)?;
    let mut s = cx.state().setups.get(&id).ok_or(CUDA_ERROR_INVALID_VALUE)?;
    cx.need_context()?;
    let mut size = info.packed as usize;
    refuse_if(s.size < size, CUDA_ERROR_INVALID_VALUE)?;
    s.params.resize(size, 0);
    let shape = ([width as u32, height as u32, 1], s.block);
    let mut extra = launch::extra(&s.params, &mut size);
    let params = (std::ptr::null_mut(), extra.as_mut_ptr());
    // SAFETY: the list and the parameters are here.
    unsafe { launch(cx, f, shape, (s.shared, 0), (stream, false), params) }
}

pub unsafe fn cuLaunchKernelEx(
    cx: Cx,
    config: *const CUlaunchConfig,
    f: CUfunction,
    kernel_params: *mut *mut c_void,
    extra: *mut *mut c_void,
    per_thread: bool,
) -> Result<()> {
    // SAFETY: the program's pointer.
    let c = unsafe { config.as_ref() }.ok_or(CUDA_ERROR_INVALID_VALUE)?;
    let (function, info) = launch::function(cx, f)?;
    let grid = [c.gridDimX, c.gridDimY, c.gridDimZ];
    let block = [c.blockDimX, c.blockDimY, c.blockDimZ];
    launch::check(cx, info, grid, block, c.sharedMemBytes)?;
    // SAFETY: as above.
    let attrs = unsafe { launch::attributes(cx, c)? };
    let has = |id| attrs.iter().position(|a| a.id == id);
    let cooperative = has(CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
        .is_some_and(|i| member::<i32, _>(&attrs[i].value) != 0);
    // How many clusters fit is another question, which is left to the driver.
    if cooperative && has(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION).is_none() {
        launch::check_fits(cx, function, grid, block, c.sharedMemBytes)?;
    }
    let stream = cx.stream(c.hStream, per_thread)?;
    let updatable = has(CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE);
    let l = Launch {
        function,
        stream,
        grid,
        block,
        shared: c.sharedMemBytes,
        flags: 0,
        attrs: slice_bytes(&attrs),
        usual: updatable.is_none()
            && attrs.iter().all(|a| launch::usual(cx, info, grid, a))
            && !cx.captures_mind(stream),
    };
    // SAFETY: the program's parameters.
    let node = unsafe { launch::queue(cx, info, &l, kernel_params, extra)? };
    if let Some(i) = updatable {
        // SAFETY: the attribute is one of the program's, and its value, a number and then the
        // name of the node, is for us to write.
        unsafe {
            let value = (&raw mut (*c.attrs.add(i)).value).cast::<u64>();
            value.add(1).write_unaligned(node);
        }
    }
    cx.has_begun(stream)
}

pub fn cuLaunchHostFunc(
    cx: Cx,
    stream: CUstream,
    f: CUhostFn,
    data: *mut c_void,
    per_thread: bool,
) -> Result<()> {
    let f = f.ok_or(CUDA_ERROR_INVALID_VALUE)?;
    let stream = cx.stream(stream, per_thread)?;
    let data = data as u64;
    callback::queue_host_function(cx.at_stream(stream), stream, Function { f, data })
}

// The calls from before CUDA 4 have a file of their own.
pub use super::launch_old::*;
