//! A simulated NVML for the devices of `libfakedev.so`: what a server's monitoring process loads in
//! tests (`--nvml-library PATH`), and what the same questions are asked of natively.
//!
//! `FAKEDEV_DEVICES` is the number of devices (1), `FAKEDEV_MACHINE` that of the machine, which is
//! in their UUIDs (0); where `FAKEDEV_TOGETHER` is set, as much is in use as all processes say that
//! name the same folder there;
//! with `FAKENVML_GROWS` there is a byte more in use each time somebody looks.
//! Live values differ between devices and are the same at every question, so that a native and a
//! remote run can be compared; only the energy grows, and the field that counts PCIe replays (94).
//! Who asks for the field 60000 + N makes an event of the type 1 << N happen to the device, with
//! the scope as its data: that gets to wherever the library is.

// Functions of the API keep their C names.
#![allow(non_snake_case)]

mod event;
mod own;
mod state;
mod together;

use state::{
    Device, INSUFFICIENT_SIZE, INVALID_ARGUMENT, NOT_SUPPORTED, PROCESS, SUCCESS, count, put, valid,
};
use std::ffi::c_char;
use std::sync::atomic::Ordering;

const MIB: u64 = 1 << 20;
const TOTAL: u64 = 4608 * MIB;
const RESERVED: u64 = 512 * MIB;

/// How the UUIDs of all machines' devices begin.
const UUIDS: &str = "GPU-62757362-6172-2d66-616b-65646576";

/// The machine's number, which UUIDs have.
fn machine() -> u8 {
    let set = std::env::var("FAKEDEV_MACHINE").ok();
    set.and_then(|n| n.parse::<u64>().ok()).unwrap_or(0) as u8
}

fn used(d: Device) -> u64 {
    if let Some(free) = together::free(d) {
        return (TOTAL - RESERVED).saturating_sub(free);
    }
    let more = match std::env::var_os("FAKENVML_GROWS") {
        Some(_) => PROCESS.looked.fetch_add(1, Ordering::Relaxed),
        None => 0,
    };
    (100 + d as u64) * MIB + more
}

/// Stores a text with its NUL.
///
/// # Safety
/// `out` is null or points to `room` bytes.
unsafe fn put_text(out: *mut c_char, room: u32, text: &str) -> u32 {
    if out.is_null() {
        return INVALID_ARGUMENT;
    }
    if text.len() >= room as usize {
        return INSUFFICIENT_SIZE;
    }
    for (i, b) in text.bytes().chain([0]).enumerate() {
        // SAFETY: the caller's promise; text and NUL fit.
        unsafe { out.add(i).write(b as c_char) };
    }
    SUCCESS
}

macro_rules! api {
    ($(fn $name:ident($($arg:ident: $t:ty),*) $body:expr;)*) => { $(
        /// As the API says.
        ///
        /// # Safety
        /// As the API says.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $t),*) -> u32 {
            // SAFETY: passed on to the caller.
            #[allow(unused_unsafe)]
            unsafe { $body }
        }
    )* };
}

/// Processes of a device, of which those that share it densely have a list of their own: this one
/// alone, if it has the simulated driver.
unsafe fn processes(d: Device, n: *mut u32, out: *mut [u64; 3], dense: bool) -> u32 {
    let here = std::env::var_os("CUDA_MPS_PIPE_DIRECTORY").is_some() == dense;
    // SAFETY: the caller's pointers.
    unsafe {
        let Some(bytes) = own::taken(d).filter(|_| here) else {
            return put(n, 0);
        };
        if *n < 1 {
            put(n, 1);
            return INSUFFICIENT_SIZE;
        }
        put(n, 1) | put(out, [u64::from(std::process::id()), bytes, u64::MAX])
    }
}

/// Functions about a device `d` that store one number.
macro_rules! numbers {
    ($($name:ident($d:ident) = $value:expr;)*) => { api! { $(
        fn $name($d: Device, out: *mut u32) {
            if !valid($d) {
                return INVALID_ARGUMENT;
            }
            put(out, $value as u32)
        };
    )* } };
}

