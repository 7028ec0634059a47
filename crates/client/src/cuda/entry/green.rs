//! Green contexts: parts of a device. A resource is the driver's own bytes, which the program only
//! carries from call to call.

use super::prelude::*;
use crate::cuda::engine::{death, settled};

pub unsafe fn cuDevSmResourceSplitByCount(
    cx: Cx,
    result: *mut CUdevResource,
    groups: *mut u32,
    input: &CUdevResource,
    remaining: *mut CUdevResource,
    flags: u32,
    least: u32,
) -> Result<()> {
    // SAFETY: the program's number.
    let most = *unsafe { groups.as_ref() }.ok_or(CUDA_ERROR_INVALID_VALUE)?;
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
}

pub fn cuGreenCtxCreate(cx: Cx, desc: u32, dev: CUdevice, flags: u32) -> Result<u32> {
    cx.device(dev)?;
    let green = cx.create(Kind::GreenContext);
    let made = cx.call(&msg::CuGreenCtxCreate {
        ph_ctx: green,
        desc,
        dev,
        flags,
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
    Ok(green)
}

pub fn cuGreenCtxDestroy(cx: Cx, id: u32) -> Result<()> {
    let end = |cx: Cx| cx.call(&msg::CuGreenCtxDestroy { h_ctx: id }).map(drop);
    match cx.state().greens.get(&id) {
        Some(context) => death::gone(cx, context, end)?,
        None => end(cx)?,
    }
    cx.destroy(Kind::GreenContext, id);
    Ok(())
}

pub fn cuCtxFromGreenCtx(cx: Cx, id: u32) -> Result<u32> {
    let ctx = cx
        .state()
        .greens
        .get(&id)
        .ok_or(CUDA_ERROR_INVALID_CONTEXT)?;
    Ok(ctx)
}

/// A stream of a green context is made in that context, so that all that is done with it later
/// finds it there.
pub fn cuGreenCtxStreamCreate(cx: Cx, id: u32, flags: u32, priority: i32) -> Result<u32> {
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
    Ok(made)
}

pub fn cuStreamGetGreenCtx(cx: Cx, raw: CUstream) -> Result<CUgreenCtx> {
    let handle = of_stream(cx, cx.stream(raw, false)?)?;
    Ok(handle)
}

/// The green context that a stream was made in; null for none.
pub fn of_stream(cx: Cx, stream: u32) -> Result<CUgreenCtx> {
    Ok(match cx.reply_to(&msg::GreenOfStream { stream })?.green {
        0 => std::ptr::null_mut(),
        id => cx.raw(Kind::GreenContext, id) as CUgreenCtx,
    })
}

pub fn cuGreenCtxRecordEvent(cx: Cx, h_ctx: u32, h_event: u32) -> Result<()> {
    cx.state().events.recorded_unseen();
    cx.send(&msg::CuGreenCtxRecordEvent { h_ctx, h_event })
}
