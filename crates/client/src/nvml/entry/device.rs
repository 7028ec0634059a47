//! One device.

use crate::nvml::ask::{self, Arg};
use crate::nvml::counters::PCIE_REPLAYS;
use crate::nvml::life::{Cx, put_text, versioned};
use crate::nvml::machine::{self, Gpu};
use crate::nvml::place;
use busbar_abi::nvml::*;
pub use busbar_control::gpu::Number;
use busbar_control::gpu::hyphened_uuid;
use std::ffi::c_char;

/// A number in the size that the program wants.
fn sized<T: TryFrom<u64>>(n: u64) -> Result<T> {
    T::try_from(n).map_err(|_| NVML_ERROR_UNKNOWN)
}

/// A number that does not change while programs run.
pub fn fixed<T: TryFrom<u64>>(_cx: Cx, g: &Gpu, n: Number) -> Result<T> {
    sized(g.fixed(n)?)
}

/// A number of now.
pub fn live<T: TryFrom<u64>>(_cx: Cx, g: &Gpu, n: Number) -> Result<T> {
    sized(g.live(n)?)
}

/// Two numbers that do not change while programs run, as the API gives modes and limits.
pub fn fixed_two(_cx: Cx, g: &Gpu, [a, b]: [Number; 2]) -> Result<(u32, u32)> {
    Ok((sized(g.fixed(a)?)?, sized(g.fixed(b)?)?))
}

/// Two numbers of now.
pub fn live_two(_cx: Cx, g: &Gpu, [a, b]: [Number; 2]) -> Result<(u32, u32)> {
    Ok((sized(g.live(a)?)?, sized(g.live(b)?)?))
}

/// A number of a kind, of which there are `kinds`; the server knows those of the first few.
fn of_kind(
    g: &Gpu,
    (kind, kinds): (u32, u32),
    known: impl IntoIterator<Item = Number>,
    read: fn(&Gpu, Number) -> Result<u64>,
) -> Result<u32> {
    match known.into_iter().nth(kind as usize) {
        Some(n) => sized(read(g, n)?),
        None if kind < kinds => Err(NVML_ERROR_NOT_SUPPORTED),
        None => Err(NVML_ERROR_INVALID_ARGUMENT),
    }
}

/// How many programs there are on the device: they run on other machines, where their process ids
/// mean nothing, so there are none to list. And whether it is a part of another: parts are shown as
/// whole devices.
pub fn none_of(_cx: Cx, _g: &Gpu) -> Result<u32> {
    Ok(0)
}

/// A text that only some devices have.
///
/// # Safety
/// As the API says.
pub unsafe fn text(_cx: Cx, text: Option<&String>, out: *mut c_char, room: u32) -> Result {
    // SAFETY: passed on to the caller.
    unsafe { put_text(out, room, text.ok_or(NVML_ERROR_NOT_SUPPORTED)?) }
}

/// The device's UUID, as `GPU-` and five groups.
///
/// # Safety
/// As the API says.
pub unsafe fn nvmlDeviceGetUUID(_cx: Cx, g: &Gpu, out: *mut c_char, room: u32) -> Result {
    let uuid = hyphened_uuid(&g.facts.uuid).ok_or(NVML_ERROR_NOT_SUPPORTED)?;
    // SAFETY: passed on to the caller.
    unsafe { put_text(out, room, &uuid) }
}

/// The device's number here, which is CUDA's too.
pub fn nvmlDeviceGetIndex(cx: Cx, g: &Gpu) -> Result<u32> {
    let at = cx.0.gpus.iter().position(|other| std::ptr::eq(other, g));
    at.map(|i| i as u32).ok_or(NVML_ERROR_INVALID_ARGUMENT)
}

/// How programs may share the device. Where the server does not know, they may: that is how it
/// serves sessions.
pub fn nvmlDeviceGetComputeMode(_cx: Cx, g: &Gpu) -> Result<nvmlComputeMode_t> {
    sized(g.fixed(Number::ComputeMode).unwrap_or(0))
}

/// The clocks of each domain: the present and the highest, in MHz.
const CLOCKS: [(Number, Number); 4] = [
    (Number::ClockGraphics, Number::MaxClockGraphics),
    (Number::ClockSm, Number::MaxClockSm),
    (Number::ClockMemory, Number::MaxClockMemory),
    (Number::ClockVideo, Number::MaxClockVideo),
];

/// The present clock of a domain.
pub fn nvmlDeviceGetClockInfo(_cx: Cx, g: &Gpu, domain: nvmlClockType_t) -> Result<u32> {
    of_kind(g, (domain, 4), CLOCKS.map(|c| c.0), Gpu::live)
}

