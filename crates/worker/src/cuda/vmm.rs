//! Virtual memory management.

use super::ipc::descriptor;
use super::prelude::*;
use super::state::exports::Memory;
use super::state::mapped::{Physical, within};
use crate::answer::items;

/// Whether a location is a host's.
fn is_host(l: &CUmemLocation) -> bool {
    matches!(
        l.r#type,
        CU_MEM_LOCATION_TYPE_HOST | CU_MEM_LOCATION_TYPE_HOST_NUMA
    )
}

/// What memory was made with.
fn properties(d: &Driver, memory: CUmemGenericAllocationHandle) -> Result<CUmemAllocationProp> {
    let mut props = busbar_abi::zeroed();
    // SAFETY: live memory and a pointer to a live structure.
    check(unsafe { d.cuMemGetAllocationPropertiesFromHandle(&mut props, memory) })?;
    Ok(props)
}

pub fn vmm_create(w: &mut Cuda, m: msg::VmmCreate<'_>) -> Result<(), Fail> {
    let mut props: CUmemAllocationProp = plain(m.props)?;
    w.locate(&mut props.location)?;
    props.win32HandleMetaData = std::ptr::null_mut();
    // Of the ways to share it only descriptors can be offered.
    props.requestedHandleTypes &= CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    let charge = match is_host(&props.location) {
        true => w.shared.take(m.size)?,
        false => w.charge(Use::Physical, Some(props.location.id), m.size)?,
    };
    let mut memory = 0;
    // SAFETY: pointers to live values.
    check(unsafe { w.cuMemCreate(&mut memory, m.size as usize, &props, 0) })?;
    w.made_of(&m, memory, charge);
    Ok(())
}

pub fn vmm_map(w: &mut Cuda, m: msg::VmmMap) -> Result {
    let memory = w.handle(Kind::Allocation, m.allocation)?;
    super::memory::reserve(w, m.va, m.size)?;
    // SAFETY: addresses reserved above, and live memory; the driver checks that they fit.
    check(unsafe { w.cuMemMap(m.va, m.size as usize, m.offset as usize, memory, 0) })?;
    let charge = w.handles.charged((Kind::Allocation, m.allocation));
    let mapped = Physical {
        size: m.size,
        host: properties(w.driver, memory).is_ok_and(|p| is_host(&p.location)),
        _charge: charge.cloned(),
    };
    w.physical.insert(m.va, mapped);
    Ok(())
}

pub fn vmm_set_access(w: &mut Cuda, m: msg::VmmSetAccess<'_>) -> Result<(), Fail> {
    let mut list: Vec<CUmemAccessDesc> = items(m.access)?;
    for a in &mut list {
        w.locate(&mut a.location)?;
    }
    within(m.va, m.size)?;
    let end = m.va + m.size;
    let host: Vec<_> = w
        .physical
        .range(m.va..end)
        .filter(|(_, p)| p.host)
        .map(|(va, p)| (*va, p.size))
        .collect();
    let set = |va: u64, size: u64, list: &[CUmemAccessDesc]| {
        // SAFETY: a range that the driver checks, and an array of that length.
        check(unsafe { w.cuMemSetAccess(va, size as usize, list.as_ptr(), list.len()) })
    };
    if host.is_empty() {
        return Ok(set(m.va, m.size, &list)?);
    }
    // What stands for the program's memory is this process's to use as well, whoever else is.
    let own = CUmemAccessDesc {
        location: CUmemLocation {
            r#type: CU_MEM_LOCATION_TYPE_HOST,
            ..busbar_abi::zeroed()
        },
        flags: CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
    };
    list.retain(|a| a.location.r#type == CU_MEM_LOCATION_TYPE_DEVICE);
    for (va, p) in w.physical.range(m.va..end) {
        if !p.host {
            set(*va, p.size, &list)?;
            continue;
        }
        let all: Vec<_> = list.iter().copied().chain([own]).collect();
        set(*va, p.size, &all)?;
    }
    host.into_iter()
        .for_each(|(va, size)| w.shared.twins.adopt(va, size));
    Ok(())
}

pub fn vmm_get_access(
    w: &mut Cuda,
    m: msg::VmmGetAccess<'_>,
) -> Result<msg::VmmGetAccessReply, Fail> {
    let mut location: CUmemLocation = plain(m.location)?;
    let mut flags = 0;
    w.locate(&mut location)?;
    within(m.va, 0)?;
    // SAFETY: pointers to live values.
    check(unsafe { w.cuMemGetAccess(&mut flags, &location, m.va) })?;
    Ok(msg::VmmGetAccessReply { flags })
}

pub fn vmm_unmap(w: &mut Cuda, m: msg::VmmUnmap) -> Result {
    within(m.va, m.size)?;
    let end = m.va + m.size;
    // Nobody here uses it any more.
    for (va, _) in w.physical.range(m.va..end).filter(|(_, p)| p.host) {
        w.shared.twins.unmap(*va);
    }
    // SAFETY: a range that the driver checks.
    check(unsafe { w.cuMemUnmap(m.va, m.size as usize) })?;
    w.physical.retain(|va, _| *va < m.va || *va >= end);
    Ok(())
}

pub fn vmm_release(w: &mut Cuda, m: msg::VmmRelease) -> Result {
    let memory = w.handle(Kind::Allocation, m.allocation)?;
    w.exports.forget(Memory::Allocation(m.allocation));
    // SAFETY: live memory, which is not used again.
    check(unsafe { w.cuMemRelease(memory) })
}

pub fn vmm_granularity(
    w: &mut Cuda,
    m: msg::VmmGranularity<'_>,
) -> Result<msg::VmmGranularityReply, Fail> {
    let mut props: CUmemAllocationProp = plain(m.props)?;
    let mut n = 0;
    w.locate(&mut props.location)?;
    // SAFETY: pointers to live values.
    check(unsafe { w.cuMemGetAllocationGranularity(&mut n, &props, m.option as _) })?;
    Ok(msg::VmmGranularityReply {
        granularity: n as u64,
    })
}

pub fn vmm_export(w: &mut Cuda, m: msg::VmmExport) -> Result<msg::VmmExportReply> {
    let memory = w.handle(Kind::Allocation, m.allocation)?;
    let (d, of) = (w.driver, Memory::Allocation(m.allocation));
    let charge = w.handles.charged((Kind::Allocation, m.allocation));
    let bytes = charge.map_or(0, |c| c.bytes());
    let (tag, secret) = w.exports.offer(of, bytes, || descriptor(d, memory))?;
    Ok(msg::VmmExportReply { tag, secret })
}

pub fn vmm_import(w: &mut Cuda, m: msg::VmmImport) -> Result<Encoded> {
    let (memory, charge) = super::ipc::taken(w, None, (&m.tag, &m.secret))?;
    let told = properties(w.driver, memory).and_then(|mut props| {
        let seen = w.devices.iter().position(|d| *d == props.location.id);
        props.location.id = seen.ok_or(CUDA_ERROR_INVALID_DEVICE)? as i32;
        Ok(props)
    });
    let mut props = match told {
        Ok(props) => props,
        Err(e) => {
            // SAFETY: live memory, which nobody else has.
            unsafe { w.cuMemRelease(memory) };
            return Err(e);
        }
    };
    props.win32HandleMetaData = std::ptr::null_mut();
    w.made_of(&m, memory, charge);
    Ok(Encoded::of(&msg::VmmImportReply {
        props: &busbar_abi::to_vec(&props),
    }))
}
