//! Device memory where the client wants it.

use super::done::{Free, reply};
use super::driver::has_no_capture;
use super::prelude::*;
use super::state::exports::Memory;
use super::state::mapped::{Mapped, is_of_all, of_range, within};
use crate::answer::Behind;
use crate::memory::Charge;
use busbar_wire::generated::cuda::contract;

/// A pinned allocation on a device.
fn properties(dev: i32) -> CUmemAllocationProp {
    let mut p: CUmemAllocationProp = busbar_abi::zeroed();
    p.r#type = CU_MEM_ALLOCATION_TYPE_PINNED as _;
    p.location.r#type = CU_MEM_LOCATION_TYPE_DEVICE as _;
    p.location.id = dev as _;
    p
}

/// Reserves the whole range that `va` lies in, once. The driver honours the wish for an address
/// when the range is large; for a few megabytes it does as it likes.
pub fn reserve(w: &mut Cuda, va: u64, size: u64) -> Result<u32> {
    let range = within(va, size)?;
    of_range(range)?;
    let start = contract::span(range).start;
    if w.reserved.contains(&range) {
        return Ok(range);
    }
    let mut at: CUdeviceptr = 0;
    // SAFETY: a pointer to a live address.
    check(unsafe { w.cuMemAddressReserve(&mut at, contract::RANGE as usize, 0, start, 0) })?;
    if at != start {
        // SAFETY: the reservation that was just made.
        unsafe { w.cuMemAddressFree(at, contract::RANGE as usize) };
        if w.may_complain() {
            crate::complain!("the driver put device memory at {at:#x} instead of {start:#x}");
        }
        return Err(CUDA_ERROR_OUT_OF_MEMORY);
    }
    w.reserved.insert(range);
    Ok(range)
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
pub fn allow(w: &Cuda, user: i32, owner: i32, yes: bool) -> Result {
    let access = access(user, yes);
    let of_owner = |(va, m): &(&u64, &Mapped)| m.device == owner && !is_of_all(**va);
    for (va, m) in w.mapped.iter().filter(of_owner) {
        // SAFETY: a range that `map` made, and a pointer to a live structure.
        check(unsafe { w.cuMemSetAccess(*va, m.size as usize, &access, 1) })?;
    }
    Ok(())
}

/// Whether a device may use what is mapped at an address; `None` where nothing is by this module.
pub fn is_used_by(w: &Cuda, p: u64, device: i32) -> Option<bool> {
    let (at, m) = w.mapped.range(..=p).next_back()?;
    let let_in = || is_of_all(*at) || w.peers.contains(&(device, m.device));
    (p - at < m.size).then(|| m.device == device || let_in())
}

/// Lets a device use the memory that is mapped at an address, and no other of its owner's.
pub fn let_in(w: &Cuda, user: i32, p: u64) -> Result {
    let Some((at, size)) = mapping(w, p).filter(|_| is_used_by(w, p, user) == Some(false)) else {
        return Ok(());
    };
    // SAFETY: a range that `map` made, and a pointer to a live structure.
    check(unsafe { w.cuMemSetAccess(at, size as usize, &access(user, true), 1) })
}

/// The devices that may use memory of one: itself, and its peers.
pub fn users(w: &Cuda, dev: i32) -> Vec<CUmemAccessDesc> {
    let peers = w.peers.iter().filter(|(_, owner)| *owner == dev);
    std::iter::once(dev)
        .chain(peers.map(|(user, _)| *user))
        .map(|d| access(d, true))
        .collect()
}

/// Maps memory at an address of a reserved range, and lets go of the handle: the mapping keeps the
/// memory alive.
pub fn map(
    d: &Driver,
    va: u64,
    size: usize,
    memory: CUmemGenericAllocationHandle,
    users: &[CUmemAccessDesc],
) -> Result {
    // SAFETY: a live handle; each step undoes those before it when it fails.
    unsafe {
        let mapped = check(d.cuMemMap(va, size, 0, memory, 0)).and_then(|()| {
            check(d.cuMemSetAccess(va, size, users.as_ptr(), users.len())).inspect_err(|_| {
                d.cuMemUnmap(va, size);
            })
        });
        d.cuMemRelease(memory);
        mapped
    }
}

fn create(d: &Driver, size: usize, dev: i32) -> Result<CUmemGenericAllocationHandle> {
    let mut memory = 0;
    let mut p = properties(dev);
    // So that it can be shared with another process; see `ipc`.
    p.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR as _;
    // SAFETY: pointers to live values.
    match unsafe { d.cuMemCreate(&mut memory, size, &p, 0) } {
        CUDA_SUCCESS => Ok(memory),
        CUDA_ERROR_NOT_SUPPORTED | CUDA_ERROR_INVALID_VALUE | CUDA_ERROR_INVALID_DEVICE => {
            // A driver that cannot share memory can still have some.
            // SAFETY: as above.
            check(unsafe { d.cuMemCreate(&mut memory, size, &properties(dev), 0) })?;
            Ok(memory)
        }
        e => Err(e),
    }
}

/// Remembers what was mapped.
pub fn note(w: &mut Cuda, va: u64, size: u64, device: i32, charge: Option<Charge>) {
    let mapped = Mapped {
        size,
        device,
        charge,
    };
    w.mapped.insert(va, mapped);
}

/// The mapping that an address lies in: where it begins, and its length.
pub fn mapping(w: &Cuda, va: u64) -> Option<(u64, u64)> {
    let (at, m) = w.mapped.range(..=va).next_back()?;
    (va - at < m.size).then_some((*at, m.size))
}

fn unmap(d: &Driver, va: u64, size: usize) -> Result {
    // SAFETY: a range that `map` made.
    check(unsafe { d.cuMemUnmap(va, size) })
}

pub fn mem_map_at(w: &mut Cuda, m: msg::MemMapAt) -> Result {
    let dev = w.device(m.device)?;
    refuse_if(w.mapped.contains_key(&m.va), CUDA_ERROR_INVALID_VALUE)?;
    let range = reserve(w, m.va, m.size)?;
    let charge = w.charge(of_range(range)?, Some(dev), m.size)?;
    let memory = create(w.driver, m.size as usize, dev)?;
    map(w.driver, m.va, m.size as usize, memory, &users(w, dev))?;
    if range == contract::MANAGED {
        for other in w.devices.iter().filter(|d| **d != dev && **d >= 0) {
            let access = access(*other, true);
            // Devices that cannot reach each other's memory stay without.
            // SAFETY: what was just mapped, and a pointer to a live structure.
            unsafe { w.cuMemSetAccess(m.va, m.size as usize, &access, 1) };
        }
    }
    note(w, m.va, m.size, dev, Some(charge));
    Ok(())
}

/// Waits until all work of the current context is done, but not on streams that capture: they have
/// none, and to wait for them, or for their context, would void the capture.
pub fn wait_for_streams(w: &Cuda) -> Result {
    if w.captures.is_empty() {
        // SAFETY: no arguments.
        return check(unsafe { w.cuCtxSynchronize() });
    }
    for s in std::iter::once(0).chain(w.handles.of(Kind::Stream)) {
        let s = s as CUstream;
        // The legacy stream cannot be asked while a stream captures that it would wait for.
        if has_no_capture(w.driver, s) {
            // SAFETY: a live stream.
            check(unsafe { w.cuStreamSynchronize(s) })?;
        }
    }
    Ok(())
}

pub fn mem_retire(w: &mut Cuda, m: msg::MemRetire) -> Result<Answered, Behind> {
    if m.size > 0 && w.mapped.get(&m.va).is_none_or(|known| known.size != m.size) {
        return Err(Behind(CUDA_ERROR_INVALID_VALUE));
    }
    let mut charge = None;
    if m.size > 0 {
        charge = w.mapped.remove(&m.va).and_then(|m| m.charge);
        w.exports.forget(Memory::Mapping(m.va));
    }
    let call = w.record.call;
    let f = Free {
        context: w.scope(),
        va: m.va,
        size: m.size,
        call,
        charge,
    };
    let f = match w.captures.is_empty() {
        true => w.completer.unmap_later(f),
        false => Some(f),
    };
    let Some(f) = f else { return Ok(Answered) };
    let _ = wait_for_streams(w);
    if m.size > 0 {
        unmap(w.driver, m.va, m.size as usize)?;
    }
    drop(f);
    w.completer.now(CUDA_SUCCESS, reply(call));
    Ok(Answered)
}

/// Of a session that may have a part, that is all there is. What idle sessions would give up is
/// free.
pub fn cu_mem_get_info_v2(
    w: &mut Cuda,
    _m: msg::CuMemGetInfoV2,
) -> Result<msg::CuMemGetInfoV2Reply> {
    let (mut free, mut total) = (0usize, 0usize);
    // SAFETY: pointers to live numbers.
    check(unsafe { w.cuMemGetInfo_v2(&mut free, &mut total) })?;
    let free = (free as u64)
        .saturating_add(w.would_have_room())
        .min(total as u64);
    Ok(msg::CuMemGetInfoV2Reply {
        free: w
            .gate
            .left(w.current_device())
            .map_or(free, |left| left.min(free)),
        total: w.gate.part(total as u64),
    })
}
