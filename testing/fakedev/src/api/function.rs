//! The functions on functions and kernels.

use crate::entry::api;
use crate::ffi::*;
use crate::state::function::{KERNELS, MAX_SHARED, layout};
use crate::state::image::Kernel;
use crate::state::module::{EAGER_LOADING, MODULES, function_of, loading_mode, resolve};
use crate::state::{context, device};
use std::ffi::c_char;
use std::sync::atomic::Ordering;

const THREADS_PER_SM: i32 = 2048;
const BLOCKS_PER_SM: i32 = 32;
const SHARED_PER_SM: i32 = 233_472;
const RESERVED_SHARED: i32 = 1024;

fn param_info(kernel: &Kernel, index: usize, offset: *mut usize, size: *mut usize) -> Res {
    let params = kernel.params.as_ref().ok_or(INVALID_VALUE)?;
    let (at, bytes) = *layout(params).get(index).ok_or(INVALID_VALUE)?;
    // SAFETY: the caller's pointers are null or valid, as its header says.
    unsafe {
        put(offset, at)?;
        put_opt(size, bytes);
    }
    Ok(())
}

fn blocks_per_sm(function: CUfunction, block: i32, shared: usize) -> R<i32> {
    resolve(function)?;
    if block <= 0 {
        return Err(INVALID_VALUE);
    }
    if block > 1024 {
        return Ok(0);
    }
    let warps = (block as u32).next_multiple_of(32) as i32;
    let by_shared = i64::from(SHARED_PER_SM) / (shared as i64 + i64::from(RESERVED_SHARED));
    Ok((THREADS_PER_SM / warps)
        .min(BLOCKS_PER_SM)
        .min(by_shared.min(32) as i32))
}

