//! Contexts: which one is current to which thread is the client's own affair; the worker only hears
//! with each call what context it runs in.

use super::prelude::*;
use crate::cuda::call::thread;
use crate::cuda::engine::{context, death, settled};
use crate::cuda::life::{log_to_file, unsupported};
use crate::cuda::state::contexts::Info;
use crate::cuda::state::order::ALL_STREAMS;

/// The id of `ctx`, or of the current context when it is null.
fn given_or_current(cx: Cx, ctx: CUcontext) -> Result<u32> {
    if ctx.is_null() {
        cx.need_context()
    } else {
        cx.handle(Kind::Context, ctx as u64)
    }
}

/// What a context is.
fn info(cx: Cx, id: u32) -> Result<Info> {
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

pub fn cuCtxGetCurrent(_cx: Cx) -> Result<CUcontext> {
    Ok(thread::current_raw() as CUcontext)
}

pub fn cuCtxSetCurrent(cx: Cx, ctx: CUcontext) -> Result<()> {
    if ctx.is_null() {
        // Null pops the top; what lies below becomes current.
        thread::pop(cx.client);
    } else if cx.state().handles.ever(Kind::Context, ctx as u64) {
        // One that was destroyed is taken, too: what is done in it fails.
        thread::set_current(cx.client, ctx as u64);
    } else {
        return Err(CUDA_ERROR_INVALID_CONTEXT);
    }
    Ok(())
}

pub fn cuCtxPushCurrent_v2(cx: Cx, ctx: CUcontext) -> Result<()> {
    refuse_if(ctx.is_null(), CUDA_ERROR_INVALID_VALUE)?;
    cx.handle(Kind::Context, ctx as u64)?;
    thread::push(cx.client, ctx as u64);
    Ok(())
}

pub unsafe fn cuCtxPopCurrent_v2(cx: Cx, pctx: *mut CUcontext) -> Result<()> {
    cx.need_context()?;
    let old = thread::current_raw();
    thread::pop(cx.client);
    // SAFETY: the program's pointer; it may be null here.
    unsafe { put_opt(pctx, old as CUcontext) };
    Ok(())
}

pub fn cuCtxGetDevice(cx: Cx) -> Result<CUdevice> {
    cx.current_device()
}

pub fn cuCtxGetDevice_v2(cx: Cx, ctx: CUcontext) -> Result<CUdevice> {
    let i = info(cx, given_or_current(cx, ctx)?)?;
    Ok(i.device)
}

pub fn cuCtxGetApiVersion(cx: Cx, ctx: CUcontext) -> Result<u32> {
    given_or_current(cx, ctx)?;
    Ok(3020)
}

pub fn cuCtxGetFlags(cx: Cx) -> Result<u32> {
    let i = info(cx, cx.need_context()?)?;
    let f = if i.primary {
        let p = cx.state().contexts.primary(i.device)?;
        p.flags.load(Ordering::Relaxed)
    } else {
        i.flags
    };
    Ok(f | MAP_HOST)
}

pub fn cuCtxSetFlags(cx: Cx, flags: u32) -> Result<()> {
    let id = cx.need_context()?;
    let i = info(cx, id)?;
    refuse_if(!valid_flags(flags), CUDA_ERROR_INVALID_VALUE)?;
    let contexts = &cx.state().contexts;
    if i.primary {
        let p = contexts.primary(i.device)?;
        p.flags.store(flags, Ordering::Relaxed);
    } else {
        contexts.set_flags(id, flags);
    }
    Ok(())
}

pub fn cuCtxGetId(cx: Cx, ctx: CUcontext) -> Result<u64> {
    let i = info(cx, given_or_current(cx, ctx)?)?;
    Ok(i.serial)
}

pub fn cuCtxCreate_v2(cx: Cx, flags: u32, dev: CUdevice) -> Result<u32> {
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
    cx.state().contexts.heed_environment();
    log_to_file(cx);
    thread::push(cx.client, cx.raw(Kind::Context, id));
    context::created(cx, id);
    Ok(id)
}

pub fn cuCtxCreate_v3(
    cx: Cx,
    params: *mut CUexecAffinityParam,
    num_params: i32,
    flags: u32,
    dev: CUdevice,
) -> Result<u32> {
    refuse_affinity(params, num_params)?;
    cuCtxCreate_v2(cx, flags, dev)
}

/// An affinity is what a driver without MPS does not support.
fn refuse_affinity(params: *mut CUexecAffinityParam, n: i32) -> Result<()> {
    refuse_if(n > 0 && params.is_null(), CUDA_ERROR_INVALID_VALUE)?;
    refuse_if(n > 0, CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY)
}

pub unsafe fn cuCtxCreate_v4(
    cx: Cx,
    params: *mut CUctxCreateParams,
    flags: u32,
    dev: CUdevice,
) -> Result<u32> {
    // SAFETY: the program's pointer, null or to a structure that it filled in.
    if let Some(p) = unsafe { params.as_ref() } {
        let (affinity, graphics) = (p.numExecAffinityParams > 0, !p.cigParams.is_null());
        refuse_if(affinity && graphics, CUDA_ERROR_INVALID_VALUE)?;
        refuse_affinity(p.execAffinityParams, p.numExecAffinityParams)?;
        if graphics {
            let why = "sharing with graphics stays local";
            return Err(unsupported("cuCtxCreate_v4", why));
        }
    }
    cuCtxCreate_v2(cx, flags, dev)
}

pub fn cuCtxDestroy_v2(cx: Cx, ctx: CUcontext) -> Result<()> {
    refuse_if(ctx.is_null(), CUDA_ERROR_INVALID_VALUE)?;
    let id = cx.handle(Kind::Context, ctx as u64)?;
    refuse_if(info(cx, id)?.primary, CUDA_ERROR_INVALID_CONTEXT)?;
    death::destroy(cx, id)
}

pub fn cuCtxAttach(cx: Cx, flags: u32) -> Result<CUcontext> {
    match flags {
        0 => cuCtxGetCurrent(cx),
        _ => Err(CUDA_ERROR_INVALID_VALUE),
    }
}

pub fn cuCtxSetLimit(cx: Cx, limit: CUlimit, value: usize) -> Result<()> {
    let set = cx.call(&msg::CuCtxSetLimit {
        limit: limit as _,
        value: value as u64,
    });
    // The driver may round what it is given, so the next question goes to it.
    cx.forget(&msg::CuCtxGetLimit { limit: limit as _ });
    set.map(drop)
}

pub fn cuCtxSynchronize(cx: Cx) -> Result<()> {
    cx.about_to_wait()?;
    cx.synchronize(ALL_STREAMS)
}

pub fn cuCtxSynchronize_v2(cx: Cx, ctx: CUcontext) -> Result<()> {
    let cx = cx.in_context(given_or_current(cx, ctx)?);
    cx.about_to_wait()?;
    cx.synchronize(ALL_STREAMS)
}

pub fn cuDevicePrimaryCtxGetState(cx: Cx, dev: CUdevice) -> Result<(u32, i32)> {
    cx.device(dev)?;
    let p = cx.state().contexts.primary(dev)?;
    Ok((
        p.flags.load(Ordering::Relaxed),
        i32::from(p.retained.load(Ordering::Acquire) > 0),
    ))
}

pub fn cuDevicePrimaryCtxSetFlags_v2(cx: Cx, dev: CUdevice, flags: u32) -> Result<()> {
    cx.device(dev)?;
    refuse_if(flags & !0xff != 0, CUDA_ERROR_INVALID_VALUE)?;
    let p = cx.state().contexts.primary(dev)?;
    p.flags.store(flags, Ordering::Relaxed);
    Ok(())
}

pub fn cuDevicePrimaryCtxRetain(cx: Cx, dev: CUdevice) -> Result<u32> {
    let id = context::primary_id(cx, dev)?;
    context::retain(cx, dev)?;
    log_to_file(cx);
    Ok(id)
}

pub fn cuCtxRecordEvent(cx: Cx, h_ctx: u32, h_event: u32) -> Result<()> {
    cx.state().events.recorded_unseen();
    cx.send(&msg::CuCtxRecordEvent { h_ctx, h_event })
}
