//! Two devices.

use crate::nvml::life::{Cx, put_list};
use crate::nvml::machine::Gpu;
use crate::nvml::strangers;
use busbar_abi::nvml::*;
use busbar_control::gpu::{Link, Number};

/// The kinds of `nvmlGpuP2PCapsIndex_t`.
const KINDS: u32 = 5;

/// The level at which the ways of two devices meet that share nothing but the machine.
const SYSTEM: nvmlGpuTopologyLevel_t = 50;
/// Two devices cannot do that.
const CANNOT: nvmlGpuP2PStatus_t = 5;
const UNKNOWN: nvmlGpuP2PStatus_t = 6;

/// Whether two devices are at different servers, between which there is nothing that NVML knows.
fn apart(a: &Gpu, b: &Gpu) -> bool {
    a.facts.server != b.facts.server
}

/// What is between two devices; nothing where they are one.
fn between(a: &Gpu, b: &Gpu) -> Option<Result<Link>> {
    if apart(a, b) {
        return Some(Ok(Link {
            ancestor: Some(SYSTEM),
            p2p: vec![Some(CANNOT); KINDS as usize],
        }));
    }
    let link = a.facts.links.get(&b.facts.uuid).cloned();
    (!std::ptr::eq(a, b)).then(|| link.ok_or(NVML_ERROR_NOT_SUPPORTED))
}

/// Whether two devices are on one board. Boards have numbers by server.
pub fn nvmlDeviceOnSameBoard(_cx: Cx, a: &Gpu, b: &Gpu) -> Result<i32> {
    let same = match apart(a, b) {
        true => false,
        false => std::ptr::eq(a, b) || a.fixed(Number::Board)? == b.fixed(Number::Board)?,
    };
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
    cx: Cx,
    a: &Gpu,
    b: &Gpu,
    kind: nvmlGpuP2PCapsIndex_t,
) -> Result<nvmlGpuP2PStatus_t> {
    refuse_if(kind > KINDS, NVML_ERROR_INVALID_ARGUMENT)?;
    match between(a, b) {
        // Behind the last kind is that of "unknown", which may be asked about, too.
        Some(_) if kind == KINDS => Ok(UNKNOWN),
        None => {
            strangers::suspect(&cx.0.told);
            Ok(NVML_P2P_STATUS_OK)
        }
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
        let link = between(g, other);
        link.is_some_and(|l| l.is_ok_and(|l| l.ancestor == Some(level)))
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
