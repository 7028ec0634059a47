//! Contexts: which one is current to which thread is the client's own affair; the worker only hears
//! with each call what context it runs in.

use super::array;
use super::device::{self, Device};
use super::event;
use super::handles;
use super::memory;
use super::runtime::{
    self, ALL_STREAMS, Cx, enter, enter_anywhere, enter_local, guard, put, put_opt,
};
use super::texture;
use super::{settled, shadow, stream};
use busbar_abi::cuda::*;
use busbar_wire::generated::cuda::{self as msg, Kind};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

thread_local! {
    /// The current context's handle: by that it is noticed when another thread has destroyed it.
    static CURRENT: Cell<u64> = const { Cell::new(0) };
    /// The handles of the contexts below the current one.
    static STACK: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// What a context is.
#[derive(Debug, Clone, Copy)]
pub struct Info {
    /// The program's ordinal of its device.
    pub device: CUdevice,
    /// Whether it is the device's primary context.
    pub primary: bool,
    flags: u32,
}

/// Contexts by id. Ids are used again, so the entries can change: they live in atomics.
static DEVICES: [AtomicU32; MOST] = [const { AtomicU32::new(0) }; MOST];
const MOST: usize = 4096;
static FLAGS: Mutex<Option<HashMap<u32, u32>>> = Mutex::new(None);
/// The error that has lost a context, which every later call in it returns; 0 for none.
static FAILED: [AtomicI32; MOST] = [const { AtomicI32::new(0) }; MOST];
/// The first failure of a queued call in a context that no waiting call has reported yet; 0 for
/// none.
static DEFERRED: [AtomicI32; MOST] = [const { AtomicI32::new(0) }; MOST];

/// A primary context's state, by the program's device ordinal: how often it is retained.
static RETAINED: [AtomicU32; 64] = [const { AtomicU32::new(0) }; 64];
static PRIMARY_FLAGS: [AtomicU32; 64] = [const { AtomicU32::new(0) }; 64];
static PRIMARY: Mutex<()> = Mutex::new(());

/// The id of the calling thread's current context; 0 for none.
#[inline]
pub fn current() -> u32 {
    handles::id_in(current_raw())
}

#[inline]
fn current_raw() -> u64 {
    CURRENT.try_with(Cell::get).unwrap_or(0)
}

fn set_current(raw: u64) {
    let _ = CURRENT.try_with(|c| c.set(raw));
}

/// What lies below the current context on the thread's stack becomes current.
fn pop() {
    let below = STACK.with(|s| s.borrow_mut().pop());
    set_current(below.unwrap_or(0));
}

/// Whether the current context is alive and no error has lost it.
pub fn works() -> Result<(), CUresult> {
    let raw = current_raw();
    if raw != 0 && handles::id(Kind::Context, raw).is_none() {
        return Err(CUDA_ERROR_CONTEXT_IS_DESTROYED);
    }
    match failure(handles::id_in(raw)) {
        0 => Ok(()),
        e => Err(e),
    }
}

/// The error that has lost a context; 0 for none.
fn failure(id: u32) -> CUresult {
    let f = FAILED.get(id as usize);
    f.map_or(0, |f| f.load(Ordering::Acquire))
}

/// An error has lost a context. The first one stays.
pub fn lose(id: u32, error: CUresult) {
    if let Some(f) = FAILED.get(id as usize) {
        let _ = f.compare_exchange(0, error, Ordering::AcqRel, Ordering::Relaxed);
    }
    runtime::look_closer();
}

/// A queued call in a context has failed: a later call that waits reports it.
pub fn defer(id: u32, error: CUresult) {
    if let Some(d) = DEFERRED.get(id as usize) {
        let _ = d.compare_exchange(0, error, Ordering::AcqRel, Ordering::Relaxed);
    }
}

/// Whether a failure of a queued call waits to be reported.
#[inline]
pub fn has_deferred(id: u32) -> bool {
    let d = DEFERRED.get(id as usize);
    d.is_some_and(|d| d.load(Ordering::Acquire) != 0)
}

/// Reports the failure of a queued call, once.
pub fn deferred(id: u32) -> Result<(), CUresult> {
    match DEFERRED
        .get(id as usize)
        .map(|d| d.swap(0, Ordering::AcqRel))
    {
        None | Some(0) => Ok(()),
        Some(e) => Err(e),
    }
}

/// A context begins anew: its errors are history.
fn forget_errors(id: u32) {
    for of_it in [&FAILED, &DEFERRED] {
        if let Some(e) = of_it.get(id as usize) {
            e.store(0, Ordering::Release);
        }
    }
}

fn flags_of(id: u32) -> u32 {
    let f = FLAGS.lock().unwrap_or_else(PoisonError::into_inner);
    f.as_ref().and_then(|f| f.get(&id)).copied().unwrap_or(0)
}

/// Makes a context known.
pub fn remember(id: u32, device: CUdevice, flags: u32, primary: bool) {
    if let Some(d) = DEVICES.get(id as usize) {
        d.store(
            (device as u32 + 1) | (u32::from(primary) << 16),
            Ordering::Release,
        );
    }
    FLAGS
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .get_or_insert_default()
        .insert(id, flags);
}

/// What the context with this id is.
pub fn info(id: u32) -> Option<Info> {
    let v = DEVICES.get(id as usize)?.load(Ordering::Acquire);
    let device = (v & 0xffff).checked_sub(1)? as CUdevice;
    Some(Info {
        device,
        primary: v >> 16 & 1 == 1,
        flags: flags_of(id),
    })
}

/// The program's ordinal of the current context's device.
#[inline]
pub fn current_device(cx: Cx) -> Result<CUdevice, CUresult> {
    let id = cx.need_context()?;
    let v = DEVICES
        .get(id as usize)
        .map_or(0, |d| d.load(Ordering::Acquire));
    (v & 0xffff)
        .checked_sub(1)
        .map(|d| d as CUdevice)
        .ok_or(CUDA_ERROR_INVALID_CONTEXT)
}

/// The current context's device.
pub fn device_of(cx: Cx) -> Result<&'static Device, CUresult> {
    device::get(cx, current_device(cx)?)
}

