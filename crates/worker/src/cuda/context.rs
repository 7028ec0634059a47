//! Contexts.

use super::waiters::Wait;
use super::{Cuda, attempt, check};
use busbar_abi::cuda::*;
use busbar_wire::WireError;
use busbar_wire::generated::cuda::{self as msg, Kind};
use busbar_wire::record::Header;

pub(super) fn primary_retain(
    w: &mut Cuda,
    h: &Header,
    m: msg::PrimaryRetain,
) -> Result<(), WireError> {
    let rc = attempt(|| {
        let dev = w.device(m.device)?;
        let mut ctx: CUcontext = std::ptr::null_mut();
        // SAFETY: a pointer to a live handle.
        unsafe {
            if m.flags != 0 {
                w.driver.cuDevicePrimaryCtxSetFlags_v2(dev, m.flags);
            }
            check(w.driver.cuDevicePrimaryCtxRetain(&mut ctx, dev))?;
        }
        w.store(Kind::Context, m.context, ctx as u64);
        super::copy::register(w, ctx as u64);
        // The program may have made it current before it retained it, as CUDA's runtime does.
        w.current = u32::MAX;
        Ok(())
    });
    w.done(h, rc);
    Ok(())
}

/// A context's id no longer stands for the context that it stood for.
fn forget(w: &mut Cuda, id: u32) {
    if let Ok(ctx) = w.handle(Kind::Context, id) {
        w.completer.forget(ctx);
        w.settled.forget(ctx);
    }
    w.remove(Kind::Context, id);
    w.functions_here.retain(|(_, c), _| *c != id);
    if w.current == id {
        w.current = u32::MAX;
    }
}

pub(super) fn primary_release(
    w: &mut Cuda,
    h: &Header,
    m: msg::PrimaryRelease,
) -> Result<(), WireError> {
    let rc = attempt(|| {
        let dev = w.device(m.device)?;
        super::memory::unmap_all(w, dev);
        w.peers
            .retain(|(user, owner)| *user != dev && *owner != dev);
        // SAFETY: a device of this machine.
        let rc = unsafe {
            if m.reset != 0 {
                w.driver.cuDevicePrimaryCtxReset_v2(dev)
            } else {
                w.driver.cuDevicePrimaryCtxRelease_v2(dev)
            }
        };
        forget(w, m.context);
        check(rc)
    });
    w.done(h, rc);
    Ok(())
}

pub(super) fn context_create(
    w: &mut Cuda,
    h: &Header,
    m: msg::ContextCreate,
) -> Result<(), WireError> {
    let rc = attempt(|| {
        let dev = w.device(m.device)?;
        let mut ctx: CUcontext = std::ptr::null_mut();
        // SAFETY: a pointer to a live handle. The new context becomes current here, too.
        check(unsafe { w.driver.cuCtxCreate_v2(&mut ctx, m.flags, dev) })?;
        w.store(Kind::Context, m.context, ctx as u64);
        super::copy::register(w, ctx as u64);
        w.current = m.context;
        Ok(())
    });
    w.reply(h, rc, |_| {});
    Ok(())
}

pub(super) fn context_destroy(
    w: &mut Cuda,
    h: &Header,
    m: msg::ContextDestroy,
) -> Result<(), WireError> {
    let rc = attempt(|| {
        let ctx = w.handle(Kind::Context, m.context)?;
        forget(w, m.context);
        // SAFETY: a live context, which is not used again.
        check(unsafe { w.driver.cuCtxDestroy_v2(ctx as CUcontext) })
    });
    w.done(h, rc);
    Ok(())
}

/// Waits for a context on a thread of its own.
fn synchronize(w: &mut Cuda, h: &Header, id: u32) {
    match w.handle(Kind::Context, id) {
        Ok(ctx) => w.waiters.wait(ctx, Wait::Context, h.call),
        Err(_) => w.reply(h, CUDA_ERROR_INVALID_CONTEXT, |_| {}),
    }
}

pub(super) fn context_synchronize(
    w: &mut Cuda,
    h: &Header,
    m: msg::ContextSynchronize,
) -> Result<(), WireError> {
    synchronize(w, h, m.context);
    Ok(())
}