numbers! {
    nvmlDeviceGetIndex(d) = d - 1;
    nvmlDeviceGetMinorNumber(d) = d + 3;
    nvmlDeviceGetBrand(_d) = 14;
    nvmlDeviceGetBoardId(d) = 0x1000 * d;
    nvmlDeviceGetArchitecture(_d) = 9;
    nvmlDeviceGetNumGpuCores(_d) = 16896;
    nvmlDeviceGetMemoryBusWidth(_d) = 6144;
    nvmlDeviceGetPowerUsage(d) = 75_000 + d;
    nvmlDeviceGetPowerManagementLimit(_d) = 700_000;
    nvmlDeviceGetPowerManagementDefaultLimit(_d) = 700_000;
    nvmlDeviceGetEnforcedPowerLimit(_d) = 650_000;
    nvmlDeviceGetPerformanceState(_d) = 0;
    nvmlDeviceGetPersistenceMode(_d) = 1;
    nvmlDeviceGetComputeMode(_d) = 0;
    nvmlDeviceGetCurrPcieLinkGeneration(_d) = 5;
    nvmlDeviceGetCurrPcieLinkWidth(_d) = 16;
    nvmlDeviceGetMaxPcieLinkGeneration(_d) = 5;
    nvmlDeviceGetMaxPcieLinkWidth(_d) = 16;
    nvmlDeviceGetGpuMaxPcieLinkGeneration(_d) = 6;
    nvmlDeviceGetPcieReplayCounter(d) = 7 * d;
    nvmlDeviceGetBusType(_d) = 2;
    nvmlDeviceGetModuleId(d) = d + 1;
    nvmlDeviceGetMultiGpuBoard(_d) = 0;
    nvmlDeviceGetDisplayMode(_d) = 0;
    nvmlDeviceGetDisplayActive(_d) = 0;
    nvmlDeviceGetPowerManagementMode(_d) = 1;
    nvmlDeviceGetVirtualizationMode(_d) = 1;
    nvmlDeviceGetDefaultEccMode(_d) = 1;
    nvmlDeviceGetInforomConfigurationChecksum(d) = 0xabc0 + d;
    nvmlDeviceGetIrqNum(d) = 40 + d;
}

