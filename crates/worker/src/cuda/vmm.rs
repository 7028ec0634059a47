//! Virtual memory management.

use super::ipc::descriptor;
use super::prelude::*;
use super::state::exports::Memory;
use super::state::mapped::within;
use crate::answer::items;

/// Puts the physical device in the place of the program's.
fn place(w: &Cuda, l: &mut CUmemLocation) -> Result {
    let [kind, id] = busbar_abi::member::<[i32; 2], _>(l);
    busbar_abi::set_member(l, [kind, w.device(id)?]);
    Ok(())
}

pub fn vmm_create(w: &mut Cuda, m: msg::VmmCreate<'_>) -> Result<(), Fail> {
    let mut props: CUmemAllocationProp = plain(m.props)?;
    place(w, &mut props.location)?;
    props.win32HandleMetaData = std::ptr::null_mut();
    // Of the ways to share it only descriptors can be offered.
    props.requestedHandleTypes &= CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    let charge = w.charge(Use::Physical, m.size)?;
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
    // Memory that is released lives as long as it is mapped.
    let charge = w.handles.charged((Kind::Allocation, m.allocation));
    w.physical.insert(m.va, (m.size, charge.cloned()));
    Ok(())
}

pub fn vmm_set_access(w: &mut Cuda, m: msg::VmmSetAccess<'_>) -> Result<(), Fail> {
    let mut list: Vec<CUmemAccessDesc> = items(m.access)?;
    for a in &mut list {
        place(w, &mut a.location)?;
    }
    within(m.va, m.size)?;
    // SAFETY: a range that the driver checks, and an array of that length.
    check(unsafe { w.cuMemSetAccess(m.va, m.size as usize, list.as_ptr(), list.len()) })?;
    Ok(())
}

pub fn vmm_get_access(
    w: &mut Cuda,
    m: msg::VmmGetAccess<'_>,
) -> Result<msg::VmmGetAccessReply, Fail> {
    let mut location: CUmemLocation = plain(m.location)?;
    let mut flags = 0;
    place(w, &mut location)?;
    within(m.va, 0)?;
    // SAFETY: pointers to live values.
    check(unsafe { w.cuMemGetAccess(&mut flags, &location, m.va) })?;
    Ok(msg::VmmGetAccessReply { flags })
}

pub fn vmm_unmap(w: &mut Cuda, m: msg::VmmUnmap) -> Result {
    within(m.va, m.size)?;
    // SAFETY: a range that the driver checks.
    check(unsafe { w.cuMemUnmap(m.va, m.size as usize) })?;
    let end = m.va + m.size;
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
    place(w, &mut props.location)?;
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
    let mut props: CUmemAllocationProp = busbar_abi::zeroed();
    let (memory, charge) = super::ipc::taken(w, Use::Physical, (&m.tag, &m.secret))?;
    // SAFETY: live memory and a pointer to a live structure.
    let told = check(unsafe { w.cuMemGetAllocationPropertiesFromHandle(&mut props, memory) });
    let seen = w.devices.iter().position(|d| *d == props.location.id);
    match told.and_then(|()| seen.ok_or(CUDA_ERROR_INVALID_DEVICE)) {
        Ok(device) => props.location.id = device as i32,
        Err(e) => {
            // SAFETY: live memory, which nobody else has.
            unsafe { w.cuMemRelease(memory) };
            return Err(e);
        }
    }
    props.win32HandleMetaData = std::ptr::null_mut();
    w.made_of(&m, memory, charge);
    Ok(Encoded::of(&msg::VmmImportReply {
        props: busbar_abi::bytes_of(&props),
    }))
}
