//! Green contexts: parts of a device. A resource is the driver's own bytes, which the program only
//! carries from call to call.

use crate::cuda::call::{Cx, decode, put};
use crate::cuda::engine::{death, settled};
use crate::cuda::life::{enter, guard};
use busbar_abi::cuda::*;
use busbar_wire::generated::cuda::{self as msg, Kind};

pub unsafe fn cuDevSmResourceSplitByCount(
    result: *mut CUdevResource,
    groups: *mut u32,
    input: *const CUdevResource,
    remaining: *mut CUdevResource,
    flags: u32,
    least: u32,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        // SAFETY: the program's structure and number.
        let (input, most) = unsafe {
            let input = input.as_ref().ok_or(CUDA_ERROR_INVALID_VALUE)?;
            (input, *groups.as_ref().ok_or(CUDA_ERROR_INVALID_VALUE)?)
        };
        let reply = cx.call(&msg::SplitProcessors {
            input: busbar_abi::bytes_of(input),
            most,
            count_only: u32::from(result.is_null()),
            flags,
            least,
        })?;
        let r = decode::<msg::SplitProcessorsReply<'_>>(&reply)?;
        let made: Vec<CUdevResource> =
            busbar_abi::items_from_bytes(r.result).ok_or(CUDA_ERROR_UNKNOWN)?;
        let rest: Vec<CUdevResource> =
            busbar_abi::items_from_bytes(r.remaining).ok_or(CUDA_ERROR_UNKNOWN)?;
        // SAFETY: the program has room for as many groups as it asked for, or for none.
        unsafe {
            put(groups, r.groups)?;
            if !result.is_null() {
                for (i, g) in made.iter().take(most as usize).enumerate() {
                    put(result.add(i), *g)?;
                }
            }
            if let Some(rest) = rest.first()
                && !remaining.is_null()
            {
                put(remaining, *rest)?;
            }
        }
        Ok(())
    })
}

pub unsafe fn cuGreenCtxCreate(
    out: *mut CUgreenCtx,
    desc: CUdevResourceDesc,
    dev: CUdevice,
    flags: u32,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        if out.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        cx.device(dev)?;
        let green = cx.create(Kind::GreenContext);
        let made = desc_id(cx, desc).and_then(|desc| {
            cx.call(&msg::CuGreenCtxCreate {
                ph_ctx: green,
                desc,
                dev,
                flags,
            })
        });
        // Its context, too, so that what is asked of that needs no round trip.
        let id = cx.create_in(Kind::Context, 0);
        let made = made.and_then(|_| cx.call(&msg::ContextOfGreen { green, context: id }));
        if let Err(e) = made {
            cx.destroy(Kind::Context, id);
            cx.destroy(Kind::GreenContext, green);
            return Err(e);
        }
        cx.state().contexts.remember(id, dev, 0, false);
        cx.state().greens.insert(green, id);
        // SAFETY: checked for null above; the program's pointer.
        unsafe { put(out, cx.raw(Kind::GreenContext, green) as CUgreenCtx) }
    })
}

fn desc_id(cx: Cx, desc: CUdevResourceDesc) -> Result<u32, CUresult> {
    cx.state()
        .handles
        .id(Kind::ResourceDesc, desc as u64)
        .ok_or(CUDA_ERROR_INVALID_VALUE)
}

pub unsafe fn cuGreenCtxDestroy(green: CUgreenCtx) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let id = cx.handle(Kind::GreenContext, green as u64)?;
        let end = |cx: Cx| cx.call(&msg::CuGreenCtxDestroy { h_ctx: id }).map(drop);
        match cx.state().greens.get(&id) {
            Some(context) => death::gone(cx, context, end)?,
            None => end(cx)?,
        }
        cx.destroy(Kind::GreenContext, id);
        Ok(())
    })
}

pub unsafe fn cuCtxFromGreenCtx(out: *mut CUcontext, green: CUgreenCtx) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let id = cx.handle(Kind::GreenContext, green as u64)?;
        let ctx = cx
            .state()
            .greens
            .get(&id)
            .ok_or(CUDA_ERROR_INVALID_CONTEXT)?;
        // SAFETY: the program's pointer.
        unsafe { put(out, cx.raw(Kind::Context, ctx) as CUcontext) }
    })
}

/// A stream of a green context is made in that context, so that all that is done with it later
/// finds it there.
pub unsafe fn cuGreenCtxStreamCreate(
    out: *mut CUstream,
    green: CUgreenCtx,
    flags: u32,
    priority: i32,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        if out.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let id = cx.handle(Kind::GreenContext, green as u64)?;
        let ctx = cx
            .state()
            .greens
            .get(&id)
            .ok_or(CUDA_ERROR_INVALID_CONTEXT)?;
        let made = cx.create_in(Kind::Stream, ctx);
        let message = msg::CuGreenCtxStreamCreate {
            ph_stream: made,
            green_ctx: id,
            flags,
            priority,
        };
        let asked = settled::not_alone(cx).and_then(|()| cx.call(&message));
        asked.inspect_err(|_| cx.destroy(Kind::Stream, made))?;
        // SAFETY: checked for null above; the program's pointer.
        unsafe { put(out, cx.raw(Kind::Stream, made) as CUstream) }
    })
}

pub unsafe fn cuStreamGetGreenCtx(raw: CUstream, out: *mut CUgreenCtx) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let handle = of_stream(cx, cx.stream(raw, false)?)?;
        // SAFETY: the program's pointer.
        unsafe { put(out, handle) }
    })
}

/// The green context that a stream was made in; null for none.
pub fn of_stream(cx: Cx, stream: u32) -> Result<CUgreenCtx, CUresult> {
    let reply = cx.call(&msg::GreenOfStream { stream })?;
    Ok(match decode::<msg::GreenOfStreamReply>(&reply)?.green {
        0 => std::ptr::null_mut(),
        id => cx.raw(Kind::GreenContext, id) as CUgreenCtx,
    })
}

pub unsafe fn cuGreenCtxRecordEvent(ctx: CUgreenCtx, event: CUevent) -> CUresult {
    guard(|| {
        let cx = enter()?;
        cx.state().events.recorded_unseen();
        let m = msg::CuGreenCtxRecordEvent {
            h_ctx: cx.handle(Kind::GreenContext, ctx as u64)?,
            h_event: cx.handle(Kind::Event, event as u64)?,
        };
        cx.send(&m)
    })
}
