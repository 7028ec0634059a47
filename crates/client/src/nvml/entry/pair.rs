//! Two devices.

use crate::nvml::life::{Cx, put_list};
use crate::nvml::machine::Gpu;
use busbar_abi::nvml::*;
use busbar_control::gpu::{Link, Number};

/// The kinds of `nvmlGpuP2PCapsIndex_t`.
const KINDS: u32 = 5;

/// What is between two devices; nothing where they are one.
fn between<'a>(a: &'a Gpu, b: &Gpu) -> Option<Result<&'a Link>> {
    let link = a.facts.links.get(&b.facts.uuid);
    (!std::ptr::eq(a, b)).then(|| link.ok_or(NVML_ERROR_NOT_SUPPORTED))
}

/// Whether two devices are on one board.
pub fn nvmlDeviceOnSameBoard(_cx: Cx, a: &Gpu, b: &Gpu) -> Result<i32> {
    let same = std::ptr::eq(a, b) || a.fixed(Number::Board)? == b.fixed(Number::Board)?;
    Ok(same.into())
}

/// Where the ways of two devices meet in the server.
pub fn nvmlDeviceGetTopologyCommonAncestor(
    _cx: Cx,
    a: &Gpu,
    b: &Gpu,
) -> Result<nvmlGpuTopologyLevel_t> {
    match between(a, b) {
        None => Ok(0),
        Some(link) => link?.ancestor.ok_or(NVML_ERROR_NOT_SUPPORTED),
    }
}

/// What two devices can do between them. A device can do everything with itself.
pub fn nvmlDeviceGetP2PStatus(
    _cx: Cx,
    a: &Gpu,
    b: &Gpu,
    kind: nvmlGpuP2PCapsIndex_t,
) -> Result<nvmlGpuP2PStatus_t> {
    refuse_if(kind >= KINDS, NVML_ERROR_INVALID_ARGUMENT)?;
    match between(a, b) {
        None => Ok(NVML_P2P_STATUS_OK),
        Some(link) => {
            let status = link?.p2p.get(kind as usize).copied().flatten();
            status.ok_or(NVML_ERROR_NOT_SUPPORTED)
        }
    }
}

/// Some devices: how many, if the program has no room for any yet.
///
/// # Safety
/// As the API says.
unsafe fn some<'a>(
    list: impl Iterator<Item = &'a Gpu>,
    count: *mut u32,
    out: *mut nvmlDevice_t,
) -> Result {
    let list: Vec<_> = list.map(Gpu::handle).collect();
    // SAFETY: passed on to the caller.
    match unsafe { put_list(&list, count, out) } {
        Err(NVML_ERROR_INSUFFICIENT_SIZE) if out.is_null() => Ok(()),
        done => done,
    }
}

/// The other devices whose ways meet at a level.
///
/// # Safety
/// As the API says.
pub unsafe fn nvmlDeviceGetTopologyNearestGpus(
    cx: Cx,
    g: &Gpu,
    level: nvmlGpuTopologyLevel_t,
    count: *mut u32,
    out: *mut nvmlDevice_t,
) -> Result {
    let near = |other: &&Gpu| {
        let link = g.facts.links.get(&other.facts.uuid);
        link.is_some_and(|l| l.ancestor == Some(level))
    };
    // SAFETY: passed on to the caller.
    unsafe { some(cx.0.gpus.iter().filter(near), count, out) }
}

/// The devices near a processor: over a network, each is as near to any.
///
/// # Safety
/// As the API says.
pub unsafe fn nvmlSystemGetTopologyGpuSet(
    cx: Cx,
    _cpu: u32,
    count: *mut u32,
    out: *mut nvmlDevice_t,
) -> Result {
    // SAFETY: passed on to the caller.
    unsafe { some(cx.0.gpus.iter(), count, out) }
}
