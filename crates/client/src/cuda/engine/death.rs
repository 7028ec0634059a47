//! The end of a context, and of all that lived in it.
//!
//! In this order: the device's side of the program's memory, memory with mappings of its own, the
//! word to the worker, and last what other threads may use again at once: ids and small addresses.

use super::prelude::*;
use crate::cuda::call::{Host, freed, thread};
use crate::cuda::engine::activity::{self, Resource};
use crate::cuda::engine::{host_memory, host_pool, managed};
use crate::cuda::state::ranges::Sort;
use crate::cuda::state::space;
use crate::marks;

/// Frees the memory of the context `cx` is in.
fn free_memory(cx: Cx) {
    let (id, state) = (cx.scope, cx.state());
    state.shadows.forget_context(&Host, id);
    host_memory::leave_context(cx);
    let mut pieces = Vec::new();
    state.imports.retain(|_, i| {
        if i.context == id {
            pieces.push((i.device as u32, i.at, i.mapped));
        }
        i.context != id
    });
    for r in state.ranges.take_context(id) {
        match r.sort {
            Sort::Device => pieces.push((r.device as u32, r.base, r.size)),
            // A module's variable has no flags, and is not ours.
            Sort::Managed if r.flags != 0 => {
                if host_pool::is_managed(&r) {
                    host_pool::lose(cx, &r);
                }
                managed::close(&r);
                pieces.push((space::MANAGED, r.base, r.size));
            }
            _ => {}
        }
    }
    let device = state.contexts.device(id).unwrap_or(0);
    // A session that is over has unmapped everything.
    let _ = freed::retire_all(cx, pieces, [device as u32, space::MANAGED]);
}

/// Ends a context by `end`, which tells the worker.
fn finish(cx: Cx, id: u32, end: impl FnOnce(Cx) -> Result<()>) -> Result<()> {
    if marks::is_on() {
        let raw = cx.raw(Kind::Context, id);
        activity::resource(Resource::ContextDestroyStarting, raw, 0);
    }
    free_memory(cx.in_context(id));
    let ended = end(cx);
    cx.client.answers.forget_all(&id.to_le_bytes());
    cx.state().retire_context(id);
    ended
}

/// A context went, and all that lived in it, by `end`.
pub fn gone(cx: Cx, id: u32, end: impl FnOnce(Cx) -> Result<()>) -> Result<()> {
    let ended = finish(cx, id, end);
    if thread::current_raw() == cx.raw(Kind::Context, id) {
        thread::pop(cx.client);
    }
    cx.destroy(Kind::Context, id);
    ended
}

/// Destroys a context that is not primary.
pub fn destroy(cx: Cx, id: u32) -> Result<()> {
    let works = cx.state().contexts.works(id).is_ok();
    gone(cx, id, |cx| {
        if works {
            cx.send(&msg::ContextDestroy { context: id })
        } else {
            cx.call(&msg::ContextDestroyNow { context: id }).map(drop)
        }
    })
}

/// Gives one use of a device's primary context back; the last ends it.
pub fn release(cx: Cx, device: CUdevice) -> Result<()> {
    let context = cx.device(device)?.primary;
    let contexts = &cx.state().contexts;
    let _one = contexts.change_primaries();
    let p = contexts.primary(device)?;
    match p.retained.load(Ordering::Acquire) {
        0 => Err(CUDA_ERROR_INVALID_CONTEXT),
        1 => {
            let ended = end_primary(cx, context, device, 0);
            p.retained.store(0, Ordering::Release);
            ended
        }
        n => {
            p.retained.store(n - 1, Ordering::Release);
            Ok(())
        }
    }
}

/// Ends a device's primary context, whoever uses it.
pub fn reset(cx: Cx, device: CUdevice) -> Result<()> {
    let context = cx.device(device)?.primary;
    let contexts = &cx.state().contexts;
    let _one = contexts.change_primaries();
    // What libraries have stored beside it is handed to their destructors.
    let ctx = cx.raw(Kind::Context, context) as CUcontext;
    for (key, s) in cx.state().storage.take_context(context) {
        if let Some(f) = s.destructor {
            // SAFETY: the library's own function, with what it stored.
            unsafe { f(ctx, key as _, s.value as _) };
        }
    }
    let ended = end_primary(cx, context, device, 1);
    contexts
        .primary(device)?
        .retained
        .store(0, Ordering::Release);
    ended
}

fn end_primary(cx: Cx, context: u32, device: CUdevice, reset: u32) -> Result<()> {
    let contexts = &cx.state().contexts;
    let works = contexts.works(context).is_ok();
    contexts.forget_errors(context);
    finish(cx, context, |cx| {
        if works {
            cx.send(&msg::PrimaryRelease {
                context,
                device,
                reset,
            })
        } else {
            let m = msg::PrimaryReleaseNow {
                context,
                device,
                reset,
            };
            cx.call(&m).map(drop)
        }
    })
}
