//! Green contexts.

use super::context::{be_alone, leave};
use super::prelude::*;

/// More groups than any device has processors.
const MOST: u32 = 1024;

pub fn split_processors(w: &mut Cuda, m: msg::SplitProcessors<'_>) -> Result<Encoded, Fail> {
    let input: CUdevResource = plain(m.input)?;
    let mut groups = m.most.min(MOST);
    let mut result: Vec<CUdevResource> = Vec::new();
    let mut remaining: CUdevResource = busbar_abi::zeroed();
    let out = if m.count_only != 0 {
        std::ptr::null_mut()
    } else {
        result.resize(groups as usize, busbar_abi::zeroed());
        result.as_mut_ptr()
    };
    let f = Driver::cuDevSmResourceSplitByCount;
    let (n, rest) = (&mut groups, &mut remaining);
    // SAFETY: pointers to live values; the list has room for as many groups as asked for.
    check(unsafe { f(w.driver, out, n, &input, rest, m.flags, m.least) })?;
    result.truncate(groups as usize);
    Ok(Encoded::of(&msg::SplitProcessorsReply {
        groups,
        result: busbar_abi::slice_bytes(&result),
        remaining: &busbar_abi::to_vec(&remaining),
    }))
}

pub fn cu_green_ctx_create(w: &mut Cuda, m: msg::CuGreenCtxCreate) -> Result {
    be_alone(w);
    let desc = w.handle(Kind::ResourceDesc, m.desc)? as CUdevResourceDesc;
    let dev = w.device(m.dev)?;
    // It lives in the device's primary context, and keeps that.
    let charge = w.primary(dev)?;
    let mut green: CUgreenCtx = std::ptr::null_mut();
    // SAFETY: a live description and a pointer to a live handle.
    check(unsafe { w.cuGreenCtxCreate(&mut green, desc, dev, m.flags) })?;
    w.made_of(&m, green as u64, charge);
    Ok(())
}

/// Its context goes with it. A green context is a part of its device's primary one: no thread of
/// ours is at work there while one comes or goes.
pub fn cu_green_ctx_destroy(w: &mut Cuda, m: msg::CuGreenCtxDestroy) -> Result {
    let green = w.handle(Kind::GreenContext, m.h_ctx)?;
    be_alone(w);
    let of = (Kind::GreenContext, m.h_ctx);
    let contexts: Vec<u32> = w.handles.children(Kind::Context, of).collect();
    contexts.iter().for_each(|id| w.places.forget(*id));
    let left: Vec<_> = contexts.into_iter().map(|id| leave(w, id)).collect();
    // SAFETY: a live green context, which is not used again.
    let rc = unsafe { w.cuGreenCtxDestroy(green as CUgreenCtx) };
    for left in left {
        w.completer.abandon(left, CUDA_ERROR_CONTEXT_IS_DESTROYED);
    }
    check(rc)
}

pub fn context_of_green(w: &mut Cuda, m: msg::ContextOfGreen) -> Result {
    let green = w.handle(Kind::GreenContext, m.green)? as CUgreenCtx;
    let mut ctx: CUcontext = std::ptr::null_mut();
    // SAFETY: a live green context and a pointer to a live handle.
    check(unsafe { w.cuCtxFromGreenCtx(&mut ctx, green) })?;
    w.made(&m, ctx as u64);
    Ok(())
}

pub fn green_of_stream(w: &mut Cuda, m: msg::GreenOfStream) -> Result<msg::GreenOfStreamReply> {
    let mut green = 0;
    let stream = w.stream(m.stream)? as CUstream;
    let mut raw: CUgreenCtx = std::ptr::null_mut();
    // SAFETY: a live stream and a pointer to a live handle.
    check(unsafe { w.cuStreamGetGreenCtx(stream, &mut raw) })?;
    if !raw.is_null() {
        green = w.adopt(Kind::GreenContext, raw as u64, &[]);
    }
    Ok(msg::GreenOfStreamReply { green })
}
