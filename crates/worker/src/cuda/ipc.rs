//! Memory and events that the workers of one server share.
//!
//! A worker that exports memory listens on a socket of the abstract namespace. Whoever connects
//! says a secret, which only the exporting client has been told, and gets the memory's file
//! descriptor.

use super::memory::{mapping, note, reserve};
use super::prelude::*;
use super::state::exports::{Memory, Secret, fetch};
use super::state::mapped::of_range;
use crate::memory::Charge;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const DESCRIPTOR: CUmemAllocationHandleType = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

/// A descriptor of memory.
pub fn descriptor(d: &Driver, memory: CUmemGenericAllocationHandle) -> Result<OwnedFd> {
    let mut fd = -1i32;
    let out = (&raw mut fd).cast();
    // SAFETY: live memory and a pointer to a live value; the descriptor that comes is ours.
    unsafe {
        check(d.cuMemExportToShareableHandle(out, memory, DESCRIPTOR, 0))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

fn export(d: &Driver, va: u64) -> Result<OwnedFd> {
    let mut memory = 0;
    // SAFETY: a mapped address, a pointer to a live value; what is retained is released.
    unsafe {
        check(d.cuMemRetainAllocationHandle(&mut memory, va as *mut _))?;
        let fd = descriptor(d, memory);
        d.cuMemRelease(memory);
        fd
    }
}

/// Memory that another worker offers. It counts for this session, too: it stays for as long as this
/// one has it, even when the other has given it up.
pub fn taken(
    w: &mut Cuda,
    (kind, on): (Use, On),
    (tag, secret): (&[u8; 8], &Secret),
) -> Result<(CUmemGenericAllocationHandle, Charge)> {
    let (file, bytes) = fetch(tag, secret)?;
    let charge = w.charge(kind, on, bytes)?;
    let mut memory = 0;
    let os_handle = std::ptr::without_provenance_mut(file.as_raw_fd() as usize);
    // SAFETY: a pointer to a live value, and a descriptor that lives through the call.
    check(unsafe { w.cuMemImportFromShareableHandle(&mut memory, os_handle, DESCRIPTOR) })?;
    Ok((memory, charge))
}

pub fn ipc_export(w: &mut Cuda, m: msg::IpcExport) -> Result<msg::IpcExportReply> {
    let (base, size) = mapping(w, m.va).ok_or(CUDA_ERROR_INVALID_VALUE)?;
    // One mapping has one secret, so that the same memory always has the same handle.
    let d = w.driver;
    let offer = w
        .exports
        .offer(Memory::Mapping(base), size, || export(d, base));
    let (tag, secret) = offer?;
    Ok(msg::IpcExportReply {
        tag,
        secret,
        base,
        size,
    })
}

pub fn ipc_import(w: &mut Cuda, m: msg::IpcImport) -> Result {
    let dev = w.device(m.device)?;
    refuse_if(mapping(w, m.va).is_some(), CUDA_ERROR_INVALID_VALUE)?;
    let range = reserve(w, m.va, m.size)?;
    let (memory, charge) = taken(w, (of_range(range)?, Some(dev)), (&m.tag, &m.secret))?;
    let users = super::memory::users(w, dev);
    super::memory::map(w.driver, m.va, m.size as usize, memory, &users)?;
    note(w, m.va, m.size, dev, Some(charge));
    Ok(())
}

pub fn ipc_event_export(w: &mut Cuda, m: msg::IpcEventExport) -> Result<Encoded> {
    let mut handle: CUipcEventHandle = busbar_abi::zeroed();
    let event = w.handle(Kind::Event, m.event)? as CUevent;
    // SAFETY: a live event and a pointer to a live value.
    check(unsafe { w.cuIpcGetEventHandle(&mut handle, event) })?;
    Ok(Encoded::of(&msg::IpcEventExportReply {
        handle: busbar_abi::bytes_of(&handle),
    }))
}

pub fn ipc_event_import(w: &mut Cuda, m: msg::IpcEventImport<'_>) -> Result {
    let mut event: CUevent = std::ptr::null_mut();
    let known: Option<Vec<CUipcEventHandle>> = busbar_abi::items_from_bytes(m.handle);
    let handle = known
        .and_then(|k| k.into_iter().next())
        .ok_or(CUDA_ERROR_INVALID_VALUE)?;
    // SAFETY: a pointer to a live handle.
    check(unsafe { w.cuIpcOpenEventHandle(&mut event, handle) })?;
    w.made(&m, event as u64);
    Ok(())
}
