//! Contexts: which one is current to which thread is the client's own affair; the worker only hears
//! with each call what context it runs in.

use crate::cuda::call::{Cx, put, put_opt, thread};
use crate::cuda::engine::{context, death, settled};
use crate::cuda::life::{enter, enter_anywhere, enter_local, guard, unsupported};
use crate::cuda::state::contexts::Info;
use crate::cuda::state::order::ALL_STREAMS;
use busbar_abi::cuda::*;
use busbar_wire::generated::cuda::{self as msg, Kind};
use std::sync::atomic::Ordering;

fn handle_of(cx: Cx, id: u32) -> CUcontext {
    cx.raw(Kind::Context, id) as CUcontext
}

/// The id of `ctx`, or of the current context when it is null.
fn given_or_current(cx: Cx, ctx: CUcontext) -> Result<u32, CUresult> {
    if ctx.is_null() {
        cx.need_context()
    } else {
        cx.handle(Kind::Context, ctx as u64)
    }
}

/// What a context is.
fn info(cx: Cx, id: u32) -> Result<Info, CUresult> {
    let known = cx.state().contexts.info(id);
    known.ok_or(CUDA_ERROR_INVALID_CONTEXT)
}

/// `CU_CTX_MAP_HOST`, which the driver always says of a context.
const MAP_HOST: u32 = 8;

/// Whether the driver takes these flags of a context: one way to wait at most, and known bits.
fn valid_flags(flags: u32) -> bool {
    const WAYS_TO_WAIT: u32 = 7;
    flags & !0xff == 0 && (flags & WAYS_TO_WAIT).count_ones() <= 1
}

fn create(pctx: *mut CUcontext, flags: u32, dev: CUdevice) -> CUresult {
    guard(|| {
        let cx = enter_anywhere()?;
        if pctx.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        cx.device(dev)?;
        let id = cx.create_in(Kind::Context, 0);
        let message = msg::ContextCreate {
            context: id,
            device: dev,
            flags,
        };
        settled::not_alone(cx)
            .and_then(|()| cx.call(&message))
            .inspect_err(|_| cx.destroy(Kind::Context, id))?;
        cx.state().contexts.remember(id, dev, flags, false);
        thread::push(cx.raw(Kind::Context, id));
        // SAFETY: checked for null above; the program's pointer.
        unsafe { put(pctx, handle_of(cx, id)) }
    })
}

pub unsafe fn cuCtxGetCurrent(pctx: *mut CUcontext) -> CUresult {
    guard(|| {
        enter_local()?;
        // SAFETY: the program's pointer.
        unsafe { put(pctx, thread::current_raw() as CUcontext) }
    })
}

pub unsafe fn cuCtxSetCurrent(ctx: CUcontext) -> CUresult {
    guard(|| {
        let cx = enter_local()?;
        if ctx.is_null() {
            // Null pops the top; what lies below becomes current.
            thread::pop();
        } else if cx.state().handles.ever(Kind::Context, ctx as u64) {
            // One that was destroyed is taken, too: what is done in it fails.
            thread::set_current(ctx as u64);
        } else {
            return Err(CUDA_ERROR_INVALID_CONTEXT);
        }
        Ok(())
    })
}

pub unsafe fn cuCtxPushCurrent_v2(ctx: CUcontext) -> CUresult {
    guard(|| {
        let cx = enter_local()?;
        cx.handle(Kind::Context, ctx as u64)?;
        thread::push(ctx as u64);
        Ok(())
    })
}

pub unsafe fn cuCtxPopCurrent_v2(pctx: *mut CUcontext) -> CUresult {
    guard(|| {
        let cx = enter_local()?;
        cx.need_context()?;
        let old = thread::current_raw();
        thread::pop();
        // SAFETY: the program's pointer; it may be null here.
        unsafe { put_opt(pctx, old as CUcontext) };
        Ok(())
    })
}

pub unsafe fn cuCtxGetDevice(device: *mut CUdevice) -> CUresult {
    guard(|| {
        let d = enter_local()?.current_device()?;
        // SAFETY: the program's pointer.
        unsafe { put(device, d) }
    })
}

pub unsafe fn cuCtxGetDevice_v2(device: *mut CUdevice, ctx: CUcontext) -> CUresult {
    guard(|| {
        let cx = enter_local()?;
        let i = info(cx, given_or_current(cx, ctx)?)?;
        // SAFETY: the program's pointer.
        unsafe { put(device, i.device) }
    })
}

pub unsafe fn cuCtxGetApiVersion(ctx: CUcontext, version: *mut u32) -> CUresult {
    guard(|| {
        given_or_current(enter_local()?, ctx)?;
        // SAFETY: the program's pointer.
        unsafe { put(version, 3020) }
    })
}

pub unsafe fn cuCtxGetFlags(flags: *mut u32) -> CUresult {
    guard(|| {
        let cx = enter_local()?;
        let i = info(cx, cx.need_context()?)?;
        let f = if i.primary {
            let p = cx.state().contexts.primary(i.device)?;
            p.flags.load(Ordering::Relaxed)
        } else {
            i.flags
        };
        // SAFETY: the program's pointer.
        unsafe { put(flags, f | MAP_HOST) }
    })
}

pub unsafe fn cuCtxSetFlags(flags: u32) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let id = cx.need_context()?;
        let i = info(cx, id)?;
        if !valid_flags(flags) {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let contexts = &cx.state().contexts;
        if i.primary {
            let p = contexts.primary(i.device)?;
            p.flags.store(flags, Ordering::Relaxed);
        } else {
            contexts.set_flags(id, flags);
        }
        Ok(())
    })
}