/// The handle of a device's primary context, whether it is retained or not.
pub fn primary_handle(cx: Cx, dev: CUdevice) -> Result<CUcontext, CUresult> {
    let d = device::get(cx, dev)?;
    if info(d.primary).is_none() {
        remember(d.primary, dev, 0, true);
    }
    Ok(handles::raw(Kind::Context, d.primary) as CUcontext)
}

fn handle_of(id: u32) -> CUcontext {
    if id == 0 {
        std::ptr::null_mut()
    } else {
        handles::raw(Kind::Context, id) as CUcontext
    }
}

pub(super) unsafe fn cuCtxGetCurrent(pctx: *mut CUcontext) -> CUresult {
    guard(|| {
        enter_local()?;
        // SAFETY: the program's pointer.
        unsafe { put(pctx, current_raw() as CUcontext) }
    })
}

pub(super) unsafe fn cuCtxSetCurrent(ctx: CUcontext) -> CUresult {
    guard(|| {
        enter_local()?;
        if ctx.is_null() {
            // Null pops the top; what lies below becomes current.
            pop();
        } else if handles::ever(Kind::Context, ctx as u64) {
            // One that was destroyed is taken, too: what is done in it fails.
            set_current(ctx as u64);
        } else {
            return Err(CUDA_ERROR_INVALID_CONTEXT);
        }
        Ok(())
    })
}

pub(super) unsafe fn cuCtxPushCurrent_v2(ctx: CUcontext) -> CUresult {
    guard(|| {
        let cx = enter_local()?;
        cx.handle(Kind::Context, ctx as u64)?;
        push(ctx as u64);
        Ok(())
    })
}

fn push(raw: u64) {
    let old = current_raw();
    if old != 0 {
        STACK.with(|s| s.borrow_mut().push(old));
    }
    set_current(raw);
}

pub(super) unsafe fn cuCtxPopCurrent_v2(pctx: *mut CUcontext) -> CUresult {
    guard(|| {
        let cx = enter_local()?;
        cx.need_context()?;
        let old = current_raw();
        pop();
        // SAFETY: the program's pointer; it may be null here.
        unsafe { put_opt(pctx, old as CUcontext) };
        Ok(())
    })
}

pub(super) unsafe fn cuCtxGetDevice(device: *mut CUdevice) -> CUresult {
    guard(|| {
        let d = current_device(enter_local()?)?;
        // SAFETY: the program's pointer.
        unsafe { put(device, d) }
    })
}

