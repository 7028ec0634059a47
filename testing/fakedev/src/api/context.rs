//! The functions on contexts.

use crate::engine::life;
use crate::entry::api;
use crate::ffi::*;
use crate::state::context::{self, CONTEXTS, Context};
use crate::state::{capture, device, stream};
use std::sync::Arc;
use std::sync::atomic::Ordering;

const API_VERSION: u32 = 3020;
const KNOWN_FLAGS: u32 = 0xff;

fn create(out: *mut CUcontext, flags: u32, device: CUdevice) -> Res {
    let device = device::by_ordinal(device)?;
    if out.is_null() || flags & !KNOWN_FLAGS != 0 {
        return Err(INVALID_VALUE);
    }
    let context = Context::new(device, flags, false);
    context::push(context.handle);
    // SAFETY: not null, and valid by the caller's contract.
    unsafe { put(out, context.handle) }
}

fn named_or_current(handle: CUcontext) -> R<Arc<Context>> {
    if handle == 0 {
        context::current_even_broken()
    } else {
        context::by_handle(handle)
    }
}

fn limit_index(limit: u32) -> R<usize> {
    if limit < 8 {
        Ok(limit as usize)
    } else {
        Err(UNSUPPORTED_LIMIT)
    }
}

fn synchronize(context: &Context) -> Res {
    capture::check_unsafe()?;
    // A broken context's work is over soon: who comes back from here finds its callbacks made.
    context.synchronize()
}

/// An affinity needs MPS.
fn without_affinity(affinity: usize, n: i32) -> Res {
    match (n, affinity) {
        (..=0, _) => Ok(()),
        (_, 0) => Err(INVALID_VALUE),
        _ => Err(UNSUPPORTED_EXEC_AFFINITY),
    }
}

