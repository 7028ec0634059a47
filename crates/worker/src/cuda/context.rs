//! Contexts.

use super::blame::is_fatal;
use super::done::{Events, Job};
use super::driver::CONTEXT;
use super::prelude::*;
use crate::done::Bereft;

pub fn cu_ctx_set_limit(w: &mut Cuda, m: msg::CuCtxSetLimit) -> Result {
    let charge = match m.limit {
        CU_LIMIT_PRINTF_FIFO_SIZE | CU_LIMIT_MALLOC_HEAP_SIZE if m.value > 0 => {
            let charge = w.charge(Use::Heap, w.current_device(), m.value)?;
            Some(charge.into())
        }
        CU_LIMIT_STACK_SIZE => w.charge_stacks(m.value)?,
        _ => None,
    };
    // SAFETY: numbers, which the driver checks.
    check(unsafe { w.cuCtxSetLimit(m.limit, m.value as usize) })?;
    if let Some(charge) = charge {
        let key = (Kind::Context, w.record.aux);
        w.handles.charge(key, 1 + m.limit, charge);
    }
    Ok(())
}

pub fn primary_retain(w: &mut Cuda, m: msg::PrimaryRetain) -> Result {
    let dev = w.device(m.device)?;
    let charge = w.primary(dev)?;
    let mut ctx: CUcontext = std::ptr::null_mut();
    // SAFETY: a pointer to a live handle.
    unsafe {
        if m.flags != 0 {
            w.cuDevicePrimaryCtxSetFlags_v2(dev, m.flags);
        }
        check(w.cuDevicePrimaryCtxRetain(&mut ctx, dev))?;
    }
    w.made_of(&m, ctx as u64, charge);
    super::copy::register(w, ctx as u64);
    super::shared::adopt(w, ctx as u64);
    // The program may have made it current before it retained it, as CUDA's runtime does.
    w.current = u32::MAX;
    Ok(())
}

/// Waits until no thread of ours is at work in a context of its own accord.
pub(super) fn be_alone(w: &Cuda) {
    w.completer.wait_for_frees();
    w.ahead.wait_until_done();
}

/// A context is about to go: no other thread may be waiting for it, or for an event of it, then.
pub(super) fn leave(w: &mut Cuda, id: u32) -> Bereft<Events> {
    be_alone(w);
    let ctx = w.handle(Kind::Context, id).unwrap_or(0);
    // The driver may wait for streams that wait for bytes.
    while w.reads.any(ctx) && !w.outbox.closed() {
        w.completer.sweep();
        std::thread::sleep(Duration::from_micros(50));
    }
    super::shared::leave_context(w, id);
    w.completer.leave_context(ctx)
}

/// A context's id no longer stands for the context that it stood for.
fn forget(w: &mut Cuda, id: u32) {
    if w.handle(Kind::Context, id).is_ok() {
        w.incoming.not_registered();
        w.outgoing.not_registered();
        w.links.arena().not_registered();
        w.graphs.mirrors.forget_free();
    }
    w.remove((Kind::Context, id));
}

/// The primary context of a device, if there is one at this moment.
fn primary(w: &Cuda, dev: CUdevice) -> Option<u64> {
    let (mut flags, mut active, mut ctx) = (0, 0, std::ptr::null_mut());
    // SAFETY: a device of this machine, and pointers to live variables; what is retained is
    // released.
    unsafe {
        check(w.cuDevicePrimaryCtxGetState(dev, &mut flags, &mut active)).ok()?;
        if active == 0 || check(w.cuDevicePrimaryCtxRetain(&mut ctx, dev)).is_err() {
            return None;
        }
        w.cuDevicePrimaryCtxRelease_v2(dev);
    }
    Some(ctx as u64)
}