/// The id of `ctx`, or of the current context when it is null.
fn given_or_current(cx: Cx, ctx: CUcontext) -> Result<u32, CUresult> {
    if ctx.is_null() {
        cx.need_context()
    } else {
        cx.handle(Kind::Context, ctx as u64)
    }
}

pub(super) unsafe fn cuCtxGetDevice_v2(device: *mut CUdevice, ctx: CUcontext) -> CUresult {
    guard(|| {
        let id = given_or_current(enter_local()?, ctx)?;
        let i = info(id).ok_or(CUDA_ERROR_INVALID_CONTEXT)?;
        // SAFETY: the program's pointer.
        unsafe { put(device, i.device) }
    })
}

pub(super) unsafe fn cuCtxGetApiVersion(ctx: CUcontext, version: *mut u32) -> CUresult {
    guard(|| {
        given_or_current(enter_local()?, ctx)?;
        // SAFETY: the program's pointer.
        unsafe { put(version, 3020) }
    })
}

pub(super) unsafe fn cuCtxGetFlags(flags: *mut u32) -> CUresult {
    guard(|| {
        let i = info(enter_local()?.need_context()?).ok_or(CUDA_ERROR_INVALID_CONTEXT)?;
        let f = if i.primary {
            PRIMARY_FLAGS[i.device as usize].load(Ordering::Relaxed)
        } else {
            i.flags
        };
        // SAFETY: the program's pointer.
        unsafe { put(flags, f | MAP_HOST) }
    })
}

/// `CU_CTX_MAP_HOST`, which the driver always says of a context.
const MAP_HOST: u32 = 8;

/// Whether the driver takes these flags of a context: one way to wait at most, and known bits.
fn valid_flags(flags: u32) -> bool {
    const WAYS_TO_WAIT: u32 = 7;
    flags & !0xff == 0 && (flags & WAYS_TO_WAIT).count_ones() <= 1
}

