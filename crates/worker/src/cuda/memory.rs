//! Device memory where the client wants it.

use super::{Cuda, attempt, check};
use busbar_abi::cuda::*;
use busbar_wire::WireError;
use busbar_wire::generated::cuda as msg;
use busbar_wire::record::Header;

/// A pinned allocation on a device.
fn properties(dev: i32) -> CUmemAllocationProp {
    let mut p: CUmemAllocationProp = busbar_abi::zeroed();
    p.r#type = CU_MEM_ALLOCATION_TYPE_PINNED as _;
    p.location.r#type = CU_MEM_LOCATION_TYPE_DEVICE as _;
    p.location.id = dev as _;
    p
}

/// Where the client puts a device's memory: ranges of a tebibyte, one behind the other.
const BASE: u64 = 0x3000_0000_0000;
const RANGE: u64 = 1 << 40;
/// Ranges for devices, and behind them for reservations of the program's.
const RANGES: u64 = 32;

/// Reserves the whole range that `va` lies in, once. The driver honours the wish for an address when
/// the range is large; for a few megabytes it does as it likes.
pub(super) fn reserve(w: &mut Cuda, va: u64, size: u64) -> Result<(), CUresult> {
    let range = va.checked_sub(BASE).ok_or(CUDA_ERROR_INVALID_VALUE)? / RANGE;
    let start = BASE + range * RANGE;
    if range >= RANGES || size > RANGE || va + size > start + RANGE {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    if w.reserved.contains(&range) {
        return Ok(());
    }
    let mut at: CUdeviceptr = 0;
    // SAFETY: a pointer to a live address.
    check(unsafe {
        w.driver
            .cuMemAddressReserve(&mut at, RANGE as usize, 0, start, 0)
    })?;
    if at != start {
        // SAFETY: the reservation that was just made.
        unsafe { w.driver.cuMemAddressFree(at, RANGE as usize) };
        eprintln!("busbar worker: the driver put device memory at {at:#x} instead of {start:#x}");
        return Err(CUDA_ERROR_OUT_OF_MEMORY);
    }
    w.reserved.insert(range);
    Ok(())
}

/// Who else may use what lies there.
fn access(dev: i32, yes: bool) -> CUmemAccessDesc {
    CUmemAccessDesc {
        location: properties(dev).location,
        flags: if yes {
            CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        } else {
            CU_MEM_ACCESS_FLAGS_PROT_NONE
        },
    }
}

/// Lets a device use another's memory, or no longer. New memory is mapped for all who may.
pub(super) fn allow(w: &Cuda, user: i32, owner: i32, yes: bool) -> Result<(), CUresult> {
    let Some(i) = w.devices.iter().position(|d| *d == owner) else {
        return Ok(());
    };
    let (from, to) = (BASE + i as u64 * RANGE, BASE + (i as u64 + 1) * RANGE);
    let access = access(user, yes);
    for (va, size) in &w.mapped {
        if (from..to).contains(va) {
            // SAFETY: a range that `map` made, and a pointer to a live structure.
            check(unsafe { w.driver.cuMemSetAccess(*va, *size as usize, &access, 1) })?;
        }
    }
    Ok(())
}

fn map(
    d: &Driver,
    va: u64,
    size: usize,
    dev: i32,
    users: &[CUmemAccessDesc],
) -> Result<(), CUresult> {
    let mut memory = 0;
    let p = properties(dev);
    // SAFETY: pointers to live values; each step undoes those before it when it fails.
    unsafe {
        check(d.cuMemCreate(&mut memory, size, &p, 0))?;
        let mapped = check(d.cuMemMap(va, size, 0, memory, 0)).and_then(|()| {
            check(d.cuMemSetAccess(va, size, users.as_ptr(), users.len())).inspect_err(|_| {
                d.cuMemUnmap(va, size);
            })
        });
        // The mapping keeps the memory alive.
        d.cuMemRelease(memory);
        mapped
    }
}

fn unmap(d: &Driver, va: u64, size: usize) -> Result<(), CUresult> {
    // SAFETY: a range that `map` made.
    check(unsafe { d.cuMemUnmap(va, size) })
}

pub(super) fn mem_map_at(w: &mut Cuda, h: &Header, m: msg::MemMapAt) -> Result<(), WireError> {
    let rc = attempt(|| {
        let dev = w.device(m.device)?;
        if w.mapped.contains_key(&m.va) {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        reserve(w, m.va, m.size)?;
        let peers = w.peers.iter().filter(|(_, owner)| *owner == dev);
        let users: Vec<_> = std::iter::once(dev)
            .chain(peers.map(|(user, _)| *user))
            .map(|d| access(d, true))
            .collect();
        map(w.driver, m.va, m.size as usize, dev, &users)?;
        w.mapped.insert(m.va, m.size);
        Ok(())
    });
    w.reply(h, rc, |_| {});
    Ok(())
}

pub(super) fn mem_unmap_at(w: &mut Cuda, h: &Header, m: msg::MemUnmapAt) -> Result<(), WireError> {
    let rc = attempt(|| {
        if w.mapped.get(&m.va) != Some(&m.size) {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        // Kernels queued before may still use it; cuMemFree waits for them, too. A lost context
        // uses nothing any more.
        // SAFETY: no arguments.
        unsafe { w.driver.cuCtxSynchronize() };
        unmap(w.driver, m.va, m.size as usize)?;
        w.mapped.remove(&m.va);
        Ok(())
    });
    w.done(h, rc);
    Ok(())
}

pub(super) fn mem_fence(w: &mut Cuda, h: &Header, _m: msg::MemFence) -> Result<(), WireError> {
    // SAFETY: no arguments.
    let rc = unsafe { w.driver.cuCtxSynchronize() };
    w.done(h, rc);
    Ok(())
}

/// Frees what was mapped for a device whose primary context goes.
pub(super) fn unmap_all(w: &mut Cuda, dev: i32) {
    let Some(i) = w.devices.iter().position(|d| *d == dev) else {
        return;
    };
    let (from, to) = (BASE + i as u64 * RANGE, BASE + (i as u64 + 1) * RANGE);
    let gone: Vec<_> = w
        .mapped
        .iter()
        .filter(|(va, _)| (from..to).contains(*va))
        .map(|(a, s)| (*a, *s))
        .collect();
    for (va, size) in gone {
        let _ = unmap(w.driver, va, size as usize);
        w.mapped.remove(&va);
    }
}
