//! What is set of core dumps. There are none: a driver writes them on its own machine.

use super::prelude::*;
use crate::cuda::state::dumps::{ALL, Of, Settings};

/// What of core dumps cannot be had.
const NONE: &str = "core dumps are written on the machine of the device, so there are none here";

/// The current context.
fn of_current(cx: Cx) -> Result<Of> {
    let context = cx.scope;
    let info = cx.state().contexts.info(context);
    let serial = info.ok_or(CUDA_ERROR_INVALID_CONTEXT)?.serial;
    Ok(Of { context, serial })
}

unsafe fn get(
    cx: Cx,
    name: CUcoredumpSettings,
    (value, size): (*mut c_void, *mut usize),
    whose: Of,
) -> Result<()> {
    refuse_if(size.is_null(), CUDA_ERROR_INVALID_VALUE)?;
    let bytes = cx.state().dumps.get(whose, name)?;
    let most = Settings::size(whose, name)?;
    if value.is_null() {
        // SAFETY: checked for null above; the program's pointer.
        unsafe { size.write_unaligned(most) };
        return Ok(());
    }
    // SAFETY: as above.
    let room = unsafe { size.read_unaligned() };
    let fits = match Settings::is_text(name) {
        true => room >= bytes.len(),
        false => room == most,
    };
    refuse_if(!fits, CUDA_ERROR_INVALID_VALUE)?;
    // SAFETY: the program's buffer, which has room for them.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), value.cast(), bytes.len()) };
    if Settings::is_text(name) && room > bytes.len() {
        // SAFETY: as above; a text has its end, where there is room for that.
        unsafe { value.cast::<u8>().add(bytes.len()).write(0) };
    }
    Ok(())
}

unsafe fn set(
    cx: Cx,
    name: CUcoredumpSettings,
    (value, size): (*mut c_void, *mut usize),
    whose: Of,
) -> Result<()> {
    let null = value.is_null() || size.is_null();
    refuse_if(null, CUDA_ERROR_INVALID_VALUE)?;
    let most = Settings::size(whose, name)?;
    // SAFETY: checked for null above; the program's pointer.
    let len = unsafe { size.read_unaligned() };
    let fits = match Settings::is_text(name) {
        true => len <= most,
        false => len == most,
    };
    refuse_if(!fits, CUDA_ERROR_INVALID_VALUE)?;
    // SAFETY: the program's value of that size.
    let bytes = unsafe { std::slice::from_raw_parts(value.cast::<u8>(), len) };
    let begins = matches!(
        name,
        CU_COREDUMP_ENABLE_ON_EXCEPTION | CU_COREDUMP_ENABLE_USER_TRIGGER
    );
    if begins && bytes.iter().any(|b| *b != 0) {
        return Err(crate::cuda::life::unsupported(
            "cuCoredumpSetAttribute",
            NONE,
        ));
    }
    let next = cx.state().contexts.next_serial();
    cx.state().dumps.set(whose, name, bytes, next);
    Ok(())
}

pub unsafe fn cuCoredumpGetAttribute(
    cx: Cx,
    name: CUcoredumpSettings,
    value: *mut c_void,
    size: *mut usize,
) -> Result<()> {
    // SAFETY: passed on to the caller.
    unsafe { get(cx, name, (value, size), of_current(cx)?) }
}

pub unsafe fn cuCoredumpGetAttributeGlobal(
    cx: Cx,
    name: CUcoredumpSettings,
    value: *mut c_void,
    size: *mut usize,
) -> Result<()> {
    // SAFETY: passed on to the caller.
    unsafe { get(cx, name, (value, size), ALL) }
}

pub unsafe fn cuCoredumpSetAttribute(
    cx: Cx,
    name: CUcoredumpSettings,
    value: *mut c_void,
    size: *mut usize,
) -> Result<()> {
    // SAFETY: passed on to the caller.
    unsafe { set(cx, name, (value, size), of_current(cx)?) }
}

pub unsafe fn cuCoredumpSetAttributeGlobal(
    cx: Cx,
    name: CUcoredumpSettings,
    value: *mut c_void,
    size: *mut usize,
) -> Result<()> {
    // SAFETY: passed on to the caller.
    unsafe { set(cx, name, (value, size), ALL) }
}
