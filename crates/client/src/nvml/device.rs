//! Calls about one device, or two.

use super::machine::{self, Gpu};
use super::types::*;
use super::*;
use busbar_control::gpu::Number;

/// Answers a call about a device.
fn about(d: Device, f: impl FnOnce(&'static Gpu) -> Outcome) -> Return {
    code(machine::device(d).and_then(|(_, g)| f(g)))
}

/// A text about the device: its name, a serial number.
///
/// # Safety
/// As the API says.
pub unsafe fn name(d: Device, out: *mut c_char, room: u32) -> Return {
    // SAFETY: passed on to the caller.
    about(d, |g| unsafe { put_text(out, room, &g.facts.name) })
}

/// The device's UUID, as `GPU-` and five groups.
///
/// # Safety
/// As the API says.
pub unsafe fn uuid(d: Device, out: *mut c_char, room: u32) -> Return {
    about(d, |g| {
        let u = &g.facts.uuid;
        if u.len() != 32 {
            return Err(NOT_SUPPORTED);
        }
        let groups = [&u[..8], &u[8..12], &u[12..16], &u[16..20], &u[20..]];
        // SAFETY: passed on to the caller.
        unsafe { put_text(out, room, &format!("GPU-{}", groups.join("-"))) }
    })
}

/// A text that only some devices have: `serial`, `vbios`, `part`.
///
/// # Safety
/// As the API says.
pub unsafe fn text(d: Device, which: &str, out: *mut c_char, room: u32) -> Return {
    about(d, |g| {
        let text = g.facts.texts.get(which).ok_or(NOT_SUPPORTED)?;
        // SAFETY: passed on to the caller.
        unsafe { put_text(out, room, text) }
    })
}

/// The device's number here, which is CUDA's too.
///
/// # Safety
/// As the API says.
pub unsafe fn index(d: Device, out: *mut u32) -> Return {
    // SAFETY: passed on to the caller.
    code(machine::device(d).and_then(|(i, _)| unsafe { put(out, i as u32) }))
}

/// A number that does not change while programs run.
///
/// # Safety
/// `out` is null or points to room for a number.
pub unsafe fn fixed(d: Device, n: Number, out: *mut u32) -> Return {
    // SAFETY: passed on to the caller.
    about(d, |g| unsafe { put(out, g.fixed(n)? as u32) })
}

/// A number of now.
///
/// # Safety
/// `out` is null or points to room for a number.
pub unsafe fn live(d: Device, n: Number, out: *mut u32) -> Return {
    // SAFETY: passed on to the caller.
    about(d, |g| unsafe { put(out, g.live(n)? as u32) })
}

/// A large number of now.
///
/// # Safety
/// `out` is null or points to room for a number.
pub unsafe fn live_wide(d: Device, n: Number, out: *mut u64) -> Return {
    // SAFETY: passed on to the caller.
    about(d, |g| unsafe { put(out, g.live(n)?) })
}

/// Two numbers that do not change while programs run, as the API gives modes and limits.
///
/// # Safety
/// `a` and `b` are null or point to room for a number.
pub unsafe fn fixed_two(d: Device, n: [Number; 2], a: *mut u32, b: *mut u32) -> Return {
    about(d, |g| {
        let values = (g.fixed(n[0])? as u32, g.fixed(n[1])? as u32);
        if a.is_null() || b.is_null() {
            return Err(INVALID_ARGUMENT);
        }
        // SAFETY: passed on to the caller.
        unsafe { put(a, values.0).and(put(b, values.1)) }
    })
}

/// The present clock of a domain, in MHz.
///
/// # Safety
/// As the API says.
pub unsafe fn clock(d: Device, domain: u32, out: *mut u32) -> Return {
    match CLOCKS.get(domain as usize) {
        // SAFETY: passed on to the caller.
        Some((now, _)) => unsafe { live(d, *now, out) },
        None => about(d, |_| Err(INVALID_ARGUMENT)),
    }
}

/// How programs may share the device. Where the server does not know, they may: that is how it
/// serves sessions.
///
/// # Safety
/// As the API says.
pub unsafe fn compute_mode(d: Device, out: *mut u32) -> Return {
    // SAFETY: passed on to the caller.
    about(d, |g| unsafe {
        put(out, g.fixed(Number::ComputeMode).unwrap_or(0) as u32)
    })
}

/// A clock of a domain: only the present one (0) is known.
///
/// # Safety
/// As the API says.
pub unsafe fn clock_by_id(d: Device, domain: u32, id: u32, out: *mut u32) -> Return {
    match id {
        // SAFETY: passed on to the caller.
        0 => unsafe { clock(d, domain, out) },
        _ => about(d, |_| Err(NOT_SUPPORTED)),
    }
}

/// The highest clock of a domain, in MHz.
///
/// # Safety
/// As the API says.
pub unsafe fn max_clock(d: Device, domain: u32, out: *mut u32) -> Return {
    match CLOCKS.get(domain as usize) {
        // SAFETY: passed on to the caller.
        Some((_, max)) => unsafe { fixed(d, *max, out) },
        None => about(d, |_| Err(INVALID_ARGUMENT)),
    }
}

const CLOCKS: [(Number, Number); 4] = [
    (Number::ClockGraphics, Number::MaxClockGraphics),
    (Number::ClockSm, Number::MaxClockSm),
    (Number::ClockMemory, Number::MaxClockMemory),
    (Number::ClockVideo, Number::MaxClockVideo),
];

/// The device's memory: all, the driver's share, what programs use.
fn memory_of(g: &Gpu) -> Result<(u64, u64, u64), Return> {
    let (total, used) = (g.live(Number::MemoryTotal)?, g.live(Number::MemoryUsed)?);
    // An NVML without the second form counts the driver's share as used.
    let reserved = g.live(Number::MemoryReserved).unwrap_or(0);
    Ok((total, reserved.min(total), used.min(total)))
}

/// Memory in the first form, where the driver's share counts as used.
///
/// # Safety
/// As the API says.
pub unsafe fn memory(d: Device, out: *mut Memory) -> Return {
    about(d, |g| {
        let (total, reserved, used) = memory_of(g)?;
        let used = (used + reserved).min(total);
        let free = total - used;
        // SAFETY: passed on to the caller.
        unsafe { put(out, Memory { total, free, used }) }
    })
}

/// Memory in the second form.
///
/// # Safety
/// As the API says.
pub unsafe fn memory_v2(d: Device, out: *mut MemoryV2) -> Return {
    about(d, |g| {
        // SAFETY: the caller's promise: null or a live structure.
        let m = unsafe { out.as_mut() }.ok_or(INVALID_ARGUMENT)?;
        if m.version != version::<MemoryV2>(2) {
            return Err(ARGUMENT_VERSION_MISMATCH);
        }
        (m.total, m.reserved, m.used) = memory_of(g)?;
        m.free = m.total.saturating_sub(m.reserved + m.used);
        Ok(())
    })
}

/// The BAR1 aperture.
///
/// # Safety
/// As the API says.
pub unsafe fn bar1(d: Device, out: *mut Bar1Memory) -> Return {
    about(d, |g| {
        let (total, used) = (g.live(Number::Bar1Total)?, g.live(Number::Bar1Used)?);
        let free = total.saturating_sub(used);
        // SAFETY: passed on to the caller.
        unsafe { put(out, Bar1Memory { total, free, used }) }
    })
}

/// How busy the device is.
///
/// # Safety
/// As the API says.
pub unsafe fn utilization(d: Device, out: *mut Utilization) -> Return {
    about(d, |g| {
        let gpu = g.live(Number::Busy)? as u32;
        let memory = g.live(Number::MemoryBusy)? as u32;
        // SAFETY: passed on to the caller.
        unsafe { put(out, Utilization { gpu, memory }) }
    })
}

/// How warm the device is.
///
/// # Safety
/// As the API says.
pub unsafe fn temperature(d: Device, sensor: u32, out: *mut u32) -> Return {
    match sensor {
        // SAFETY: passed on to the caller.
        0 => unsafe { live(d, Number::Temperature, out) },
        _ => about(d, |_| Err(INVALID_ARGUMENT)),
    }
}

/// How warm the device is, in a structure with a version.
///
/// # Safety
/// As the API says.
pub unsafe fn temperature_v(d: Device, out: *mut Temperature) -> Return {
    about(d, |g| {
        // SAFETY: the caller's promise: null or a live structure.
        let t = unsafe { out.as_mut() }.ok_or(INVALID_ARGUMENT)?;
        if t.version != version::<Temperature>(1) {
            return Err(ARGUMENT_VERSION_MISMATCH);
        }
        if t.sensor != 0 {
            return Err(INVALID_ARGUMENT);
        }
        t.temperature = g.live(Number::Temperature)? as i32;
        Ok(())
    })
}

/// The device's compute capability.
///
/// # Safety
/// As the API says.
pub unsafe fn compute_capability(d: Device, major: *mut i32, minor: *mut i32) -> Return {
    about(d, |g| {
        let [a, b] = g.facts.compute.ok_or(NOT_SUPPORTED)?;
        // SAFETY: passed on to the caller.
        unsafe { put(major, a as i32).and(put(minor, b as i32)) }
    })
}

/// The device's architecture: NVML's number for it, or what the compute capability says.
///
/// # Safety
/// As the API says.
pub unsafe fn architecture(d: Device, out: *mut u32) -> Return {
    about(d, |g| {
        let known = g.fixed(Number::Architecture).map(|n| n as u32);
        let value = known.or_else(|_| match g.facts.compute.ok_or(NOT_SUPPORTED)? {
            [3, _] => Ok(2),
            [5, _] => Ok(3),
            [6, _] => Ok(4),
            [7, 5] => Ok(6),
            [7, _] => Ok(5),
            [8, 9] => Ok(8),
            [8, _] => Ok(7),
            [9, _] => Ok(9),
            [10 | 12, _] => Ok(10),
            _ => Err(NOT_SUPPORTED),
        })?;
        // SAFETY: passed on to the caller.
        unsafe { put(out, value) }
    })
}

/// The device's CUDA cores: NVML's number, or what the compute capability says of a multiprocessor.
///
/// # Safety
/// As the API says.
pub unsafe fn cores(d: Device, out: *mut u32) -> Return {
    about(d, |g| {
        let known = g.fixed(Number::Cores).map(|n| n as u32);
        let value = known.or_else(|_| {
            let each = match g.facts.compute.ok_or(NOT_SUPPORTED)? {
                [6, 0] | [7, _] | [8, 0] => 64,
                [5 | 6, _] | [8, 6 | 7 | 9] | [9, 0] | [10 | 12, _] => 128,
                _ => return Err(NOT_SUPPORTED),
            };
            Ok(each * g.facts.processors.ok_or(NOT_SUPPORTED)?)
        })?;
        // SAFETY: passed on to the caller.
        unsafe { put(out, value) }
    })
}

/// A place as C text; what does not fit is cut off.
fn chars<const N: usize>(text: &str) -> [c_char; N] {
    let mut out = [0; N];
    for (o, b) in out[..N - 1].iter_mut().zip(text.bytes()) {
        *o = b as c_char;
    }
    out
}

fn pci_of(g: &Gpu) -> Result<PciInfo, Return> {
    let at = g.facts.pci.ok_or(NOT_SUPPORTED)?;
    let id = |n| g.fixed(n).unwrap_or(0) as u32;
    Ok(PciInfo {
        old: PciInfoOld {
            bus_id: chars(&place::format(at, 4)),
            domain: at[0],
            bus: at[1],
            device: at[2],
            device_id: id(Number::PciDeviceId),
            subsystem_id: id(Number::PciSubsystemId),
        },
        bus_id: chars(&place::format(at, 8)),
    })
}

/// The device's place on the server's PCI bus.
///
/// # Safety
/// As the API says.
pub unsafe fn pci(d: Device, out: *mut PciInfo) -> Return {
    // SAFETY: passed on to the caller.
    about(d, |g| unsafe { put(out, pci_of(g)?) })
}

/// The device's place, in the first two forms of the structure.
///
/// # Safety
/// As the API says.
pub unsafe fn pci_old(d: Device, out: *mut PciInfoOld) -> Return {
    // SAFETY: passed on to the caller.
    about(d, |g| unsafe { put(out, pci_of(g)?.old) })
}

/// The programs on the device. They run on other machines, where their process ids mean nothing, so
/// there are none to list.
///
/// # Safety
/// As the API says.
pub unsafe fn processes(d: Device, count: *mut u32) -> Return {
    // SAFETY: passed on to the caller.
    about(d, |_| unsafe { put(count, 0) })
}

/// Whether the device is part of another: parts are shown as whole devices.
///
/// # Safety
/// As the API says.
pub unsafe fn is_mig(d: Device, out: *mut u32) -> Return {
    // SAFETY: passed on to the caller.
    about(d, |_| unsafe { put(out, 0) })
}

/// The fabric that the device is part of: none that reaches as far as here.
///
/// # Safety
/// As the API says.
pub unsafe fn fabric(d: Device, out: *mut FabricInfo) -> Return {
    // SAFETY: passed on to the caller.
    about(d, |_| unsafe { put(out, FabricInfo::default()) })
}

/// The fabric, in a structure with a version.
///
/// # Safety
/// As the API says.
pub unsafe fn fabric_v(d: Device, out: *mut FabricInfoV2) -> Return {
    about(d, |_| {
        if out.is_null() {
            return Err(INVALID_ARGUMENT);
        }
        // SAFETY: the caller's promise: a structure of which the version comes first.
        let asked = unsafe { (&raw const (*out).version).read() };
        let v2 = FabricInfoV2 {
            version: asked,
            ..FabricInfoV2::default()
        };
        if asked == version::<FabricInfoV2>(2) {
            // SAFETY: the caller's promise, as the version says it.
            unsafe { put(out, v2) }
        } else if asked == version::<FabricInfoV3>(3) {
            let v3 = FabricInfoV3 { v2, summary: 0 };
            // SAFETY: as above.
            unsafe { put(out.cast(), v3) }
        } else {
            Err(ARGUMENT_VERSION_MISMATCH)
        }
    })
}

/// Values of fields by number: each is marked as not supported.
///
/// # Safety
/// As the API says.
pub unsafe fn fields(d: Device, count: i32, values: *mut FieldValue) -> Return {
    about(d, |_| {
        if values.is_null() || count < 0 {
            return Err(INVALID_ARGUMENT);
        }
        for i in 0..count as usize {
            // SAFETY: the caller's promise: so many structures.
            unsafe { (&raw mut (*values.add(i)).status).write(NOT_SUPPORTED) };
        }
        Ok(())
    })
}

/// Whether two devices are on one board.
///
/// # Safety
/// As the API says.
pub unsafe fn same_board(a: Device, b: Device, out: *mut i32) -> Return {
    about(a, |a| {
        let (_, b) = machine::device(b)?;
        let same = std::ptr::eq(a, b) || a.fixed(Number::Board)? == b.fixed(Number::Board)?;
        // SAFETY: passed on to the caller.
        unsafe { put(out, same.into()) }
    })
}

/// Where the ways of two devices meet in the server.
///
/// # Safety
/// As the API says.
pub unsafe fn ancestor(a: Device, b: Device, out: *mut u32) -> Return {
    about(a, |a| {
        let (_, b) = machine::device(b)?;
        let level = match a.facts.links.get(&b.facts.uuid) {
            _ if std::ptr::eq(a, b) => 0,
            Some(l) => l.ancestor.ok_or(NOT_SUPPORTED)?,
            None => return Err(NOT_SUPPORTED),
        };
        // SAFETY: passed on to the caller.
        unsafe { put(out, level) }
    })
}

/// What two devices can do between them.
///
/// # Safety
/// As the API says.
pub unsafe fn p2p(a: Device, b: Device, kind: u32, out: *mut u32) -> Return {
    about(a, |a| {
        let (_, b) = machine::device(b)?;
        if std::ptr::eq(a, b) || kind > 4 {
            return Err(INVALID_ARGUMENT);
        }
        let link = a.facts.links.get(&b.facts.uuid).ok_or(NOT_SUPPORTED)?;
        let status = link.p2p.get(kind as usize).copied().flatten();
        // SAFETY: passed on to the caller.
        unsafe { put(out, status.ok_or(NOT_SUPPORTED)?) }
    })
}
