//! Virtual memory management: addresses are reserved here, memory is made and mapped at the worker.

use super::prelude::*;
use crate::cuda::engine::vmm;
use crate::cuda::state::ranges::Sort;
use crate::cuda::state::space::GRANULE;
use crate::cuda::state::vmm::{Mapping, Vmm};

pub use super::vmm_share::*;

pub fn cuMemAddressReserve(
    cx: Cx,
    size: usize,
    alignment: usize,
    _wish: CUdeviceptr,
    flags: u64,
) -> Result<CUdeviceptr> {
    let size = size as u64;
    let bad_alignment = alignment != 0 && !alignment.is_power_of_two();
    if size == 0 || !size.is_multiple_of(GRANULE) || bad_alignment || flags != 0 {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let at = lock(&cx.state().vmm)
        .reservations
        .take(size, alignment as u64);
    at.ok_or(CUDA_ERROR_OUT_OF_MEMORY)
}

pub fn cuMemAddressFree(cx: Cx, p: CUdeviceptr, size: usize) -> Result<()> {
    let mut s = lock(&cx.state().vmm);
    let end = p + size as u64;
    if s.mappings.keys().any(|va| (p..end).contains(va)) {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let given = s.reservations.give(p, size as u64);
    refuse_if(!given, CUDA_ERROR_INVALID_VALUE)
}

pub fn cuMemCreate(cx: Cx, size: usize, props: &CUmemAllocationProp, flags: u64) -> Result<u32> {
    let size = size as u64;
    if size == 0 || !size.is_multiple_of(GRANULE) || flags != 0 {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    vmm::check(cx, props)?;
    let allocation = cx.create_in(Kind::Allocation, 0);
    let m = msg::VmmCreate {
        allocation,
        size,
        props: busbar_abi::bytes_of(props),
    };
    cx.call(&m)
        .inspect_err(|_| cx.destroy(Kind::Allocation, allocation))?;
    vmm::add(cx, allocation, size, props);
    Ok(allocation)
}

pub fn cuMemRelease(cx: Cx, id: u32) -> Result<()> {
    let mut s = lock(&cx.state().vmm);
    let a = s.allocations.get_mut(&id).ok_or(CUDA_ERROR_INVALID_VALUE)?;
    a.held = a.held.checked_sub(1).ok_or(CUDA_ERROR_INVALID_VALUE)?;
    drop(s);
    vmm::forget_unused(cx, id)
}

pub unsafe fn cuMemRetainAllocationHandle(
    cx: Cx,
    p: *mut c_void,
) -> Result<CUmemGenericAllocationHandle> {
    let p = p as u64;
    let mut s = lock(&cx.state().vmm);
    let id = s.mapping(p).ok_or(CUDA_ERROR_INVALID_VALUE)?.allocation;
    let a = s.allocations.get_mut(&id).ok_or(CUDA_ERROR_INVALID_VALUE)?;
    a.held += 1;
    Ok(cx.raw(Kind::Allocation, id))
}

pub fn cuMemGetAllocationPropertiesFromHandle(cx: Cx, id: u32) -> Result<CUmemAllocationProp> {
    Ok(vmm::known(cx, id)?.1)
}

pub fn cuMemMap(
    cx: Cx,
    p: CUdeviceptr,
    size: usize,
    offset: usize,
    id: u32,
    flags: u64,
) -> Result<()> {
    let (size, offset) = (size as u64, offset as u64);
    let mut s = lock(&cx.state().vmm);
    let a = s.allocations.get(&id).ok_or(CUDA_ERROR_INVALID_VALUE)?;
    // Parts of it cannot be mapped.
    refuse_if(offset != 0 || size != a.size, CUDA_ERROR_NOT_SUPPORTED)?;
    let overlaps = s.touching(p, size).next().is_some();
    let aligned = p.is_multiple_of(GRANULE);
    refuse_if(flags != 0 || !aligned || overlaps, CUDA_ERROR_INVALID_VALUE)?;
    refuse_if(!s.reservations.holds(p, size), CUDA_ERROR_INVALID_VALUE)?;
    let device = a.device;
    cx.send(&msg::VmmMap {
        va: p,
        size,
        offset,
        allocation: id,
    })?;
    let mapping = Mapping {
        size,
        allocation: id,
        access: 0,
    };
    s.mappings.insert(p, mapping);
    let of = (cx.device(device)?.primary, device);
    cx.state().ranges.add(p, size, Sort::Foreign, of, 0);
    Ok(())
}

pub unsafe fn cuMemSetAccess(
    cx: Cx,
    p: CUdeviceptr,
    size: usize,
    access: *const CUmemAccessDesc,
    n: usize,
) -> Result<()> {
    if access.is_null() || n == 0 || n > 64 || !cx.state().ranges.is_on_device(p, size) {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: the program's array of `n` items.
    let list = unsafe { std::slice::from_raw_parts(access, n) };
    for a in list {
        if a.location.r#type != CU_MEM_LOCATION_TYPE_DEVICE {
            return Err(CUDA_ERROR_NOT_SUPPORTED);
        }
        cx.device(vmm::location_id(&a.location))
            .map_err(|_| CUDA_ERROR_INVALID_VALUE)?;
    }
    let access = busbar_abi::slice_bytes(list);
    cx.send(&msg::VmmSetAccess {
        va: p,
        size: size as u64,
        access,
    })?;
    let mut s = lock(&cx.state().vmm);
    let Vmm {
        mappings,
        allocations,
        ..
    } = &mut *s;
    for (_, m) in mappings.range_mut(p..p.saturating_add(size as u64)) {
        // What the device may do that has it; others' rights say nothing of that.
        let home = allocations.get(&m.allocation).map(|a| a.device);
        let own = list
            .iter()
            .rfind(|a| Some(vmm::location_id(&a.location)) == home);
        m.access = own.map_or(m.access, |a| a.flags);
    }
    Ok(())
}

pub unsafe fn cuMemGetAccess(
    cx: Cx,
    out: *mut u64,
    location: &CUmemLocation,
    p: CUdeviceptr,
) -> Result<()> {
    let m = msg::VmmGetAccess {
        va: p,
        location: busbar_abi::bytes_of(location),
    };
    // Where nothing is mapped, the driver says that there are no rights, and refuses besides.
    // SAFETY: the program's pointer.
    let reply = cx
        .reply_to(&m)
        .inspect_err(|_| unsafe { put_opt(out, 0) })?;
    // SAFETY: the program's pointer.
    unsafe { put(out, reply.flags) }
}

pub fn cuMemUnmap(cx: Cx, p: CUdeviceptr, size: usize) -> Result<()> {
    let end = p.saturating_add(size as u64);
    let s = lock(&cx.state().vmm);
    if !s.reservations.holds(p, size as u64) {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    // What is not mapped need not be unmapped, but no mapping can be cut.
    let inside: Vec<_> = s
        .touching(p, size as u64)
        .map(|(va, m)| (*va, m.size, m.allocation))
        .collect();
    if inside.iter().any(|m| m.0 < p || m.0 + m.1 > end) {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    drop(s);
    for (va, size, id) in inside {
        // First the word: another thread may map something there once nothing is known of it.
        cx.send(&msg::VmmUnmap { va, size })?;
        cx.state().ranges.remove(va, |sort| sort == Sort::Foreign);
        lock(&cx.state().vmm).mappings.remove(&va);
        vmm::forget_unused(cx, id)?;
    }
    Ok(())
}

pub fn cuMemGetAllocationGranularity(
    cx: Cx,
    props: &CUmemAllocationProp,
    option: CUmemAllocationGranularity_flags,
) -> Result<usize> {
    vmm::check(cx, props)?;
    let m = msg::VmmGranularity {
        props: busbar_abi::bytes_of(props),
        option,
    };
    let reply = cx.cached(&m)?;
    let n = decode::<msg::VmmGranularityReply>(&reply)?.granularity;
    Ok(n as usize)
}
