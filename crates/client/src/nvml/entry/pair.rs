//! Two devices.

use crate::nvml::life::{guard, put};
use crate::nvml::machine::{self, Gpu, Outcome};
use busbar_abi::nvml::*;
use busbar_control::gpu::{Link, Number};

/// The kinds of `nvmlGpuP2PCapsIndex_t`.
const KINDS: u32 = 5;

/// Answers a call about two devices: whether they are the same, and what is between them if not.
unsafe fn between<T>(
    [a, b]: [nvmlDevice_t; 2],
    out: *mut T,
    same: T,
    differ: impl FnOnce(&Gpu, &Gpu, Option<&Link>) -> Outcome<T>,
) -> nvmlReturn_t {
    guard(|| {
        let ((_, a), (_, b)) = (machine::device(a)?, machine::device(b)?);
        let value = match std::ptr::eq(a, b) {
            true => same,
            false => differ(a, b, a.facts.links.get(&b.facts.uuid))?,
        };
        // SAFETY: passed on to the caller.
        unsafe { put(out, value) }
    })
}

/// Whether two devices are on one board.
///
/// # Safety
/// As the API says.
pub unsafe fn nvmlDeviceOnSameBoard(
    a: nvmlDevice_t,
    b: nvmlDevice_t,
    out: *mut i32,
) -> nvmlReturn_t {
    let same = |a: &Gpu, b: &Gpu, _: Option<&Link>| {
        Ok((a.fixed(Number::Board)? == b.fixed(Number::Board)?).into())
    };
    // SAFETY: passed on to the caller.
    unsafe { between([a, b], out, 1, same) }
}

/// Where the ways of two devices meet in the server.
///
/// # Safety
/// As the API says.
pub unsafe fn nvmlDeviceGetTopologyCommonAncestor(
    a: nvmlDevice_t,
    b: nvmlDevice_t,
    out: *mut nvmlGpuTopologyLevel_t,
) -> nvmlReturn_t {
    let level = |_: &Gpu, _: &Gpu, link: Option<&Link>| {
        link.and_then(|l| l.ancestor)
            .ok_or(NVML_ERROR_NOT_SUPPORTED)
    };
    // SAFETY: passed on to the caller.
    unsafe { between([a, b], out, 0, level) }
}

/// What two devices can do between them. A device can do everything with itself.
///
/// # Safety
/// As the API says.
pub unsafe fn nvmlDeviceGetP2PStatus(
    a: nvmlDevice_t,
    b: nvmlDevice_t,
    kind: nvmlGpuP2PCapsIndex_t,
    out: *mut nvmlGpuP2PStatus_t,
) -> nvmlReturn_t {
    if kind >= KINDS {
        return guard(|| machine::device(a).and(Err(NVML_ERROR_INVALID_ARGUMENT)));
    }
    let status = |_: &Gpu, _: &Gpu, link: Option<&Link>| {
        let of_kind = |l: &Link| l.p2p.get(kind as usize).copied().flatten();
        link.and_then(of_kind).ok_or(NVML_ERROR_NOT_SUPPORTED)
    };
    // SAFETY: passed on to the caller.
    unsafe { between([a, b], out, NVML_P2P_STATUS_OK, status) }
}