/// The highest clock of a domain.
pub fn nvmlDeviceGetMaxClockInfo(_cx: Cx, g: &Gpu, domain: nvmlClockType_t) -> Result<u32> {
    of_kind(g, (domain, 4), CLOCKS.map(|c| c.1), Gpu::fixed)
}

/// The device's memory: all, the driver's share, what programs use. Of this very moment: programs
/// look before and after they allocate.
fn memory_of(g: &Gpu) -> Result<(u64, u64, u64)> {
    let mut m: nvmlMemory_v2_t = busbar_abi::zeroed();
    m.version = size_of::<nvmlMemory_v2_t>() as u32 | 2 << 24;
    // SAFETY: the structure is of that version.
    let asked = unsafe {
        let args = [Arg::Device, ask::versioned(&raw mut m)?];
        ask::ask(Some(g), "nvmlDeviceGetMemoryInfo_v2", &args)
    };
    if asked.is_ok() {
        return Ok((m.total, m.reserved, m.used));
    }
    // Whoever has a part of a device, or an older server, is told in the status.
    machine::refresh_now();
    let (total, used) = (g.live(Number::MemoryTotal)?, g.live(Number::MemoryUsed)?);
    // An NVML without the second form counts the driver's share as used.
    let reserved = g.live(Number::MemoryReserved).unwrap_or(0);
    Ok((total, reserved.min(total), used.min(total)))
}

/// Memory in the first form, where the driver's share counts as used.
pub fn nvmlDeviceGetMemoryInfo(_cx: Cx, g: &Gpu) -> Result<nvmlMemory_t> {
    let (total, reserved, used) = memory_of(g)?;
    let used = (used + reserved).min(total);
    let free = total - used;
    Ok(nvmlMemory_t { total, free, used })
}

/// Memory in the second form. What pads the structure stays as it is, as in the others with a
/// version.
///
/// # Safety
/// As the API says.
pub unsafe fn nvmlDeviceGetMemoryInfo_v2(_cx: Cx, g: &Gpu, out: *mut nvmlMemory_v2_t) -> Result {
    // SAFETY: passed on to the caller.
    let m = unsafe { versioned(out, 2)? };
    (m.total, m.reserved, m.used) = memory_of(g)?;
    m.free = m.total.saturating_sub(m.reserved + m.used);
    Ok(())
}

/// The BAR1 aperture.
pub fn nvmlDeviceGetBAR1MemoryInfo(_cx: Cx, g: &Gpu) -> Result<nvmlBAR1Memory_t> {
    let (total, used) = (g.live(Number::Bar1Total)?, g.live(Number::Bar1Used)?);
    Ok(nvmlBAR1Memory_t {
        bar1Total: total,
        bar1Free: total.saturating_sub(used),
        bar1Used: used,
    })
}

/// How often something was sent again over PCIe.
pub fn nvmlDeviceGetPcieReplayCounter(_cx: Cx, g: &Gpu) -> Result<u32> {
    let (now, key) = (g.live(Number::PcieReplays)?, g.counter(PCIE_REPLAYS, 0));
    sized(machine::own(|o| o.counters.shown(&key, now)))
}

/// Values by their numbers, as the server's NVML has them.
///
/// # Safety
/// As the API says of [`nvmlDeviceGetFieldValues`].
pub(super) unsafe fn read_fields(g: &Gpu, count: i32, values: *mut nvmlFieldValue_t) -> Result {
    // SAFETY: passed on to the caller.
    unsafe {
        let places = ask::out_array(values, Ok(count as usize))?;
        let args = [Arg::Device, Arg::Value(count as u64), places];
        ask::ask(Some(g), "nvmlDeviceGetFieldValues", &args)
    }
}

/// Values by their numbers. Counters begin where this process has cleared them.
///
/// # Safety
/// As the API says.
pub unsafe fn nvmlDeviceGetFieldValues(
    _cx: Cx,
    g: &Gpu,
    count: i32,
    values: *mut nvmlFieldValue_t,
) -> Result {
    // SAFETY: passed on to the caller.
    unsafe { read_fields(g, count, values)? };
    if !values.is_null() {
        // SAFETY: the caller's promise: so many values, which were just filled.
        let values = unsafe { std::slice::from_raw_parts_mut(values, count as usize) };
        for v in values {
            let key = g.counter(v.fieldId, v.scopeId);
            machine::own(|o| o.counters.show(&key, v));
        }
    }
    Ok(())
}

/// How busy the device is.
pub fn nvmlDeviceGetUtilizationRates(_cx: Cx, g: &Gpu) -> Result<nvmlUtilization_t> {
    let gpu = sized(g.live(Number::Busy)?)?;
    let memory = sized(g.live(Number::MemoryBusy)?)?;
    Ok(nvmlUtilization_t { gpu, memory })
}

/// How warm the device is.
pub fn nvmlDeviceGetTemperature(_cx: Cx, g: &Gpu, sensor: nvmlTemperatureSensors_t) -> Result<u32> {
    of_kind(g, (sensor, 1), [Number::Temperature], Gpu::live)
}