pub unsafe fn cuCtxGetId(ctx: CUcontext, id_out: *mut u64) -> CUresult {
    guard(|| {
        let cx = enter_local()?;
        let i = info(cx, given_or_current(cx, ctx)?)?;
        // SAFETY: the program's pointer.
        unsafe { put(id_out, i.serial) }
    })
}

pub unsafe fn cuCtxCreate_v2(pctx: *mut CUcontext, flags: u32, dev: CUdevice) -> CUresult {
    create(pctx, flags, dev)
}

pub unsafe fn cuCtxCreate_v3(
    pctx: *mut CUcontext,
    _params: *mut CUexecAffinityParam,
    num_params: i32,
    flags: u32,
    dev: CUdevice,
) -> CUresult {
    if num_params > 0 {
        return unsupported(
            "cuCtxCreate_v3",
            "execution affinity needs MPS at the server",
        );
    }
    create(pctx, flags, dev)
}

pub unsafe fn cuCtxCreate_v4(
    pctx: *mut CUcontext,
    params: *mut CUctxCreateParams,
    flags: u32,
    dev: CUdevice,
) -> CUresult {
    // SAFETY: the program's pointer, null or to a structure that it filled in.
    let asks = unsafe { params.as_ref() }
        .is_some_and(|p| p.numExecAffinityParams > 0 || !p.cigParams.is_null());
    if asks {
        return unsupported("cuCtxCreate_v4", "affinity and graphics sharing stay local");
    }
    create(pctx, flags, dev)
}

pub unsafe fn cuCtxDestroy_v2(ctx: CUcontext) -> CUresult {
    guard(|| {
        let cx = enter_local()?;
        if ctx.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let id = cx.handle(Kind::Context, ctx as u64)?;
        if info(cx, id)?.primary {
            return Err(CUDA_ERROR_INVALID_CONTEXT);
        }
        death::destroy(cx, id)
    })
}

pub unsafe fn cuCtxAttach(pctx: *mut CUcontext, flags: u32) -> CUresult {
    if flags != 0 {
        return CUDA_ERROR_INVALID_VALUE;
    }
    // SAFETY: passed on to the caller.
    unsafe { cuCtxGetCurrent(pctx) }
}

pub unsafe fn cuCtxSetLimit(limit: CUlimit, value: usize) -> CUresult {
    guard(|| {
        let cx = enter()?;
        cx.need_context()?;
        let set = cx.call(&msg::CuCtxSetLimit {
            limit: limit as _,
            value: value as u64,
        });
        // The driver may round what it is given, so the next question goes to it.
        cx.forget(&msg::CuCtxGetLimit { limit: limit as _ });
        set.map(drop)
    })
}

pub unsafe fn cuCtxSynchronize() -> CUresult {
    guard(|| {
        let cx = enter()?;
        cx.need_context()?;
        cx.about_to_wait()?;
        cx.synchronize(ALL_STREAMS)
    })
}

pub unsafe fn cuCtxSynchronize_v2(ctx: CUcontext) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let cx = cx.in_context(given_or_current(cx, ctx)?);
        cx.about_to_wait()?;
        cx.synchronize(ALL_STREAMS)
    })
}

pub unsafe fn cuDevicePrimaryCtxGetState(
    dev: CUdevice,
    flags: *mut u32,
    active: *mut i32,
) -> CUresult {
    guard(|| {
        let cx = enter_local()?;
        cx.device(dev)?;
        let p = cx.state().contexts.primary(dev)?;
        // SAFETY: the program's pointers.
        unsafe {
            put(flags, p.flags.load(Ordering::Relaxed))?;
            put(active, i32::from(p.retained.load(Ordering::Acquire) > 0))
        }
    })
}

pub unsafe fn cuDevicePrimaryCtxSetFlags_v2(dev: CUdevice, flags: u32) -> CUresult {
    guard(|| {
        let cx = enter_local()?;
        cx.device(dev)?;
        if flags & !0xff != 0 {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let p = cx.state().contexts.primary(dev)?;
        p.flags.store(flags, Ordering::Relaxed);
        Ok(())
    })
}

pub unsafe fn cuDevicePrimaryCtxRetain(pctx: *mut CUcontext, dev: CUdevice) -> CUresult {
    guard(|| {
        let cx = enter_local()?;
        if pctx.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let handle = context::primary_handle(cx, dev)?;
        context::retain(cx, dev)?;
        // SAFETY: checked for null above; the program's pointer.
        unsafe { put(pctx, handle) }
    })
}

pub unsafe fn cuDevicePrimaryCtxRelease_v2(dev: CUdevice) -> CUresult {
    guard(|| death::release(enter_local()?, dev))
}

pub unsafe fn cuDevicePrimaryCtxReset_v2(dev: CUdevice) -> CUresult {
    guard(|| death::reset(enter_local()?, dev))
}

pub unsafe fn cuCtxRecordEvent(ctx: CUcontext, event: CUevent) -> CUresult {
    guard(|| {
        let cx = enter()?;
        cx.state().events.recorded_unseen();
        let m = msg::CuCtxRecordEvent {
            h_ctx: cx.handle(Kind::Context, ctx as u64)?,
            h_event: cx.handle(Kind::Event, event as u64)?,
        };
        cx.send(&m)
    })
}
