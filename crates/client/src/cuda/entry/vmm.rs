//! Virtual memory management: addresses are reserved here, memory is made and mapped at the worker.

use super::prelude::*;
use crate::cuda::engine::{host_file, place, stream, vmm};
use crate::cuda::state::host_file::MEMORY;
use crate::cuda::state::ranges::Sort;
use crate::cuda::state::space::GRANULE;
use crate::cuda::state::vmm::{Mapping, Pages, Vmm};

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
    let host = vmm::is_host(&props.location);
    let pages = match (host, props.requestedHandleTypes) {
        (false, _) => Pages::None,
        (true, 0) => Pages::At(place::map_anywhere(size)?),
        _ => Pages::In(host_file::create(
            MEMORY,
            size,
            busbar_abi::to_array(props),
        )?),
    };
    vmm::create(cx, size, props, pages)
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
    // Two places of the program's would have to change together.
    let twice = matches!(a.pages, Pages::At(_)) && s.is_mapped(id);
    refuse_if(twice, CUDA_ERROR_NOT_SUPPORTED)?;
    let pages = vmm::move_in(&a.pages, p, size)?;
    let (is_host, flags) = (pages.is_any(), vmm::flags_of(&pages));
    s.allocations.entry(id).and_modify(|a| a.pages = pages);
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
        by_host: 0,
        by_others: BTreeMap::new(),
    };
    s.mappings.insert(p, mapping);
    let (device, sort, flags) = match is_host {
        false => (device, Sort::Foreign, 0),
        true => (cx.current_device().unwrap_or(0), Sort::Host, flags),
    };
    let of = (cx.device(device)?.primary, device);
    cx.state().ranges.add(p, size, sort, of, flags);
    Ok(())
}

pub unsafe fn cuMemSetAccess(
    cx: Cx,
    p: CUdeviceptr,
    size: usize,
    access: *const CUmemAccessDesc,
    n: usize,
) -> Result<()> {
    let bad = access.is_null() || n == 0 || n > 64;
    let covered = lock(&cx.state().vmm).covers(p, size as u64);
    refuse_if(bad || !covered, CUDA_ERROR_INVALID_VALUE)?;
    // SAFETY: the program's array of `n` items.
    let list = unsafe { std::slice::from_raw_parts(access, n) };
    let pieces = lock(&cx.state().vmm).touching(p, size as u64).count();
    let host = lock(&cx.state().vmm).of_host(p, size as u64);
    let (mut device, mut program) = (None, None);
    for a in list {
        let known = matches!(
            a.flags,
            CU_MEM_ACCESS_FLAGS_PROT_NONE
                | CU_MEM_ACCESS_FLAGS_PROT_READ
                | CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        );
        refuse_if(!known, CUDA_ERROR_INVALID_VALUE)?;
        if vmm::is_host(&a.location) {
            // The program has pages of the host's memory alone.
            refuse_if(host.len() != pieces, CUDA_ERROR_NOT_SUPPORTED)?;
            program = Some(a.flags);
            continue;
        }
        let of_device = a.location.r#type == CU_MEM_LOCATION_TYPE_DEVICE;
        refuse_if(!of_device, CUDA_ERROR_NOT_SUPPORTED)?;
        cx.device(vmm::location_id(&a.location))
            .map_err(|_| CUDA_ERROR_INVALID_VALUE)?;
        device = Some(a.flags).max(device);
    }
    let access = busbar_abi::slice_bytes(list);
    let m = msg::VmmSetAccess {
        va: p,
        size: size as u64,
        access,
    };
    match host.is_empty() {
        true => cx.send(&m)?,
        // What the program has written goes there ahead of the queue, from now on.
        false => vmm::let_in(cx, &m, &host, device.is_some_and(|f| f != 0))?,
    }
    let mut s = lock(&cx.state().vmm);
    let Vmm {
        mappings,
        allocations,
        ..
    } = &mut *s;
    for (_, m) in mappings.range_mut(p..p.saturating_add(size as u64)) {
        let Some(home) = allocations.get(&m.allocation) else {
            continue;
        };
        if home.pages.is_any() {
            m.access = device.max(program).unwrap_or(m.access);
            m.by_host = program.unwrap_or(m.by_host);
            continue;
        }
        // What the device may do that has it; others' rights say nothing of that.
        for a in list {
            match vmm::location_id(&a.location) {
                own if own == home.device => m.access = a.flags,
                other => drop(m.by_others.insert(other, a.flags)),
            }
        }
    }
    Ok(())
}

pub unsafe fn cuMemGetAccess(
    cx: Cx,
    out: *mut u64,
    location: &CUmemLocation,
    p: CUdeviceptr,
) -> Result<()> {
    let by_host = lock(&cx.state().vmm).mapping(p).map(|m| m.by_host);
    if let Some(flags) = by_host.filter(|_| vmm::is_host(location)) {
        // SAFETY: the program's pointer.
        return unsafe { put(out, u64::from(flags)) };
    }
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
        vmm::move_out(cx, va, id)?;
        // First the word: another thread may map something there once nothing is known of it.
        cx.send(&msg::VmmUnmap { va, size })?;
        cx.state()
            .ranges
            .take(va, |r| r.sort == Sort::Foreign || r.is_created());
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
    vmm::granularity(cx, props, option)
}

/// Entries of a list at most, which is in one message.
const MOST_MAPPED: u32 = 4096;

pub unsafe fn cuMemMapArrayAsync(
    cx: Cx,
    list: *mut CUarrayMapInfo,
    count: u32,
    stream: u32,
) -> Result<()> {
    refuse_if(list.is_null() || count == 0, CUDA_ERROR_INVALID_VALUE)?;
    refuse_if(count > MOST_MAPPED, CUDA_ERROR_NOT_SUPPORTED)?;
    let cx = cx.in_context(stream::context_of(cx, stream)?);
    // SAFETY: the program's array of `count` items.
    let mut list = unsafe { std::slice::from_raw_parts(list, count as usize) }.to_vec();
    for entry in &mut list {
        let kind = match entry.resourceType {
            CU_RESOURCE_TYPE_ARRAY => Kind::Array,
            CU_RESOURCE_TYPE_MIPMAPPED_ARRAY => Kind::MipmappedArray,
            _ => return Err(CUDA_ERROR_INVALID_VALUE),
        };
        entry.resource[0] = cx.handle(kind, entry.resource[0])?.into();
        // What is unmapped names no memory.
        if entry.memOperationType == CU_MEM_OPERATION_TYPE_MAP {
            let memory = cx.handle(Kind::Allocation, entry.memHandle[0])?;
            let s = lock(&cx.state().vmm);
            let of_device = s
                .allocations
                .get(&memory)
                .is_some_and(|a| !a.pages.is_any());
            refuse_if(!of_device, CUDA_ERROR_INVALID_VALUE)?;
            entry.memHandle[0] = memory.into();
        }
    }
    let list = busbar_abi::slice_bytes(&list);
    cx.call(&msg::ArraysMap { stream, list }).map(drop)
}