api! {
    fn [cuFuncGetAttribute] (out: *mut i32, which: i32, function: CUfunction) {
        let function = resolve(function)?;
        put(out, function.attributes.get(which, &function.kernel)?)
    }

    fn [cuFuncSetAttribute] (function: CUfunction, which: i32, value: i32) {
        resolve(function)?.attributes.set(which, value)
    }

    fn [cuFuncSetCacheConfig] (function: CUfunction, config: i32) {
        resolve(function)?;
        if (0..=3).contains(&config) { Ok(()) } else { Err(INVALID_VALUE) }
    }

    fn [cuFuncSetSharedMemConfig] (function: CUfunction, config: i32) {
        resolve(function)?;
        if (0..=2).contains(&config) { Ok(()) } else { Err(INVALID_VALUE) }
    }

    fn [cuFuncGetModule] (out: *mut CUmodule, function: CUfunction) {
        put(out, MODULES.get(resolve(function)?.module)?.handle)
    }

    fn [cuFuncGetName] (out: *mut *const c_char, function: CUfunction) {
        // The name lives as long as its function, which the program keeps.
        put(out, resolve(function)?.name.as_ptr())
    }

    fn [cuFuncGetParamInfo] (
        function: CUfunction, index: usize, offset: *mut usize, size: *mut usize,
    ) {
        param_info(&resolve(function)?.kernel, index, offset, size)
    }

    fn [cuFuncIsLoaded] (out: *mut i32, function: CUfunction) {
        resolve(function)?;
        put(out, 1)
    }

    fn [cuFuncLoad] (function: CUfunction) {
        resolve(function).map(drop)
    }

    fn [cuKernelGetFunction] (out: *mut CUfunction, kernel: CUkernel) {
        put(out, function_of(&*KERNELS.get(kernel)?, &*context::current()?)?.handle)
    }

    fn [cuKernelGetLibrary] (out: *mut CUlibrary, kernel: CUkernel) {
        put(out, KERNELS.get(kernel)?.library)
    }

    fn [cuKernelGetAttribute] (out: *mut i32, which: i32, kernel: CUkernel, device: CUdevice) {
        device::by_ordinal(device)?;
        let kernel = KERNELS.get(kernel)?;
        // The real one loads the code by then, and waits for streams where it does.
        if loading_mode() != EAGER_LOADING
            && !kernel.asked.swap(true, Ordering::AcqRel)
            && let Ok(context) = context::current()
        {
            let _ = context.synchronize();
        }
        put(out, kernel.attributes.of(device).get(which, &kernel.kernel)?)
    }

    fn [cuKernelSetAttribute] (which: i32, value: i32, kernel: CUkernel, device: CUdevice) {
        device::by_ordinal(device)?;
        KERNELS.get(kernel)?.attributes.of(device).set(which, value)
    }

    fn [cuKernelSetCacheConfig] (kernel: CUkernel, config: i32, device: CUdevice) {
        device::by_ordinal(device)?;
        KERNELS.get(kernel)?;
        if (0..=3).contains(&config) { Ok(()) } else { Err(INVALID_VALUE) }
    }

    fn [cuKernelGetName] (out: *mut *const c_char, kernel: CUkernel) {
        put(out, KERNELS.get(kernel)?.name.as_ptr())
    }

    fn [cuKernelGetParamInfo] (
        kernel: CUkernel, index: usize, offset: *mut usize, size: *mut usize,
    ) {
        param_info(&KERNELS.get(kernel)?.kernel, index, offset, size)
    }

    fn [cuOccupancyMaxActiveBlocksPerMultiprocessor] (
        out: *mut i32, function: CUfunction, block: i32, shared: usize,
    ) {
        context::current()?;
        put(out, blocks_per_sm(function, block, shared)?)
    }

    fn [cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags] (
        out: *mut i32, function: CUfunction, block: i32, shared: usize, flags: u32,
    ) {
        context::current()?;
        if flags > 1 {
            return Err(INVALID_VALUE);
        }
        put(out, blocks_per_sm(function, block, shared)?)
    }

    fn [cuOccupancyMaxPotentialBlockSize] (
        min_grid: *mut i32, block: *mut i32, function: CUfunction,
        shared_of: Option<unsafe extern "C" fn(i32) -> usize>, shared: usize, limit: i32,
    ) {
        context::current()?;
        let size = if (1..1024).contains(&limit) { limit } else { 1024 };
        let shared = shared_of.map_or(shared, |f| f(size));
        put(min_grid, blocks_per_sm(function, size, shared)? * 132)?;
        put(block, size)
    }

    fn [cuOccupancyMaxPotentialBlockSizeWithFlags] (
        min_grid: *mut i32, block: *mut i32, function: CUfunction,
        shared_of: Option<unsafe extern "C" fn(i32) -> usize>, shared: usize, limit: i32,
        flags: u32,
    ) {
        context::current()?;
        if flags > 1 {
            return Err(INVALID_VALUE);
        }
        let size = if (1..1024).contains(&limit) { limit } else { 1024 };
        let shared = shared_of.map_or(shared, |f| f(size));
        put(min_grid, blocks_per_sm(function, size, shared)? * 132)?;
        put(block, size)
    }

    fn [cuOccupancyAvailableDynamicSMemPerBlock] (
        out: *mut usize, function: CUfunction, blocks: i32, block: i32,
    ) {
        context::current()?;
        resolve(function)?;
        if blocks <= 0 || block <= 0 {
            return Err(INVALID_VALUE);
        }
        let each = SHARED_PER_SM / blocks - RESERVED_SHARED;
        put(out, each.clamp(0, MAX_SHARED) as usize)
    }

    fn [cuOccupancyMaxActiveClusters] (
        out: *mut i32, function: CUfunction, config: *const LaunchConfig,
    ) {
        context::current()?;
        let config = get(config)?;
        let threads = config.block.iter().fold(1u32, |n, m| n.saturating_mul(*m));
        let blocks = blocks_per_sm(function, threads as i32, config.shared as usize)?;
        put(out, blocks * 132)
    }

    fn [cuOccupancyMaxPotentialClusterSize] (
        out: *mut i32, function: CUfunction, _config: *const LaunchConfig,
    ) {
        context::current()?;
        resolve(function)?;
        put(out, 8)
    }
}
