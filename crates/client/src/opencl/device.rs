//! Devices and sub-devices: queries answered from the server's description.

use super::entry::{self, Plain, Result};
use super::object::{self, Body, Object, get};
use super::platform::{self, Platform, Table};
use super::server::{LOST, Server, decode};
use busbar_abi::opencl::*;
use busbar_wire::generated::opencl as wire;
use busbar_wire::{Reader, WireError};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, Weak};

/// A device of a server, or a part of one.
pub struct Device {
    table: Table,
    extra: Mutex<HashMap<u32, Result<Vec<u8>>>>,
    parent: Option<Arc<Object<Device>>>,
    platform: OnceLock<Weak<Object<Platform>>>,
}

impl Body for Device {
    const MAGIC: u32 = 0x6273_7002;
    const INVALID: i32 = CL_INVALID_DEVICE;
}

/// Reads one device of a description.
pub fn parse(
    server: &'static Server,
    r: &mut Reader<'_>,
    parent: Option<Arc<Object<Device>>>,
) -> std::result::Result<Arc<Object<Device>>, WireError> {
    let id = r.u32()?;
    let mut table = platform::table(r)?;
    adjust(&mut table, &server.address);
    server.reserve(id);
    let device = Device {
        table,
        extra: Mutex::default(),
        platform: OnceLock::new(),
        parent: parent.clone(),
    };
    if let Some(p) = parent.as_ref().and_then(|p| p.platform.get()) {
        let _ = device.platform.set(p.clone());
    }
    Ok(Object::new(server, id, device))
}

/// Makes the description say what holds through Busbar.
fn adjust(t: &mut Table, address: &str) {
    platform::filter_extensions(t, CL_DEVICE_EXTENSIONS, CL_DEVICE_EXTENSIONS_WITH_VERSION);
    let mut mask = |param: u32, keep: u64| {
        if let Some(v) = t.get_mut(&param)
            && let Some(b) = v.first_chunk::<8>()
        {
            *v = (u64::from_ne_bytes(*b) & keep).plain();
        }
    };
    // Memory that host and device share at any moment cannot span two machines, nor can a host
    // function run on another.
    mask(
        CL_DEVICE_SVM_CAPABILITIES,
        CL_DEVICE_SVM_COARSE_GRAIN_BUFFER,
    );
    mask(CL_DEVICE_EXECUTION_CAPABILITIES, CL_EXEC_KERNEL);
    // Pipes are not forwarded.
    if let Some(v) = t.get_mut(&CL_DEVICE_PIPE_SUPPORT) {
        *v = false.plain();
    }
    platform::say_where(t, CL_DEVICE_NAME, address);
}

impl Device {
    fn bytes(&self, param: u32) -> Option<&[u8]> {
        self.table.get(&param).map(Vec::as_slice)
    }

    /// A number of up to 8 bytes; 0 when the device does not say.
    pub fn number(&self, param: u32) -> u64 {
        let mut b = [0; 8];
        let v = self.bytes(param).unwrap_or_default();
        let n = v.len().min(8);
        b[..n].copy_from_slice(&v[..n]);
        u64::from_le_bytes(b)
    }

    /// A list of sizes.
    pub fn sizes(&self, param: u32) -> Vec<u64> {
        self.bytes(param)
            .unwrap_or_default()
            .chunks_exact(8)
            .map(|c| c.iter().rev().fold(0, |n, b| n << 8 | u64::from(*b)))
            .collect()
    }

    /// Whether it has an extension that Busbar forwards.
    pub fn offers(&self, extension: &str) -> bool {
        platform::lists(self.table.get(&CL_DEVICE_EXTENSIONS), extension)
    }

    /// The version of the device.
    pub fn version(&self) -> (u32, u32) {
        platform::version(self.table.get(&CL_DEVICE_VERSION))
    }

    /// Says which platform the device belongs to.
    pub fn set_platform(&self, p: &Arc<Object<Platform>>) {
        let _ = self.platform.set(Arc::downgrade(p));
    }

