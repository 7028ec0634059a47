//! Contexts at the worker: primary ones come with their first user.

use super::prelude::*;
use crate::cuda::engine::activity::{self, Resource};
use crate::cuda::state::devices::Device;
use crate::marks;

/// The current context's device.
pub fn device_of(cx: Cx) -> Result<&'static Device> {
    cx.device(cx.current_device()?)
}

/// The id of a device's primary context, whether it is retained or not.
pub fn primary_id(cx: Cx, dev: CUdevice) -> Result<u32> {
    let d = cx.device(dev)?;
    let contexts = &cx.state().contexts;
    if contexts.info(d.primary).is_none() {
        contexts.remember(d.primary, dev, 0, true);
    }
    Ok(d.primary)
}

/// Where memory on a device is at home, which may be another one than the current context's: copies
/// with the host are made in a context of its own device.
pub fn home_on(cx: Cx, dev: CUdevice) -> Result<(u32, CUdevice)> {
    let here = cx.current_device() == Ok(dev);
    let context = if here {
        cx.scope
    } else {
        cx.device(dev)?.primary
    };
    Ok((context, dev))
}

/// Counts one more user of a device's primary context, which its first user makes.
pub fn retain(cx: Cx, dev: CUdevice) -> Result<()> {
    let contexts = &cx.state().contexts;
    let (context, one) = (cx.device(dev)?.primary, contexts.change_primaries());
    let p = contexts.primary(dev)?;
    let fresh = p.retained.load(Ordering::Acquire) == 0;
    if fresh {
        contexts.heed_environment();
        cx.call(&msg::PrimaryRetain {
            context,
            device: dev,
            flags: p.flags.load(Ordering::Relaxed),
        })?;
    }
    p.retained.fetch_add(1, Ordering::AcqRel);
    // Who hears of it may ask for the context.
    drop(one);
    if fresh {
        created(cx, context);
    }
    Ok(())
}

/// A context is there.
pub fn created(cx: Cx, id: u32) {
    if marks::is_on() {
        activity::resource(Resource::ContextCreated, cx.raw(Kind::Context, id), 0);
    }
}

/// The current context, or the first device's primary one for what the runtime library asks before
/// there is any.
pub fn or_first(cx: Cx) -> Result<Cx> {
    if cx.scope != 0 {
        return Ok(cx);
    }
    let first = cx.client.devices.first().ok_or(CUDA_ERROR_NO_DEVICE)?;
    let p = cx.state().contexts.primary(first.ordinal)?;
    // Once: nobody gives back what is retained here.
    if p.retained.load(Ordering::Acquire) == 0 {
        retain(cx, first.ordinal)?;
    }
    Ok(cx.in_context(first.primary))
}
