//! Contexts.

use super::blame::is_fatal;
use super::done::{Events, Job};
use super::{Cuda, attempt, check};
use crate::done::Bereft;
use crate::memory::{Charge, Use};
use crate::objects::Creates;
use busbar_abi::cuda::*;
use busbar_wire::WireError;
use busbar_wire::generated::cuda::{self as msg, Kind};
use busbar_wire::record::Header;
use std::time::Duration;

/// What a context takes of its device. The driver does not say; this is about what one takes of a
/// GPU of today.
const CONTEXT: u64 = 512 << 20;

/// Takes a context's memory, unless it is there already.
fn fresh(w: &Cuda, id: u32) -> Result<Option<Charge>, CUresult> {
    match w.handles.charged((Kind::Context, id)) {
        Some(_) => Ok(None),
        None => w.charge(Use::Context, CONTEXT).map(Some),
    }
}

/// A context is there.
fn made(
    w: &mut Cuda,
    h: &Header,
    m: &impl Creates<Kind>,
    (raw, charge): (CUcontext, Option<Charge>),
) {
    match charge {
        Some(charge) => w.made_of(h, m, raw as u64, charge),
        None => w.made(h, m, raw as u64),
    }
}

/// The most threads that run at a time on the current device.
fn threads(d: &Driver) -> Result<u64, CUresult> {
    let (mut dev, mut each, mut processors) = (0, 0, 0);
    let most = CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR;
    let number = CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT;
    // SAFETY: pointers to live numbers.
    unsafe {
        check(d.cuCtxGetDevice(&mut dev))?;
        check(d.cuDeviceGetAttribute(&mut each, most, dev))?;
        check(d.cuDeviceGetAttribute(&mut processors, number, dev))?;
    }
    Ok(each.max(0) as u64 * processors.max(0) as u64)
}

pub(super) fn cu_ctx_set_limit(
    w: &mut Cuda,
    h: &Header,
    m: msg::CuCtxSetLimit,
) -> Result<(), WireError> {
    let rc = attempt(|| {
        let bytes = match m.limit {
            CU_LIMIT_PRINTF_FIFO_SIZE | CU_LIMIT_MALLOC_HEAP_SIZE => m.value,
            // Every thread that may run has one.
            CU_LIMIT_STACK_SIZE => m.value.saturating_mul(threads(w.driver)?),
            _ => 0,
        };
        let charge = w.charge(Use::Heap, bytes)?;
        // SAFETY: numbers, which the driver checks.
        check(unsafe { w.driver.cuCtxSetLimit(m.limit, m.value as usize) })?;
        if bytes > 0 {
            let key = (Kind::Context, h.aux);
            w.handles.charge(key, 1 + m.limit, charge.into());
        }
        Ok(())
    });
    w.reply(h, rc, |_| {});
    Ok(())
}

fn retain(w: &mut Cuda, h: &Header, m: &msg::PrimaryRetain) -> Result<(), CUresult> {
    let dev = w.device(m.device)?;
    let charge = fresh(w, m.context)?;
    let mut ctx: CUcontext = std::ptr::null_mut();
    // SAFETY: a pointer to a live handle.
    unsafe {
        if m.flags != 0 {
            w.driver.cuDevicePrimaryCtxSetFlags_v2(dev, m.flags);
        }
        check(w.driver.cuDevicePrimaryCtxRetain(&mut ctx, dev))?;
    }
    made(w, h, m, (ctx, charge));
    super::copy::register(w, ctx as u64);
    // The program may have made it current before it retained it, as CUDA's runtime does.
    w.current = u32::MAX;
    Ok(())
}

pub(super) fn primary_retain(
    w: &mut Cuda,
    h: &Header,
    m: msg::PrimaryRetain,
) -> Result<(), WireError> {
    let rc = attempt(|| retain(w, h, &m));
    w.reply(h, rc, |_| {});
    Ok(())
}

