//! The functions on devices and their primary contexts.

use crate::config;
use crate::engine::life;
use crate::entry::api;
use crate::faults;
use crate::ffi::*;
use crate::state::context;
use crate::state::device::{self, DRIVER_VERSION, by_ordinal, count, initialize, initialized};
use std::ffi::c_char;
use std::sync::atomic::Ordering;

const NAME: &str = "Busbar fakedev";

unsafe fn put_string(out: *mut c_char, room: i32, text: &str) -> Res {
    if out.is_null() || room <= 0 {
        return Err(INVALID_VALUE);
    }
    let n = text.len().min(room as usize - 1);
    // SAFETY: the caller's buffer has `room` bytes, and n and its terminator fit.
    unsafe {
        out.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), n);
        *out.add(n) = 0;
    }
    Ok(())
}

api! {
    fn [cuInit] (flags: u32) {
        if flags != 0 || !faults::readable() {
            return Err(INVALID_VALUE);
        }
        if count() == 0 {
            return Err(NO_DEVICE);
        }
        initialize();
        Ok(())
    }

    fn [cuDriverGetVersion] (out: *mut i32) {
        put(out, DRIVER_VERSION)
    }

    fn [cuDeviceGet] (out: *mut CUdevice, ordinal: i32) {
        put(out, by_ordinal(ordinal)? as CUdevice)
    }

    fn [cuDeviceGetCount] (out: *mut i32) {
        initialized()?;
        put(out, count() as i32)
    }

    fn [cuDeviceGetName] (out: *mut c_char, room: i32, device: CUdevice) {
        by_ordinal(device)?;
        let name = config::get("FAKEDEV_NAME");
        put_string(out, room, name.as_deref().unwrap_or(NAME))
    }

    fn [cuDeviceGetUuid cuDeviceGetUuid_v2] (out: *mut Uuid, device: CUdevice) {
        put(out, Uuid(device::get(by_ordinal(device)?).uuid()))
    }

    fn [cuDeviceTotalMem_v2] (out: *mut usize, device: CUdevice) {
        put(out, device::get(by_ordinal(device)?).memory())
    }

    fn [cuDeviceGetAttribute] (out: *mut i32, which: i32, device: CUdevice) {
        put(out, device::get(by_ordinal(device)?).attribute(which)?)
    }

    fn [cuDeviceComputeCapability] (major: *mut i32, minor: *mut i32, device: CUdevice) {
        let device = device::get(by_ordinal(device)?);
        put(major, device.attribute(75)?)?;
        put(minor, device.attribute(76)?)
    }

    fn [cuDeviceGetPCIBusId] (out: *mut c_char, room: i32, device: CUdevice) {
        put_string(out, room, &device::get(by_ordinal(device)?).bus_id())
    }

    fn [cuDeviceGetByPCIBusId] (out: *mut CUdevice, bus_id: *const c_char) {
        initialized()?;
        let wanted = text(bus_id)?;
        let same = |device: &usize| {
            let full = device::get(*device).bus_id();
            let (short, bare) = (&full[5..], full.trim_end_matches(".0"));
            [&full, short, bare].iter().any(|name| name.eq_ignore_ascii_case(wanted))
        };
        let found = (0..count()).find(same).ok_or(INVALID_DEVICE)?;
        put(out, found as CUdevice)
    }

    fn [cuDeviceGetP2PAttribute] (
        out: *mut i32, which: i32, device: CUdevice, peer: CUdevice,
    ) {
        if by_ordinal(device)? == by_ordinal(peer)? {
            return Err(INVALID_DEVICE);
        }
        match which {
            1 | 4 => put(out, 0),
            2 | 3 => put(out, 1),
            _ => Err(INVALID_VALUE),
        }
    }

    fn [cuDeviceGetExecAffinitySupport] (out: *mut i32, _kind: i32, device: CUdevice) {
        by_ordinal(device)?;
        put(out, 0)
    }

    fn [cuDevicePrimaryCtxRetain] (out: *mut CUcontext, device: CUdevice) {
        let context = context::primary(by_ordinal(device)?);
        if out.is_null() {
            return Err(INVALID_VALUE);
        }
        if context.retained.fetch_add(1, Ordering::AcqRel) == 0 {
            context.revive();
        }
        put(out, context.handle)
    }

    fn [cuDevicePrimaryCtxRelease_v2 cuDevicePrimaryCtxRelease] (device: CUdevice) {
        let context = context::primary(by_ordinal(device)?);
        let one_less = |n: usize| n.checked_sub(1);
        let (order, fetch) = (Ordering::AcqRel, Ordering::Acquire);
        match context.retained.fetch_update(order, fetch, one_less) {
            Ok(1) => life::end(&context),
            Ok(_) => {}
            Err(_) => return Err(INVALID_CONTEXT),
        }
        Ok(())
    }

    fn [cuDevicePrimaryCtxReset_v2 cuDevicePrimaryCtxReset] (device: CUdevice) {
        let context = context::primary(by_ordinal(device)?);
        if context.alive() {
            life::end(&context);
        }
        // The program's references stay; the context is new behind them.
        if context.retained.load(Ordering::Acquire) != 0 {
            context.revive();
        }
        Ok(())
    }

    fn [cuDevicePrimaryCtxSetFlags_v2 cuDevicePrimaryCtxSetFlags] (device: CUdevice, flags: u32) {
        context::primary(by_ordinal(device)?).flags.store(flags, Ordering::Release);
        Ok(())
    }

    fn [cuDevicePrimaryCtxGetState] (device: CUdevice, flags: *mut u32, active: *mut i32) {
        let context = context::primary(by_ordinal(device)?);
        put_opt(flags, context.flags.load(Ordering::Acquire));
        put_opt(active, i32::from(context.alive()));
        Ok(())
    }
}
