//! Attributes of functions.

use super::prelude::*;
use crate::cuda::engine::launch;
use crate::cuda::state::functions::{ATTRIBUTES, MAX_DYNAMIC_SHARED, SETTABLE, STATIC_SHARED};

/// The value of an attribute on the current device.
#[inline]
pub fn attribute(cx: Cx, f: CUfunction, which: CUfunction_attribute) -> Result<i32> {
    attribute_on(cx, f, which, || cx.device_or_first())
}

/// The value of an attribute on a device.
#[inline]
pub fn attribute_on(
    cx: Cx,
    f: CUfunction,
    which: CUfunction_attribute,
    device: impl FnOnce() -> CUdevice,
) -> Result<i32> {
    let (_, f) = launch::function(cx, f)?;
    let i = which as usize;
    refuse_if(i >= ATTRIBUTES, CUDA_ERROR_INVALID_VALUE)?;
    Ok(f.attribute_on(i, device))
}

/// Sets an attribute for the current device, or for that of the function's context where no context
/// is current.
pub fn set_here(cx: Cx, raw: CUfunction, which: CUfunction_attribute, value: i32) -> Result<()> {
    let (id, _) = launch::function(cx, raw)?;
    let cx = match cx.scope {
        0 => cx.in_context(cx.state().handles.context(Kind::Function, id)),
        _ => cx,
    };
    set_attribute(cx, raw, which, value, cx.current_device()?)
}

/// Sets an attribute, here and at the worker.
pub fn set_attribute(
    cx: Cx,
    raw: CUfunction,
    which: CUfunction_attribute,
    value: i32,
    device: CUdevice,
) -> Result<()> {
    let (_, f) = launch::function(cx, raw)?;
    let i = which as usize;
    refuse_if(
        !(SETTABLE..ATTRIBUTES).contains(&i),
        CUDA_ERROR_INVALID_VALUE,
    )?;
    if i == MAX_DYNAMIC_SHARED {
        let d = cx.device(device)?;
        let most = d
            .attributes
            .get(&(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN as i32))
            .copied()
            .unwrap_or(i32::MAX);
        if value < 0 || value > most - f.attribute(STATIC_SHARED) {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
    }
    // Setting what is set already is common (once before each launch), and nothing to send.
    let old = f.set_attribute(i, device, value);
    if old == value {
        return Ok(());
    }
    cx.send(&msg::FunctionSetAttribute {
        function: f.kernel,
        attribute: i as i32,
        value,
        device,
    })
    .inspect_err(|_| _ = f.set_attribute(i, device, old))
}
