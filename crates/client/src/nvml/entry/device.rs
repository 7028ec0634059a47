//! One device.

use crate::nvml::life::{check_version, guard, put, put_text};
use crate::nvml::machine::{self, Gpu, Outcome};
use crate::nvml::place;
use busbar_abi::nvml::*;
pub use busbar_control::gpu::Number;
use std::ffi::c_char;

/// Answers a call about a device.
fn about(d: nvmlDevice_t, f: impl FnOnce(&'static Gpu) -> Outcome) -> nvmlReturn_t {
    guard(|| machine::device(d).and_then(|(_, g)| f(g)))
}

/// Answers a call that wants one value of a device.
unsafe fn tell<T>(
    d: nvmlDevice_t,
    out: *mut T,
    value: impl FnOnce(&'static Gpu) -> Outcome<T>,
) -> nvmlReturn_t {
    // SAFETY: passed on to the caller.
    about(d, |g| unsafe { put(out, value(g)?) })
}

/// Fills a structure with a version. What pads it stays as it is.
unsafe fn fill<T>(
    d: nvmlDevice_t,
    (out, version): (*mut T, u32),
    f: impl FnOnce(&'static Gpu, &mut T) -> Outcome,
) -> nvmlReturn_t {
    // SAFETY: passed on to the caller.
    about(d, |g| unsafe {
        check_version(out, version)?;
        f(g, &mut *out)
    })
}

/// A number in the size that the program wants.
fn sized<T: TryFrom<u64>>(n: u64) -> Outcome<T> {
    T::try_from(n).map_err(|_| NVML_ERROR_UNKNOWN)
}

/// A number that does not change while programs run.
///
/// # Safety
/// As the API says.
pub unsafe fn fixed<T: TryFrom<u64>>(d: nvmlDevice_t, n: Number, out: *mut T) -> nvmlReturn_t {
    // SAFETY: passed on to the caller.
    unsafe { tell(d, out, |g| sized(g.fixed(n)?)) }
}

/// A number of now.
///
/// # Safety
/// As the API says.
pub unsafe fn live<T: TryFrom<u64>>(d: nvmlDevice_t, n: Number, out: *mut T) -> nvmlReturn_t {
    // SAFETY: passed on to the caller.
    unsafe { tell(d, out, |g| sized(g.live(n)?)) }
}

unsafe fn two(d: nvmlDevice_t, n: impl Fn(&Gpu) -> Outcome<[u64; 2]>, out: [*mut u32; 2]) -> u32 {
    about(d, |g| {
        let values = n(g)?;
        if out.iter().any(|p| p.is_null()) {
            return Err(NVML_ERROR_INVALID_ARGUMENT);
        }
        // SAFETY: passed on to the caller.
        unsafe { put(out[0], sized(values[0])?).and(put(out[1], sized(values[1])?)) }
    })
}

/// Two numbers that do not change while programs run, as the API gives modes and limits.
///
/// # Safety
/// As the API says.
pub unsafe fn fixed_two(d: nvmlDevice_t, n: [Number; 2], a: *mut u32, b: *mut u32) -> nvmlReturn_t {
    // SAFETY: passed on to the caller.
    unsafe { two(d, |g| Ok([g.fixed(n[0])?, g.fixed(n[1])?]), [a, b]) }
}

/// Two numbers of now.
///
/// # Safety
/// As the API says.
pub unsafe fn live_two(d: nvmlDevice_t, n: [Number; 2], a: *mut u32, b: *mut u32) -> nvmlReturn_t {
    // SAFETY: passed on to the caller.
    unsafe { two(d, |g| Ok([g.live(n[0])?, g.live(n[1])?]), [a, b]) }
}

/// A number of a kind, of which there are `kinds`; the server knows those of the first few.
unsafe fn of_kind(
    d: nvmlDevice_t,
    (kind, kinds): (u32, u32),
    known: impl IntoIterator<Item = Number>,
    read: fn(&Gpu, Number) -> Outcome<u64>,
    out: *mut u32,
) -> nvmlReturn_t {
    let value = |g| match known.into_iter().nth(kind as usize) {
        Some(n) => sized(read(g, n)?),
        None if kind < kinds => Err(NVML_ERROR_NOT_SUPPORTED),
        None => Err(NVML_ERROR_INVALID_ARGUMENT),
    };
    // SAFETY: passed on to the caller.
    unsafe { tell(d, out, value) }
}

/// How many programs there are on the device: they run on other machines, where their process ids
/// mean nothing, so there are none to list. And whether it is a part of another: parts are shown as
/// whole devices.
///
/// # Safety
/// As the API says.
pub unsafe fn none_of(d: nvmlDevice_t, out: *mut u32) -> nvmlReturn_t {
    // SAFETY: passed on to the caller.
    unsafe { tell(d, out, |_| Ok(0)) }
}

/// What the device is called.
///
/// # Safety
/// As the API says.
pub unsafe fn nvmlDeviceGetName(d: nvmlDevice_t, out: *mut c_char, room: u32) -> nvmlReturn_t {
    // SAFETY: passed on to the caller.
    about(d, |g| unsafe { put_text(out, room, &g.facts.name) })
}

/// The device's UUID, as `GPU-` and five groups.
///
/// # Safety
/// As the API says.
pub unsafe fn nvmlDeviceGetUUID(d: nvmlDevice_t, out: *mut c_char, room: u32) -> nvmlReturn_t {
    about(d, |g| {
        let u = &g.facts.uuid;
        if u.len() != 32 {
            return Err(NVML_ERROR_NOT_SUPPORTED);
        }
        let groups = [&u[..8], &u[8..12], &u[12..16], &u[16..20], &u[20..]];
        // SAFETY: passed on to the caller.
        unsafe { put_text(out, room, &format!("GPU-{}", groups.join("-"))) }
    })
}

/// A text that only some devices have: `serial`, `vbios`, `part`, `inforom`.
///
/// # Safety
/// As the API says.
pub unsafe fn text(d: nvmlDevice_t, which: &str, out: *mut c_char, room: u32) -> nvmlReturn_t {
    about(d, |g| {
        let text = g.facts.texts.get(which).ok_or(NVML_ERROR_NOT_SUPPORTED)?;
        // SAFETY: passed on to the caller.
        unsafe { put_text(out, room, text) }
    })
}

/// The device's number here, which is CUDA's too.
///
/// # Safety
/// As the API says.
pub unsafe fn nvmlDeviceGetIndex(d: nvmlDevice_t, out: *mut u32) -> nvmlReturn_t {
    // SAFETY: passed on to the caller.
    guard(|| machine::device(d).and_then(|(i, _)| unsafe { put(out, i as u32) }))
}

/// How programs may share the device. Where the server does not know, they may: that is how it
/// serves sessions.
///
/// # Safety
/// As the API says.
pub unsafe fn nvmlDeviceGetComputeMode(
    d: nvmlDevice_t,
    out: *mut nvmlComputeMode_t,
) -> nvmlReturn_t {
    let mode = |g: &Gpu| sized(g.fixed(Number::ComputeMode).unwrap_or(0));
    // SAFETY: passed on to the caller.
    unsafe { tell(d, out, mode) }
}

/// The clocks of each domain: the present and the highest, in MHz.
const CLOCKS: [(Number, Number); 4] = [
    (Number::ClockGraphics, Number::MaxClockGraphics),
    (Number::ClockSm, Number::MaxClockSm),
    (Number::ClockMemory, Number::MaxClockMemory),
    (Number::ClockVideo, Number::MaxClockVideo),
];

/// The present clock of a domain.
///
/// # Safety
/// As the API says.
pub unsafe fn nvmlDeviceGetClockInfo(
    d: nvmlDevice_t,
    domain: nvmlClockType_t,
    out: *mut u32,
) -> nvmlReturn_t {
    let now = CLOCKS.map(|c| c.0);
    // SAFETY: passed on to the caller.
    unsafe { of_kind(d, (domain, 4), now, Gpu::live, out) }
}

/// The highest clock of a domain.
///
/// # Safety
/// As the API says.
pub unsafe fn nvmlDeviceGetMaxClockInfo(
    d: nvmlDevice_t,
    domain: nvmlClockType_t,
    out: *mut u32,
) -> nvmlReturn_t {
    let most = CLOCKS.map(|c| c.1);
    // SAFETY: passed on to the caller.
    unsafe { of_kind(d, (domain, 4), most, Gpu::fixed, out) }
}

/// A clock of a domain: only the present one (0) is known.
///
/// # Safety
/// As the API says.
pub unsafe fn nvmlDeviceGetClock(
    d: nvmlDevice_t,
    domain: nvmlClockType_t,
    id: nvmlClockId_t,
    out: *mut u32,
) -> nvmlReturn_t {
    match id {
        // SAFETY: passed on to the caller.
        0 => unsafe { nvmlDeviceGetClockInfo(d, domain, out) },
        _ => about(d, |_| Err(NVML_ERROR_NOT_SUPPORTED)),
    }
}

/// The device's memory: all, the driver's share, what programs use.
fn memory_of(g: &Gpu) -> Outcome<(u64, u64, u64)> {
    let (total, used) = (g.live(Number::MemoryTotal)?, g.live(Number::MemoryUsed)?);
    // An NVML without the second form counts the driver's share as used.
    let reserved = g.live(Number::MemoryReserved).unwrap_or(0);
    Ok((total, reserved.min(total), used.min(total)))
}

/// Memory in the first form, where the driver's share counts as used.
///
/// # Safety
/// As the API says.
pub unsafe fn nvmlDeviceGetMemoryInfo(d: nvmlDevice_t, out: *mut nvmlMemory_t) -> nvmlReturn_t {
    let memory = |g: &Gpu| {
        let (total, reserved, used) = memory_of(g)?;
        let used = (used + reserved).min(total);
        let free = total - used;
        Ok(nvmlMemory_t { total, free, used })
    };
    // SAFETY: passed on to the caller.
    unsafe { tell(d, out, memory) }
}

/// Memory in the second form.
///
/// # Safety
/// As the API says.
pub unsafe fn nvmlDeviceGetMemoryInfo_v2(
    d: nvmlDevice_t,
    out: *mut nvmlMemory_v2_t,
) -> nvmlReturn_t {
    let memory = |g: &Gpu, m: &mut nvmlMemory_v2_t| {
        (m.total, m.reserved, m.used) = memory_of(g)?;
        m.free = m.total.saturating_sub(m.reserved + m.used);
        Ok(())
    };
    // SAFETY: passed on to the caller.
    unsafe { fill(d, (out, 2), memory) }
}

/// The BAR1 aperture.
///
/// # Safety
/// As the API says.
pub unsafe fn nvmlDeviceGetBAR1MemoryInfo(
    d: nvmlDevice_t,
    out: *mut nvmlBAR1Memory_t,
) -> nvmlReturn_t {
    let memory = |g: &Gpu| {
        let (total, used) = (g.live(Number::Bar1Total)?, g.live(Number::Bar1Used)?);
        Ok(nvmlBAR1Memory_t {
            bar1Total: total,
            bar1Free: total.saturating_sub(used),
            bar1Used: used,
        })
    };
    // SAFETY: passed on to the caller.
    unsafe { tell(d, out, memory) }
}

/// How busy the device is.
///
/// # Safety
/// As the API says.
pub unsafe fn nvmlDeviceGetUtilizationRates(
    d: nvmlDevice_t,
    out: *mut nvmlUtilization_t,
) -> nvmlReturn_t {
    let busy = |g: &Gpu| {
        let gpu = sized(g.live(Number::Busy)?)?;
        let memory = sized(g.live(Number::MemoryBusy)?)?;
        Ok(nvmlUtilization_t { gpu, memory })
    };
    // SAFETY: passed on to the caller.
    unsafe { tell(d, out, busy) }
}

/// How warm the device is.
///
/// # Safety
/// As the API says.
pub unsafe fn nvmlDeviceGetTemperature(
    d: nvmlDevice_t,
    sensor: nvmlTemperatureSensors_t,
    out: *mut u32,
) -> nvmlReturn_t {
    let now = [Number::Temperature];
    // SAFETY: passed on to the caller.
    unsafe { of_kind(d, (sensor, 1), now, Gpu::live, out) }
}

/// How warm the device is, in a structure with a version.
///
/// # Safety
/// As the API says.
pub unsafe fn nvmlDeviceGetTemperatureV(
    d: nvmlDevice_t,
    out: *mut nvmlTemperature_t,
) -> nvmlReturn_t {
    let now = |g: &Gpu, t: &mut nvmlTemperature_t| {
        if t.sensorType != 0 {
            return Err(NVML_ERROR_INVALID_ARGUMENT);
        }
        t.temperature = sized(g.live(Number::Temperature)?)?;
        Ok(())
    };
    // SAFETY: passed on to the caller.
    unsafe { fill(d, (out, 1), now) }
}

/// How warm the device may become until something is done about that.
///
/// # Safety
/// As the API says.
pub unsafe fn nvmlDeviceGetTemperatureThreshold(
    d: nvmlDevice_t,
    threshold: nvmlTemperatureThresholds_t,
    out: *mut u32,
) -> nvmlReturn_t {
    const KNOWN: [Number; 4] = [
        Number::HeatShutdown,
        Number::HeatSlowdown,
        Number::HeatMemory,
        Number::HeatGpu,
    ];
    // SAFETY: passed on to the caller.
    unsafe { of_kind(d, (threshold, 8), KNOWN, Gpu::fixed, out) }
}

/// The device's compute capability.
///
/// # Safety
/// As the API says.
pub unsafe fn nvmlDeviceGetCudaComputeCapability(
    d: nvmlDevice_t,
    major: *mut i32,
    minor: *mut i32,
) -> nvmlReturn_t {
    about(d, |g| {
        let [a, b] = g.facts.compute.ok_or(NVML_ERROR_NOT_SUPPORTED)?;
        // SAFETY: passed on to the caller.
        unsafe { put(major, a as i32).and(put(minor, b as i32)) }
    })
}

/// The device's architecture: NVML's number for it, or what the compute capability says.
///
/// # Safety
/// As the API says.
pub unsafe fn nvmlDeviceGetArchitecture(
    d: nvmlDevice_t,
    out: *mut nvmlDeviceArchitecture_t,
) -> nvmlReturn_t {
    let guess = |g: &Gpu| match g.facts.compute.ok_or(NVML_ERROR_NOT_SUPPORTED)? {
        [3, _] => Ok(2),
        [5, _] => Ok(3),
        [6, _] => Ok(4),
        [7, 5] => Ok(6),
        [7, _] => Ok(5),
        [8, 9] => Ok(8),
        [8, _] => Ok(7),
        [9, _] => Ok(9),
        [10 | 12, _] => Ok(10),
        _ => Err(NVML_ERROR_NOT_SUPPORTED),
    };
    let known = |g: &Gpu| g.fixed(Number::Architecture).or_else(|_| guess(g));
    // SAFETY: passed on to the caller.
    unsafe { tell(d, out, |g| sized(known(g)?)) }
}

/// The device's CUDA cores: NVML's number, or what the compute capability says of a multiprocessor.
///
/// # Safety
/// As the API says.
pub unsafe fn nvmlDeviceGetNumGpuCores(d: nvmlDevice_t, out: *mut u32) -> nvmlReturn_t {
    let guess = |g: &Gpu| {
        let each = match g.facts.compute.ok_or(NVML_ERROR_NOT_SUPPORTED)? {
            [6, 0] | [7, _] | [8, 0] => 64,
            [5 | 6, _] | [8, 6 | 7 | 9] | [9, 0] | [10 | 12, _] => 128,
            _ => return Err(NVML_ERROR_NOT_SUPPORTED),
        };
        let processors = g.facts.processors.ok_or(NVML_ERROR_NOT_SUPPORTED)?;
        Ok(each * u64::from(processors))
    };
    let known = |g: &Gpu| g.fixed(Number::Cores).or_else(|_| guess(g));
    // SAFETY: passed on to the caller.
    unsafe { tell(d, out, |g| sized(known(g)?)) }
}

/// A place as C text; what does not fit is cut off.
fn chars<const N: usize>(text: &str) -> [c_char; N] {
    let mut out = [0; N];
    for (o, b) in out[..N - 1].iter_mut().zip(text.bytes()) {
        *o = b as c_char;
    }
    out
}

/// A number of the device's PCI configuration; nothing is 0.
fn pci_id(g: &Gpu, n: Number) -> u32 {
    g.fixed(n).unwrap_or(0) as u32
}

fn pci_of(g: &Gpu) -> Outcome<nvmlPciInfo_t> {
    let at = g.facts.pci.ok_or(NVML_ERROR_NOT_SUPPORTED)?;
    Ok(nvmlPciInfo_t {
        old: nvmlPciInfoOld_t {
            busIdLegacy: chars(&place::format(at, 4)),
            domain: at[0],
            bus: at[1],
            device: at[2],
            pciDeviceId: pci_id(g, Number::PciDeviceId),
            pciSubSystemId: pci_id(g, Number::PciSubsystemId),
        },
        busId: chars(&place::format(at, 8)),
    })
}

/// The device's place on the server's PCI bus.
///
/// # Safety
/// As the API says.
pub unsafe fn nvmlDeviceGetPciInfo_v3(d: nvmlDevice_t, out: *mut nvmlPciInfo_t) -> nvmlReturn_t {
    // SAFETY: passed on to the caller.
    unsafe { tell(d, out, pci_of) }
}

/// The device's place, in the first two forms of the structure.
///
/// # Safety
/// As the API says.
pub unsafe fn nvmlDeviceGetPciInfo(d: nvmlDevice_t, out: *mut nvmlPciInfoOld_t) -> nvmlReturn_t {
    // SAFETY: passed on to the caller.
    unsafe { tell(d, out, |g| Ok(pci_of(g)?.old)) }
}

/// The device's place, and what kind of device it is there.
///
/// # Safety
/// As the API says.
pub unsafe fn nvmlDeviceGetPciInfoExt(d: nvmlDevice_t, out: *mut nvmlPciInfoExt_t) -> nvmlReturn_t {
    let info = |g: &Gpu, i: &mut nvmlPciInfoExt_t| {
        let (known, class) = (pci_of(g)?, pci_id(g, Number::PciClass));
        *i = nvmlPciInfoExt_t {
            version: i.version,
            domain: known.old.domain,
            bus: known.old.bus,
            device: known.old.device,
            pciDeviceId: known.old.pciDeviceId,
            pciSubSystemId: known.old.pciSubSystemId,
            baseClass: class >> 8,
            subClass: class & 0xff,
            busId: known.busId,
        };
        Ok(())
    };
    // SAFETY: passed on to the caller.
    unsafe { fill(d, (out, 1), info) }
}

/// The fabric that the device is part of: none that reaches as far as here.
///
/// # Safety
/// As the API says.
pub unsafe fn nvmlDeviceGetGpuFabricInfo(
    d: nvmlDevice_t,
    out: *mut nvmlGpuFabricInfo_t,
) -> nvmlReturn_t {
    // SAFETY: passed on to the caller.
    unsafe { tell(d, out, |_| Ok(busbar_abi::zeroed())) }
}

/// The fabric, in a structure with a version.
///
/// # Safety
/// As the API says.
pub unsafe fn nvmlDeviceGetGpuFabricInfoV(
    d: nvmlDevice_t,
    out: *mut nvmlGpuFabricInfoV_t,
) -> nvmlReturn_t {
    let none = |v: &mut nvmlGpuFabricInfoV_t| {
        *v = nvmlGpuFabricInfoV_t {
            version: v.version,
            ..busbar_abi::zeroed()
        };
    };
    about(d, |_| {
        let v3 = out.cast::<nvmlGpuFabricInfo_v3_t>();
        // SAFETY: the caller's promise: null, or what the version says.
        unsafe {
            if check_version(v3, 3).is_ok() {
                none(&mut (*v3).v2);
                (*v3).healthSummary = 0;
                return Ok(());
            }
            check_version(out, 2)?;
            none(&mut *out);
        }
        Ok(())
    })
}

/// Values of fields by number: each is marked as not supported.
///
/// # Safety
/// As the API says.
pub unsafe fn nvmlDeviceGetFieldValues(
    d: nvmlDevice_t,
    count: i32,
    values: *mut nvmlFieldValue_t,
) -> nvmlReturn_t {
    about(d, |_| {
        if values.is_null() || count < 0 {
            return Err(NVML_ERROR_INVALID_ARGUMENT);
        }
        for i in 0..count as usize {
            // SAFETY: the caller's promise: so many structures.
            unsafe { (&raw mut (*values.add(i)).nvmlReturn).write(NVML_ERROR_NOT_SUPPORTED) };
        }
        Ok(())
    })
}