api! {
    fn [cuCtxCreate_v2] (out: *mut CUcontext, flags: u32, device: CUdevice) {
        create(out, flags, device)
    }

    fn [cuCtxCreate_v3] (
        out: *mut CUcontext, affinity: *const u8, n: i32, flags: u32, device: CUdevice,
    ) {
        without_affinity(affinity as usize, n)?;
        create(out, flags, device)
    }

    fn [cuCtxCreate_v4] (
        out: *mut CUcontext, params: *const [usize; 3], flags: u32, device: CUdevice,
    ) {
        if !params.is_null() {
            let [affinity, n, graphics] = get(params)?;
            if n as i32 > 0 && graphics != 0 {
                return Err(INVALID_VALUE);
            }
            without_affinity(affinity, n as i32)?;
            if graphics != 0 {
                return Err(NOT_SUPPORTED);
            }
        }
        create(out, flags, device)
    }

    fn [cuCtxDestroy_v2 cuCtxDestroy] (handle: CUcontext) {
        device::initialized()?;
        if handle == 0 {
            return Err(INVALID_VALUE);
        }
        let context = context::by_handle(handle)?;
        if context.primary {
            return Err(INVALID_CONTEXT);
        }
        CONTEXTS.remove(handle).map_err(|_| INVALID_CONTEXT)?;
        context::ENDED.lock().unwrap().insert(handle);
        life::end(&context);
        if context::current_handle() == handle {
            context::pop()?;
        }
        Ok(())
    }

    fn [cuCtxPushCurrent_v2 cuCtxPushCurrent] (handle: CUcontext) {
        device::initialized()?;
        if handle == 0 {
            return Err(INVALID_VALUE);
        }
        context::by_handle(handle)?;
        context::push(handle);
        Ok(())
    }

    fn [cuCtxPopCurrent_v2 cuCtxPopCurrent] (out: *mut CUcontext) {
        device::initialized()?;
        put_opt(out, context::pop()?);
        Ok(())
    }

    fn [cuCtxSetCurrent] (handle: CUcontext) {
        device::initialized()?;
        // The runtime library makes a primary context current before it retains it; and one that is
        // gone may be made current, though nothing can be done in it.
        let primary = context::CONTEXTS.get(handle).is_ok_and(|context| context.primary);
        if handle != 0 && !primary && !context::ENDED.lock().unwrap().contains(&handle) {
            context::by_handle(handle)?;
        }
        context::set(handle);
        Ok(())
    }

    fn [cuCtxGetCurrent] (out: *mut CUcontext) {
        device::initialized()?;
        put(out, context::current_handle())
    }

    fn [cuCtxGetDevice] (out: *mut CUdevice) {
        put(out, context::current_even_broken()?.device as CUdevice)
    }

    fn [cuCtxGetDevice_v2] (out: *mut CUdevice, handle: CUcontext) {
        put(out, named_or_current(handle)?.device as CUdevice)
    }

    fn [cuCtxGetFlags] (out: *mut u32) {
        // As the driver, which says of every context that it maps the host's memory.
        const MAP_HOST: u32 = 8;
        put(out, context::current()?.flags.load(Ordering::Acquire) | MAP_HOST)
    }

    fn [cuCtxSetFlags] (flags: u32) {
        let ways_to_wait = flags & 7;
        if flags & !KNOWN_FLAGS != 0 || ways_to_wait.count_ones() > 1 {
            return Err(INVALID_VALUE);
        }
        context::current()?.flags.store(flags, Ordering::Release);
        Ok(())
    }

    fn [cuCtxGetId] (handle: CUcontext, out: *mut u64) {
        put(out, named_or_current(handle)?.handle as u64)
    }

    fn [cuCtxSynchronize] () {
        synchronize(&*context::current_even_broken()?)
    }

    fn [cuCtxSynchronize_v2] (handle: CUcontext) {
        synchronize(&*named_or_current(handle)?)
    }

    fn [cuCtxGetLimit] (out: *mut usize, limit: u32) {
        let context = context::current()?;
        let value = context.limits.lock().unwrap()[limit_index(limit)?];
        put(out, value)
    }

    fn [cuCtxSetLimit] (limit: u32, value: usize) {
        let context = context::current()?;
        capture::check_unsafe()?;
        match limit_index(limit)? {
            0 => context.set_stack(value),
            at => {
                context.limits.lock().unwrap()[at] = value;
                Ok(())
            }
        }
    }

    fn [cuCtxGetCacheConfig] (out: *mut i32) {
        put(out, context::current()?.cache_config.load(Ordering::Acquire))
    }

    fn [cuCtxSetCacheConfig] (config: i32) {
        capture::check_unsafe()?;
        if !(0..=3).contains(&config) {
            return Err(INVALID_VALUE);
        }
        context::current()?.cache_config.store(config, Ordering::Release);
        Ok(())
    }

    fn [cuCtxGetSharedMemConfig] (out: *mut i32) {
        put(out, context::current()?.bank_config.load(Ordering::Acquire))
    }

    fn [cuCtxSetSharedMemConfig] (config: i32) {
        if !(0..=2).contains(&config) {
            return Err(INVALID_VALUE);
        }
        context::current()?.bank_config.store(config, Ordering::Release);
        Ok(())
    }

    fn [cuCtxGetApiVersion] (handle: CUcontext, out: *mut u32) {
        named_or_current(handle)?;
        put(out, API_VERSION)
    }

    fn [cuCtxGetStreamPriorityRange] (least: *mut i32, greatest: *mut i32) {
        context::current()?;
        put_opt(least, 0);
        put_opt(greatest, stream::GREATEST_PRIORITY);
        Ok(())
    }

    fn [cuCtxResetPersistingL2Cache] () {
        context::current().map(drop)
    }

    fn [cuFlushGPUDirectRDMAWrites] (_target: i32, _scope: i32) {
        context::current().map(drop)
    }

    fn [cuProfilerStart cuProfilerStop] () {
        context::current().map(drop)
    }
}