/// A context is about to go: no other thread may be waiting for it, or for an event of it, then.
fn leave(w: &mut Cuda, id: u32) -> Bereft<Events> {
    w.completer.settle_frees();
    w.ahead.settle();
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
        w.graphs.mirrors.forget_free();
    }
    w.remove((Kind::Context, id));
}

fn release(w: &mut Cuda, context: u32, device: i32, reset: u32) -> Result<(), CUresult> {
    let dev = w.device(device)?;
    let left = leave(w, context);
    w.peers
        .retain(|(user, owner)| *user != dev && *owner != dev);
    // SAFETY: a device of this machine.
    let rc = unsafe {
        if reset != 0 {
            w.driver.cuDevicePrimaryCtxReset_v2(dev)
        } else {
            w.driver.cuDevicePrimaryCtxRelease_v2(dev)
        }
    };
    w.completer.abandon(left, CUDA_ERROR_CONTEXT_IS_DESTROYED);
    forget(w, context);
    check(rc)
}

pub(super) fn primary_release(
    w: &mut Cuda,
    h: &Header,
    m: msg::PrimaryRelease,
) -> Result<(), WireError> {
    let rc = attempt(|| release(w, m.context, m.device, m.reset));
    over(w, h, rc);
    Ok(())
}

/// A context has ended, and with it whatever had lost it.
fn over(w: &mut Cuda, h: &Header, rc: CUresult) {
    w.done(h, if is_fatal(rc) { CUDA_SUCCESS } else { rc });
}

pub(super) fn primary_release_now(
    w: &mut Cuda,
    h: &Header,
    m: msg::PrimaryReleaseNow,
) -> Result<(), WireError> {
    let rc = attempt(|| release(w, m.context, m.device, m.reset));
    // Of a context that is gone nobody is told again that it is lost.
    w.outbox.reply(h.call, rc, |_| {});
    Ok(())
}

pub(super) fn context_create(
    w: &mut Cuda,
    h: &Header,
    m: msg::ContextCreate,
) -> Result<(), WireError> {
    let rc = attempt(|| {
        let dev = w.device(m.device)?;
        let charge = fresh(w, m.context)?;
        let mut ctx: CUcontext = std::ptr::null_mut();
        // SAFETY: a pointer to a live handle. The new context becomes current here, too.
        check(unsafe { w.driver.cuCtxCreate_v2(&mut ctx, m.flags, dev) })?;
        made(w, h, &m, (ctx, charge));
        super::copy::register(w, ctx as u64);
        w.current = m.context;
        Ok(())
    });
    w.reply(h, rc, |_| {});
    Ok(())
}

fn destroy(w: &mut Cuda, context: u32) -> Result<(), CUresult> {
    let ctx = w.handle(Kind::Context, context)?;
    let left = leave(w, context);
    forget(w, context);
    // SAFETY: a live context, which is not used again.
    let rc = unsafe { w.driver.cuCtxDestroy_v2(ctx as CUcontext) };
    w.completer.abandon(left, CUDA_ERROR_CONTEXT_IS_DESTROYED);
    check(rc)
}

pub(super) fn context_destroy(
    w: &mut Cuda,
    h: &Header,
    m: msg::ContextDestroy,
) -> Result<(), WireError> {
    let rc = attempt(|| destroy(w, m.context));
    over(w, h, rc);
    Ok(())
}

pub(super) fn context_destroy_now(
    w: &mut Cuda,
    h: &Header,
    m: msg::ContextDestroyNow,
) -> Result<(), WireError> {
    let rc = attempt(|| destroy(w, m.context));
    w.outbox.reply(h.call, rc, |_| {});
    Ok(())
}

/// Waits for a context on a thread of its own.
fn synchronize(w: &mut Cuda, h: &Header, id: u32) {
    match w.handle(Kind::Context, id) {
        Ok(ctx) => w.completer.answer_after(Job::Context(ctx, h.call)),
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