#[rustfmt::skip]
api! {
    fn nvmlInit_v2() SUCCESS;
    fn nvmlShutdown() SUCCESS;
    fn nvmlSystemGetDriverVersion(out: *mut c_char, room: u32) put_text(out, room, "580.82.07");
    fn nvmlSystemGetNVMLVersion(out: *mut c_char, room: u32) put_text(out, room, "13.580.82.07");
    fn nvmlDeviceGetCount_v2(out: *mut u32) put(out, count() as u32);
    fn nvmlDeviceGetHandleByIndex_v2(i: u32, out: *mut Device) {
        if i as usize >= count() {
            return INVALID_ARGUMENT;
        }
        // NVML's order is not always CUDA's: here it is the reverse.
        put(out, count() - i as usize)
    };
    fn nvmlDeviceGetUUID(d: Device, out: *mut c_char, room: u32)
        put_text(out, room, &format!("{UUIDS}{:02x}{:02x}", machine(), d - 1));
    fn nvmlDeviceGetSerial(d: Device, out: *mut c_char, room: u32)
        put_text(out, room, &format!("16502300000{d}"));
    fn nvmlDeviceGetVbiosVersion(_d: Device, out: *mut c_char, room: u32)
        put_text(out, room, "96.00.A5.00.01");
    fn nvmlDeviceGetMemoryInfo(d: Device, out: *mut [u64; 3])
        put(out, [TOTAL, TOTAL - RESERVED - used(d), RESERVED + used(d)]);
    fn nvmlDeviceGetMemoryInfo_v2(d: Device, out: *mut [u64; 5]) {
        let version = (*out)[0] as u32;
        if version != (40 | 2 << 24) {
            return 25;
        }
        put(out, [version.into(), TOTAL, RESERVED, TOTAL - RESERVED - used(d), used(d)])
    };
    fn nvmlDeviceGetBAR1MemoryInfo(d: Device, out: *mut [u64; 3])
        put(out, [256 * MIB, (256 - d as u64) * MIB, d as u64 * MIB]);
    fn nvmlDeviceGetUtilizationRates(d: Device, out: *mut [u32; 2])
        put(out, [40 + d as u32, 20 + d as u32]);
    fn nvmlDeviceGetTemperature(d: Device, sensor: u32, out: *mut u32)
        if sensor == 0 { put(out, 30 + d as u32) } else { INVALID_ARGUMENT };
    fn nvmlDeviceGetTotalEnergyConsumption(_d: Device, out: *mut u64)
        put(out, PROCESS.energy.fetch_add(1000, Ordering::Relaxed));
    fn nvmlDeviceGetClockInfo(d: Device, domain: u32, out: *mut u32)
        put(out, 1000 + 100 * domain + d as u32);
    fn nvmlDeviceGetMaxClockInfo(_d: Device, domain: u32, out: *mut u32)
        put(out, 2000 + 100 * domain);
    fn nvmlDeviceGetPowerManagementLimitConstraints(_d: Device, min: *mut u32, max: *mut u32)
        put(min, 200_000) | put(max, 700_000);
    fn nvmlDeviceGetTemperatureThreshold(d: Device, kind: u32, out: *mut u32) match kind {
        0..4 => put(out, 90 + d as u32 - kind),
        4..8 => NOT_SUPPORTED,
        _ => INVALID_ARGUMENT,
    };
    fn nvmlDeviceGetCurrentClocksThrottleReasons(d: Device, out: *mut u64)
        put(out, 1 << 40 | d as u64);
    fn nvmlDeviceGetSupportedClocksThrottleReasons(_d: Device, out: *mut u64) put(out, 0x1ff);
    fn nvmlDeviceGetDecoderUtilization(d: Device, busy: *mut u32, period: *mut u32)
        put(busy, 5 + d as u32) | put(period, 167_000);
    fn nvmlDeviceGetEncoderCapacity(_d: Device, codec: u32, out: *mut u32)
        if codec < 3 { put(out, 100 - codec) } else { INVALID_ARGUMENT };
    fn nvmlDeviceGetEncoderStats(d: Device, sessions: *mut u32, fps: *mut u32, late: *mut u32)
        put(sessions, d as u32) | put(fps, 60) | put(late, 900);
    fn nvmlDeviceGetFBCStats(d: Device, out: *mut [u32; 3]) put(out, [d as u32, 30, 1200]);
    fn nvmlDeviceGetInforomImageVersion(_d: Device, out: *mut c_char, room: u32)
        put_text(out, room, "G520.0200.00.05");
    fn nvmlDeviceGetPciInfoExt(d: Device, out: *mut [u32; 16]) {
        if (*out)[0] != (64 | 1 << 24) {
            return 25;
        }
        let mut info = [0; 16];
        let bus = 0xf + d as u32;
        info[..8].copy_from_slice(&[(*out)[0], 0, bus, 0, 0x2335_10de, 0x18be_10de, 3, 2]);
        let place = format!("00000000:{bus:02X}:00.0");
        for (i, b) in place.bytes().enumerate() {
            info[8 + i / 4] |= u32::from(b) << (8 * (i % 4));
        }
        put(out, info)
    };
    fn nvmlDeviceGetMigMode(_d: Device, now: *mut u32, next: *mut u32) put(now, 0) | put(next, 0);
    fn nvmlSystemGetDriverBranch(out: *mut [u32; 21], _length: u32) {
        if (*out)[0] != (84 | 1 << 24) {
            return 25;
        }
        put_text(out.cast::<c_char>().add(4), 80, "r580_00")
    };
    fn nvmlDeviceGetInforomVersion(d: Device, object: u32, out: *mut c_char, room: u32)
        if object < 3 { put_text(out, room, &format!("5.{d}")) } else { INVALID_ARGUMENT };
    fn nvmlDeviceGetRepairStatus(d: Device, out: *mut [u32; 3]) {
        if (*out)[0] != (12 | 1 << 24) {
            return 25;
        }
        put(out, [(*out)[0], d as u32 - 1, 1])
    };
    fn nvmlDeviceGetRemappedRows(d: Device, a: *mut u32, b: *mut u32, c: *mut u32, e: *mut u32)
        put(a, d as u32) | put(b, 2) | put(c, 0) | put(e, 1);
    fn nvmlDeviceGetSupportedGraphicsClocks(d: Device, _memory: u32, n: *mut u32, out: *mut u32) {
        let room = *n;
        *n = 3;
        if room < 3 || out.is_null() {
            return INSUFFICIENT_SIZE;
        }
        put(out.cast(), [1980, 1965, 1000 + d as u32])
    };
    // Id, scope, time, latency, type and result, value.
    fn nvmlDeviceGetFieldValues(d: Device, n: i32, out: *mut [u64; 5]) {
        if out.is_null() || n < 0 {
            return INVALID_ARGUMENT;
        }
        for i in 0..n as usize {
            let [field, ..] = *out.add(i);
            let (known, id) = (field as u32 != 7, field & 0xffff_ffff);
            let result = u64::from(if known { SUCCESS } else { NOT_SUPPORTED });
            let more = match id {
                94 => PROCESS.replays.fetch_add(1, Ordering::Relaxed),
                event::FIRST_FIELD..=event::LAST_FIELD => {
                    event::happen(d, 1 << (id - event::FIRST_FIELD), field >> 32);
                    0
                }
                _ => 0,
            };
            let value = [field, 17, 3, 3 | result << 32, 100 * id + d as u64 + more];
            put(out.add(i), value);
        }
        SUCCESS
    };
    fn nvmlDeviceValidateInforom(d: Device)
        if valid(d) { SUCCESS } else { INVALID_ARGUMENT };
    // An error in one question must not spoil the others.
    fn nvmlDeviceGetFanSpeed(_d: Device, _out: *mut u32) NOT_SUPPORTED;
    fn nvmlDeviceGetPciInfo_v3(d: Device, out: *mut [u32; 17]) {
        let mut info = [0; 17];
        info[4..9].copy_from_slice(&[0, 0xf + d as u32, 0, 0x2335_10de, 0x18be_10de]);
        put(out, info)
    };
    fn nvmlDeviceGetHandleByPciBusId_v2(place: *const c_char, out: *mut Device) {
        let place = std::ffi::CStr::from_ptr(place).to_string_lossy();
        let bus = place.split(':').nth(1).and_then(|b| Device::from_str_radix(b, 16).ok());
        let found = bus.and_then(|b| b.checked_sub(0xf)).filter(|d| valid(*d));
        found.map_or(6, |d| put(out, d))
    };
    fn nvmlDeviceGetComputeRunningProcesses_v3(d: Device, n: *mut u32, out: *mut [u64; 3])
        processes(d, n, out, false);
    fn nvmlDeviceGetMPSComputeRunningProcesses_v3(d: Device, n: *mut u32, out: *mut [u64; 3])
        processes(d, n, out, true);
    fn nvmlDeviceGetTopologyCommonAncestor(a: Device, b: Device, out: *mut u32)
        put(out, if a == b { 0 } else { 50 });
    fn nvmlDeviceGetP2PStatus(a: Device, b: Device, kind: u32, out: *mut u32)
        match kind {
            3 if a != b => put(out, 5),
            5 if a != b => put(out, 6),
            0..=5 => put(out, 0),
            _ => INVALID_ARGUMENT,
        };
}