    /// The device's platform.
    pub fn platform(&self) -> Handle {
        self.platform
            .get()
            .and_then(Weak::upgrade)
            .map_or(std::ptr::null_mut(), |p| p.handle())
    }

    /// Whether the device or the one it is a part of is `other`.
    pub fn is_root(&self) -> bool {
        self.parent.is_none()
    }
}

fn matches(d: &Device, kind: u64) -> bool {
    kind == CL_DEVICE_TYPE_ALL || d.number(CL_DEVICE_TYPE) & kind != 0
}

/// `clGetDeviceIDs`.
pub unsafe extern "C" fn get_device_ids(
    platform: Handle,
    kind: u64,
    room: u32,
    out: *mut Handle,
    count: *mut u32,
) -> i32 {
    entry::status(|| {
        // SAFETY: the program's handle.
        let p = unsafe { platform::default(platform)? };
        if out.is_null() && count.is_null() || room == 0 && !out.is_null() {
            return Err(CL_INVALID_VALUE);
        }
        let known = CL_DEVICE_TYPE_DEFAULT
            | CL_DEVICE_TYPE_CPU
            | CL_DEVICE_TYPE_GPU
            | CL_DEVICE_TYPE_ACCELERATOR
            | CL_DEVICE_TYPE_CUSTOM;
        if kind == 0 || kind != CL_DEVICE_TYPE_ALL && kind & !known != 0 {
            return Err(CL_INVALID_DEVICE_TYPE);
        }
        // The default device is the first, whatever it is.
        let list: Vec<_> = match kind {
            CL_DEVICE_TYPE_DEFAULT => p.devices.iter().take(1).collect(),
            _ => p.devices.iter().filter(|d| matches(d, kind)).collect(),
        };
        // SAFETY: null or the program's.
        unsafe { entry::put(count, list.len() as u32) };
        if list.is_empty() {
            return Err(CL_DEVICE_NOT_FOUND);
        }
        if !out.is_null() {
            for (i, d) in list.iter().take(room as usize).enumerate() {
                // SAFETY: the program gives room for `room` handles.
                unsafe { out.add(i).write(d.handle()) };
            }
        }
        Ok(())
    })
}

/// `clGetDeviceInfo`.
pub unsafe extern "C" fn get_device_info(
    device: Handle,
    param: u32,
    size: usize,
    value: Handle,
    ret: *mut usize,
) -> i32 {
    entry::status(|| {
        // SAFETY: the program's handle.
        let d = unsafe { get::<Device>(device)? };
        let bytes = match param {
            CL_DEVICE_PLATFORM => d.platform().plain(),
            CL_DEVICE_PARENT_DEVICE => d
                .parent
                .as_ref()
                .map_or(std::ptr::null_mut(), |p| p.handle())
                .plain(),
            CL_DEVICE_REFERENCE_COUNT => d.count().plain(),
            _ => match d.bytes(param) {
                Some(b) => b.to_vec(),
                None => platform::ask(&d.extra, param, || {
                    let ask = wire::DeviceInfo {
                        device: d.id,
                        param,
                    };
                    let body = d.server.call(&ask)?;
                    Ok(decode::<wire::DeviceInfoReply>(&body)?.value.to_vec())
                })?,
            },
        };
        // SAFETY: the program's memory, as it says.
        unsafe { entry::answer(&bytes, size, value, ret) }
    })
}