fn release(w: &mut Cuda, context: u32, device: i32, reset: u32) -> Result {
    let dev = w.device(device)?;
    let named = w.handle(Kind::Context, context).ok();
    let primary = primary(w, dev);
    // Nobody may wait for what goes, so that must be what is left.
    let other = named.is_some_and(|named| primary.is_some_and(|primary| primary != named));
    refuse_if(other, CUDA_ERROR_INVALID_VALUE)?;
    let left = leave(w, context);
    // One that the client does not know has been made for its libraries.
    let unnamed = primary.filter(|_| named.is_none() && reset != 0);
    let also = unnamed.map(|ctx| w.completer.leave_context(ctx));
    w.peers
        .retain(|(user, owner)| *user != dev && *owner != dev);
    // SAFETY: a device of this machine.
    let rc = unsafe {
        if reset != 0 {
            // Whoever else had retained it has it no more.
            w.retained.remove(&dev);
            w.cuDevicePrimaryCtxReset_v2(dev)
        } else {
            w.cuDevicePrimaryCtxRelease_v2(dev)
        }
    };
    for left in also.into_iter().chain([left]) {
        w.completer.abandon(left, CUDA_ERROR_CONTEXT_IS_DESTROYED);
    }
    forget(w, context);
    super::shared::adopt_anywhere(w);
    check(rc)
}

pub fn primary_release(w: &mut Cuda, m: msg::PrimaryRelease) -> Result {
    over(release(w, m.context, m.device, m.reset))
}

/// A context has ended, and with it whatever had lost it.
fn over(ended: Result) -> Result {
    ended.or_else(|rc| if is_fatal(rc) { Ok(()) } else { Err(rc) })
}

pub fn primary_release_now(w: &mut Cuda, m: msg::PrimaryReleaseNow) -> Result<Answered> {
    let ended = release(w, m.context, m.device, m.reset);
    Ok(gone(w, ended))
}

/// Of a context that is gone nobody is told again that it is lost.
fn gone(w: &Cuda, ended: Result) -> Answered {
    let rc = ended.err().unwrap_or(CUDA_SUCCESS);
    w.outbox.reply(w.record.call, rc, |_| {});
    Answered
}

pub fn context_create(w: &mut Cuda, m: msg::ContextCreate) -> Result {
    let dev = w.device(m.device)?;
    let charge = w.charge(Use::Context, Some(dev), CONTEXT)?;
    let mut ctx: CUcontext = std::ptr::null_mut();
    // SAFETY: a pointer to a live handle. The new context becomes current here, too.
    check(unsafe { w.cuCtxCreate_v2(&mut ctx, m.flags, dev) })?;
    w.made_of(&m, ctx as u64, charge);
    super::copy::register(w, ctx as u64);
    super::shared::adopt(w, ctx as u64);
    w.current = m.context;
    Ok(())
}

fn destroy(w: &mut Cuda, context: u32) -> Result {
    let ctx = w.handle(Kind::Context, context)?;
    let left = leave(w, context);
    forget(w, context);
    // SAFETY: a live context, which is not used again.
    let rc = unsafe { w.cuCtxDestroy_v2(ctx as CUcontext) };
    w.completer.abandon(left, CUDA_ERROR_CONTEXT_IS_DESTROYED);
    super::shared::adopt_anywhere(w);
    check(rc)
}

pub fn context_destroy(w: &mut Cuda, m: msg::ContextDestroy) -> Result {
    over(destroy(w, m.context))
}

pub fn context_destroy_now(w: &mut Cuda, m: msg::ContextDestroyNow) -> Result<Answered> {
    let ended = destroy(w, m.context);
    Ok(gone(w, ended))
}

/// Waits for a context on a thread of its own.
pub fn context_synchronize(w: &mut Cuda, m: msg::ContextSynchronize) -> Result<Answered> {
    let ctx = w.handle(Kind::Context, m.context);
    let ctx = ctx.map_err(|_| CUDA_ERROR_INVALID_CONTEXT)?;
    w.completer.answer_after(Job::Context(ctx, w.record.call));
    Ok(Answered)
}