/// How warm the device is, in a structure with a version.
///
/// # Safety
/// As the API says.
pub unsafe fn nvmlDeviceGetTemperatureV(_cx: Cx, g: &Gpu, out: *mut nvmlTemperature_t) -> Result {
    // SAFETY: passed on to the caller.
    let t = unsafe { versioned(out, 1)? };
    refuse_if(t.sensorType != 0, NVML_ERROR_INVALID_ARGUMENT)?;
    t.temperature = sized(g.live(Number::Temperature)?)?;
    Ok(())
}

/// How warm the device may become until something is done about that.
pub fn nvmlDeviceGetTemperatureThreshold(
    _cx: Cx,
    g: &Gpu,
    threshold: nvmlTemperatureThresholds_t,
) -> Result<u32> {
    const KNOWN: [Number; 4] = [
        Number::HeatShutdown,
        Number::HeatSlowdown,
        Number::HeatMemory,
        Number::HeatGpu,
    ];
    of_kind(g, (threshold, 8), KNOWN, Gpu::fixed)
}

/// The device's compute capability.
pub fn nvmlDeviceGetCudaComputeCapability(_cx: Cx, g: &Gpu) -> Result<(i32, i32)> {
    let [major, minor] = g.facts.compute.ok_or(NVML_ERROR_NOT_SUPPORTED)?;
    Ok((major as i32, minor as i32))
}

/// The device's architecture: NVML's number for it, or what the compute capability says.
pub fn nvmlDeviceGetArchitecture(_cx: Cx, g: &Gpu) -> Result<nvmlDeviceArchitecture_t> {
    if let Ok(known) = g.fixed(Number::Architecture) {
        return sized(known);
    }
    match g.facts.compute.ok_or(NVML_ERROR_NOT_SUPPORTED)? {
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
    }
}

/// The device's CUDA cores: NVML's number, or what the compute capability says of a multiprocessor.
pub fn nvmlDeviceGetNumGpuCores(_cx: Cx, g: &Gpu) -> Result<u32> {
    if let Ok(known) = g.fixed(Number::Cores) {
        return sized(known);
    }
    let each = match g.facts.compute.ok_or(NVML_ERROR_NOT_SUPPORTED)? {
        [6, 0] | [7, _] | [8, 0] => 64,
        [5 | 6, _] | [8, 6 | 7 | 9] | [9, 0] | [10 | 12, _] => 128,
        _ => return Err(NVML_ERROR_NOT_SUPPORTED),
    };
    Ok(each * g.facts.processors.ok_or(NVML_ERROR_NOT_SUPPORTED)?)
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

/// The device's place on the server's PCI bus.
pub fn nvmlDeviceGetPciInfo_v3(_cx: Cx, g: &Gpu) -> Result<nvmlPciInfo_t> {
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

/// The device's place, in the first two forms of the structure.
pub fn nvmlDeviceGetPciInfo(cx: Cx, g: &Gpu) -> Result<nvmlPciInfoOld_t> {
    Ok(nvmlDeviceGetPciInfo_v3(cx, g)?.old)
}

/// The device's place, and what kind of device it is there.
///
/// # Safety
/// As the API says.
pub unsafe fn nvmlDeviceGetPciInfoExt(cx: Cx, g: &Gpu, out: *mut nvmlPciInfoExt_t) -> Result {
    // SAFETY: passed on to the caller.
    let i = unsafe { versioned(out, 1)? };
    let (known, class) = (nvmlDeviceGetPciInfo_v3(cx, g)?, pci_id(g, Number::PciClass));
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
}

/// The fabric that the device is part of: none that reaches as far as here.
pub fn nvmlDeviceGetGpuFabricInfo(_cx: Cx, _g: &Gpu) -> Result<nvmlGpuFabricInfo_t> {
    Ok(busbar_abi::zeroed())
}

/// The fabric, in a structure with a version.
///
/// # Safety
/// As the API says.
pub unsafe fn nvmlDeviceGetGpuFabricInfoV(
    _cx: Cx,
    _g: &Gpu,
    out: *mut nvmlGpuFabricInfoV_t,
) -> Result {
    let none = |v: &mut nvmlGpuFabricInfoV_t| {
        *v = nvmlGpuFabricInfoV_t {
            version: v.version,
            ..busbar_abi::zeroed()
        };
    };
    // SAFETY: the caller's promise: null, or what the version says.
    unsafe {
        if let Ok(v3) = versioned(out.cast::<nvmlGpuFabricInfo_v3_t>(), 3) {
            none(&mut v3.v2);
            v3.healthSummary = 0;
        } else {
            none(versioned(out, 2)?);
        }
    }
    Ok(())
}