pub(super) unsafe fn cuCtxSetFlags(flags: u32) -> CUresult {
    guard(|| {
        let id = enter()?.need_context()?;
        let i = info(id).ok_or(CUDA_ERROR_INVALID_CONTEXT)?;
        if !valid_flags(flags) {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        if i.primary {
            PRIMARY_FLAGS[i.device as usize].store(flags, Ordering::Relaxed);
        } else {
            remember(id, i.device, flags, false);
        }
        Ok(())
    })
}

pub(super) unsafe fn cuCtxGetId(ctx: CUcontext, id_out: *mut u64) -> CUresult {
    guard(|| {
        let id = given_or_current(enter_local()?, ctx)?;
        // SAFETY: the program's pointer.
        unsafe { put(id_out, u64::from(id)) }
    })
}

fn create(pctx: *mut CUcontext, flags: u32, dev: CUdevice) -> CUresult {
    guard(|| {
        let cx = enter_anywhere()?;
        if pctx.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        device::get(cx, dev)?;
        let id = handles::create(Kind::Context, 0);
        if id as usize >= MOST {
            handles::destroy(Kind::Context, id);
            return Err(CUDA_ERROR_OUT_OF_MEMORY);
        }
        let message = msg::ContextCreate {
            context: id,
            device: dev,
            flags,
        };
        let made = settled::not_alone(cx).and_then(|()| cx.call(&message));
        if let Err(e) = made {
            handles::destroy(Kind::Context, id);
            return Err(e);
        }
        forget_errors(id);
        remember(id, dev, flags, false);
        push(handles::raw(Kind::Context, id));
        // SAFETY: checked for null above; the program's pointer.
        unsafe { put(pctx, handle_of(id)) }
    })
}

pub(super) unsafe fn cuCtxCreate(pctx: *mut CUcontext, flags: u32, dev: CUdevice) -> CUresult {
    create(pctx, flags, dev)
}

pub(super) unsafe fn cuCtxCreate_v2(pctx: *mut CUcontext, flags: u32, dev: CUdevice) -> CUresult {
    create(pctx, flags, dev)
}

pub(super) unsafe fn cuCtxCreate_v3(
    pctx: *mut CUcontext,
    _params: *mut CUexecAffinityParam,
    num_params: i32,
    flags: u32,
    dev: CUdevice,
) -> CUresult {
    if num_params > 0 {
        return runtime::unsupported(
            "cuCtxCreate_v3",
            "execution affinity needs MPS at the server",
        );
    }
    create(pctx, flags, dev)
}

pub(super) unsafe fn cuCtxCreate_v4(
    pctx: *mut CUcontext,
    params: *mut CUctxCreateParams,
    flags: u32,
    dev: CUdevice,
) -> CUresult {
    // SAFETY: the program's pointer, null or to a structure that it filled in.
    let asks = unsafe { params.as_ref() }
        .is_some_and(|p| p.numExecAffinityParams > 0 || !p.cigParams.is_null());
    if asks {
        return runtime::unsupported("cuCtxCreate_v4", "affinity and graphics sharing stay local");
    }
    create(pctx, flags, dev)
}

/// Forgets everything that lived in a context.
fn forget(id: u32) {
    array::forget_context(id);
    if let Ok(cx) = enter_local() {
        cx.forget_context(id);
    }
    for kind in Kind::ALL {
        if kind != Kind::Context && kind != Kind::Library && kind != Kind::Allocation {
            for object in handles::living(kind, id) {
                handles::destroy(kind, object);
            }
        }
    }
    stream::forget_context(id);
    settled::forget_context(id);
    texture::forget_context(id);
    let device = info(id).map_or(0, |i| i.device);
    let unmapped = memory::forget_context(id, device);
    if let Ok(cx) = enter_local() {
        let cx = Cx { scope: id, ..cx };
        for (va, size) in unmapped {
            // A session that is over has unmapped everything.
            let _ = super::retire::unmap(cx, va, size);
        }
    }
}

/// A context went, and all that lived in it, without the program destroying it.
pub fn gone(id: u32) {
    forget(id);
    if current_raw() == handles::raw(Kind::Context, id) {
        pop();
    }
    if let Some(d) = DEVICES.get(id as usize) {
        d.store(0, Ordering::Release);
    }
    handles::destroy(Kind::Context, id);
    forget_errors(id);
    // It may be current to other threads.
    runtime::look_closer();
}

pub(super) unsafe fn cuCtxDestroy_v2(ctx: CUcontext) -> CUresult {
    guard(|| {
        let cx = enter_local()?;
        if ctx.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let id = cx.handle(Kind::Context, ctx as u64)?;
        if info(id).is_none_or(|i| i.primary) {
            return Err(CUDA_ERROR_INVALID_CONTEXT);
        }
        forget(id);
        let ended = if failure(id) == 0 {
            cx.send(&msg::ContextDestroy { context: id })
        } else {
            cx.call(&msg::ContextDestroyNow { context: id }).map(drop)
        };
        gone(id);
        ended
    })
}

pub(super) unsafe fn cuCtxDetach(ctx: CUcontext) -> CUresult {
    // SAFETY: passed on to the caller.
    unsafe { cuCtxDestroy_v2(ctx) }
}

pub(super) unsafe fn cuCtxAttach(pctx: *mut CUcontext, flags: u32) -> CUresult {
    if flags != 0 {
        return CUDA_ERROR_INVALID_VALUE;
    }
    // SAFETY: passed on to the caller.
    unsafe { cuCtxGetCurrent(pctx) }
}

pub(super) unsafe fn cuCtxSetLimit(limit: CUlimit, value: usize) -> CUresult {
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

fn synchronize(cx: Cx, context: u32) -> Result<(), CUresult> {
    let cx = Cx {
        scope: context,
        ..cx
    };
    shadow::about_to_wait(cx)?;
    let (since, mark) = (cx.queued(), shadow::mark());
    if !cx.idle(ALL_STREAMS) {
        cx.call(&msg::ContextSynchronize { context })?;
        cx.now_idle(ALL_STREAMS, since);
    }
    shadow::waited(cx, context, None, mark);
    Ok(())
}

pub(super) unsafe fn cuCtxSynchronize() -> CUresult {
    guard(|| {
        let cx = enter()?;
        synchronize(cx, cx.need_context()?)
    })
}

pub(super) unsafe fn cuCtxSynchronize_v2(ctx: CUcontext) -> CUresult {
    guard(|| {
        let cx = enter()?;
        synchronize(cx, given_or_current(cx, ctx)?)
    })
}

fn slot(dev: CUdevice) -> usize {
    (dev as usize).min(RETAINED.len() - 1)
}

pub(super) unsafe fn cuDevicePrimaryCtxGetState(
    dev: CUdevice,
    flags: *mut u32,
    active: *mut i32,
) -> CUresult {
    guard(|| {
        let cx = enter_local()?;
        device::get(cx, dev)?;
        let i = slot(dev);
        // SAFETY: the program's pointers.
        unsafe {
            put(flags, PRIMARY_FLAGS[i].load(Ordering::Relaxed))?;
            put(active, i32::from(RETAINED[i].load(Ordering::Acquire) > 0))
        }
    })
}

pub(super) unsafe fn cuDevicePrimaryCtxSetFlags_v2(dev: CUdevice, flags: u32) -> CUresult {
    guard(|| {
        let cx = enter_local()?;
        device::get(cx, dev)?;
        if flags & !0xff != 0 {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        PRIMARY_FLAGS[slot(dev)].store(flags, Ordering::Relaxed);
        Ok(())
    })
}

/// Counts one more user of a device's primary context, which its first user makes.
fn retain(cx: Cx, dev: CUdevice) -> Result<(), CUresult> {
    let _one = PRIMARY.lock().unwrap_or_else(PoisonError::into_inner);
    if RETAINED[slot(dev)].load(Ordering::Acquire) == 0 {
        let context = device::get(cx, dev)?.primary;
        let flags = PRIMARY_FLAGS[slot(dev)].load(Ordering::Relaxed);
        cx.call(&msg::PrimaryRetain {
            context,
            device: dev,
            flags,
        })?;
    }
    RETAINED[slot(dev)].fetch_add(1, Ordering::AcqRel);
    Ok(())
}

/// The current context, or the first device's primary one for what the runtime library asks before
/// there is any.
pub fn or_first(cx: Cx) -> Result<Cx, CUresult> {
    if cx.scope != 0 {
        return Ok(cx);
    }
    // Once: nobody gives back what is retained here.
    if RETAINED[slot(0)].load(Ordering::Acquire) == 0 {
        retain(cx, 0)?;
    }
    let scope = device::get(cx, 0)?.primary;
    Ok(Cx { scope, ..cx })
}

pub(super) unsafe fn cuDevicePrimaryCtxRetain(pctx: *mut CUcontext, dev: CUdevice) -> CUresult {
    guard(|| {
        let cx = enter_local()?;
        if pctx.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let handle = primary_handle(cx, dev)?;
        retain(cx, dev)?;
        // SAFETY: checked for null above; the program's pointer.
        unsafe { put(pctx, handle) }
    })
}

/// Ends a primary context.
fn end_primary(cx: Cx, context: u32, device: CUdevice, reset: u32) -> Result<(), CUresult> {
    if reset != 0 {
        super::tables::storage_destroy(context);
    }
    forget(context);
    let failed = failure(context) != 0;
    forget_errors(context);
    if failed {
        cx.call(&msg::PrimaryReleaseNow {
            context,
            device,
            reset,
        })
        .map(drop)
    } else {
        cx.send(&msg::PrimaryRelease {
            context,
            device,
            reset,
        })
    }
}

pub(super) unsafe fn cuDevicePrimaryCtxRelease_v2(dev: CUdevice) -> CUresult {
    guard(|| {
        let cx = enter_local()?;
        let d = device::get(cx, dev)?;
        let _one = PRIMARY.lock().unwrap_or_else(PoisonError::into_inner);
        match RETAINED[slot(dev)].load(Ordering::Acquire) {
            0 => Err(CUDA_ERROR_INVALID_CONTEXT),
            1 => {
                let ended = end_primary(cx, d.primary, dev, 0);
                RETAINED[slot(dev)].store(0, Ordering::Release);
                ended
            }
            n => {
                RETAINED[slot(dev)].store(n - 1, Ordering::Release);
                Ok(())
            }
        }
    })
}

pub(super) unsafe fn cuDevicePrimaryCtxReset_v2(dev: CUdevice) -> CUresult {
    guard(|| {
        let cx = enter_local()?;
        let d = device::get(cx, dev)?;
        let _one = PRIMARY.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = end_primary(cx, d.primary, dev, 1);
        RETAINED[slot(dev)].store(0, Ordering::Release);
        ended
    })
}

pub(super) unsafe fn cuCtxRecordEvent(ctx: CUcontext, event: CUevent) -> CUresult {
    guard(|| {
        let cx = enter()?;
        event::recorded_unseen();
        let m = msg::CuCtxRecordEvent {
            h_ctx: cx.handle(Kind::Context, ctx as u64)?,
            h_event: cx.handle(Kind::Event, event as u64)?,
        };
        cx.send(&m)
    })
}