/// `clCreateSubDevices`.
pub unsafe extern "C" fn create_sub_devices(
    device: Handle,
    properties: *const isize,
    room: u32,
    out: *mut Handle,
    count: *mut u32,
) -> i32 {
    entry::status(|| {
        // SAFETY: the program's handle.
        let d = unsafe { get::<Device>(device)? };
        if properties.is_null() || out.is_null() && count.is_null() {
            return Err(CL_INVALID_VALUE);
        }
        let mut list = Vec::new();
        for i in 0..512 {
            // SAFETY: the list ends in a zero; an inner list of counts ends in a zero of its own,
            // with another after it.
            let v = unsafe { properties.add(i).read() } as u64;
            list.push(v);
            let counts = list[0] == u64::from(CL_DEVICE_PARTITION_BY_COUNTS);
            if v == 0 && (i == 0 || !counts || list.len() > 1 && list[i - 1] == 0) {
                break;
            }
        }
        let most = if out.is_null() { 0 } else { room };
        // The worker gives no more than the device has compute units.
        let range = d.number(CL_DEVICE_MAX_COMPUTE_UNITS).clamp(1, 4096) as u32;
        let first = d.server.id_range(range);
        let body = d.server.call(&wire::CreateSubDevices {
            device: d.id,
            first,
            most: most.min(range),
            properties: list,
        })?;
        let reply: wire::CreateSubDevicesReply = decode(&body)?;
        let mut r = Reader::new(reply.devices);
        let n = r.u32().map_err(|_| LOST)?;
        if !out.is_null() {
            let made = r.u32().map_err(|_| LOST)?;
            for i in 0..made as usize {
                let sub = parse(d.server, &mut r, Some(d.keep())).map_err(|_| LOST)?;
                if i < room as usize {
                    // SAFETY: the program gives room for `room` handles.
                    unsafe { out.add(i).write(sub.give()) };
                }
            }
        }
        // SAFETY: null or the program's.
        unsafe { entry::put(count, n) };
        Ok(())
    })
}

/// `clRetainDevice`.
pub unsafe extern "C" fn retain_device(device: Handle) -> i32 {
    entry::status(|| {
        // SAFETY: the program's handle.
        let d = unsafe { get::<Device>(device)? };
        if d.is_root() {
            return Ok(());
        }
        // SAFETY: as above.
        unsafe { object::retain::<Device>(device) }
    })
}

/// `clReleaseDevice`.
pub unsafe extern "C" fn release_device(device: Handle) -> i32 {
    entry::status(|| {
        // SAFETY: the program's handle.
        let d = unsafe { get::<Device>(device)? };
        if d.is_root() {
            return Ok(());
        }
        // SAFETY: as above.
        unsafe { object::release::<Device>(device) }
    })
}

/// `clGetDeviceAndHostTimer`.
pub unsafe extern "C" fn get_device_and_host_timer(
    device: Handle,
    device_time: *mut u64,
    host_time: *mut u64,
) -> i32 {
    entry::status(|| {
        // SAFETY: the program's handle.
        let d = unsafe { get::<Device>(device)? };
        d.has_timer()?;
        if device_time.is_null() || host_time.is_null() {
            return Err(CL_INVALID_VALUE);
        }
        let before = host_now();
        let body = d.server.call(&wire::DeviceTimer { device: d.id })?;
        let after = host_now();
        let reply: wire::DeviceTimerReply = decode(&body)?;
        // SAFETY: checked for null; the program's.
        unsafe {
            device_time.write(reply.device_time);
            // The worker read its clock about half way through.
            host_time.write(before + (after - before) / 2);
        }
        Ok(())
    })
}

/// `clGetHostTimer`.
pub unsafe extern "C" fn get_host_timer(device: Handle, host_time: *mut u64) -> i32 {
    entry::status(|| {
        // SAFETY: the program's handle.
        unsafe { get::<Device>(device)? }.has_timer()?;
        if host_time.is_null() {
            return Err(CL_INVALID_VALUE);
        }
        // SAFETY: checked for null; the program's.
        unsafe { host_time.write(host_now()) };
        Ok(())
    })
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

impl Device {
    /// Fails when the platform cannot compare the clocks of host and device.
    fn has_timer(&self) -> Result<()> {
        let platform = self.platform.get().and_then(Weak::upgrade);
        match platform.is_some_and(|p| p.number(CL_PLATFORM_HOST_TIMER_RESOLUTION) > 0) {
            true => Ok(()),
            false => Err(CL_INVALID_OPERATION),
        }
    }

    /// Whether the device takes programs in an intermediate language.
    pub fn takes_il(&self) -> bool {
        self.bytes(CL_DEVICE_IL_VERSION)
            .is_some_and(|v| v.first().is_some_and(|b| *b != 0))
    }
}
