//! Devices and sub-devices: queries answered from the server's description.

use super::prelude::*;
use crate::opencl::engine::describe;

/// `clGetDeviceIDs`.
pub fn clGetDeviceIDs(
    client: &Client,
    p: Option<&Object<Platform>>,
    kind: u64,
    room: Room<Handle>,
) -> Result<()> {
    let p = client.platform(p)?;
    room.check_list()?;
    let list = p.of_kind(kind).inspect_err(|e| {
        if *e == CL_DEVICE_NOT_FOUND {
            room.give(0, []);
        }
    })?;
    room.give(list.len(), list.iter().map(|d| d.handle()));
    Ok(())
}

/// `clGetDeviceInfo`.
pub fn clGetDeviceInfo(d: &Object<Device>, param: u32, to: Answer) -> Result<()> {
    let null = std::ptr::null_mut::<std::ffi::c_void>();
    let ask = || {
        let device = d.id;
        let body = d.server.call(&wire::DeviceInfo { device, param })?;
        Ok(decode::<wire::DeviceInfoReply>(&body)?.value.to_vec())
    };
    to.give(&match param {
        CL_DEVICE_PLATFORM => d.platform().map_or(null, |p| p.handle()).plain(),
        CL_DEVICE_PARENT_DEVICE => d.parent.as_ref().map_or(null, |p| p.handle()).plain(),
        CL_DEVICE_REFERENCE_COUNT => d.count().plain(),
        _ => match d.table.get(param) {
            Some(b) => b.to_vec(),
            None => d.extra.get(param, LOST, ask)?,
        },
    })
}

/// `clCreateSubDevices`.
pub unsafe fn clCreateSubDevices(
    d: &Object<Device>,
    properties: *const isize,
    room: Room<Handle>,
) -> Result<()> {
    refuse_if(properties.is_null(), CL_INVALID_VALUE)?;
    room.check()?;
    let mut list = Vec::new();
    for i in 0..512 {
        // SAFETY: the list ends in a zero; an inner list of counts ends in a zero of its own, with
        // another after it.
        let v = unsafe { properties.add(i).read() } as u64;
        list.push(v);
        let counts = list[0] == u64::from(CL_DEVICE_PARTITION_BY_COUNTS);
        if v == 0 && (i == 0 || !counts || list.len() > 1 && list[i - 1] == 0) {
            break;
        }
    }
    let (n, made) = describe::create_sub_devices(d, list, room.wanted())?;
    room.give(n, made.into_iter().map(|d| d.give()));
    Ok(())
}

/// `clGetDeviceAndHostTimer`.
pub fn clGetDeviceAndHostTimer(
    d: &Object<Device>,
    device_time: Slot<u64>,
    host_time: Slot<u64>,
) -> Result<()> {
    d.check_timer()?;
    refuse_if(device_time.is_none(), CL_INVALID_VALUE)?;
    refuse_if(host_time.is_none(), CL_INVALID_VALUE)?;
    let before = host_now();
    let body = d.server.call(&wire::DeviceTimer { device: d.id })?;
    let after = host_now();
    let reply: wire::DeviceTimerReply = decode(&body)?;
    device_time.put(reply.device_time);
    // The worker read its clock about half way through.
    host_time.put(before + (after - before) / 2);
    Ok(())
}

/// `clGetHostTimer`.
pub fn clGetHostTimer(d: &Object<Device>, host_time: Slot<u64>) -> Result<()> {
    d.check_timer()?;
    refuse_if(host_time.is_none(), CL_INVALID_VALUE)?;
    host_time.put(host_now());
    Ok(())
}

fn host_now() -> u64 {
    let mut t = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `t` is ours.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}
