//! Memory and events that the workers of one server share.
//!
//! A worker that exports memory listens on a socket of the abstract namespace. Whoever connects
//! says a secret, which only the exporting client has been told, and gets the memory's file
//! descriptor. Of an event it gets the driver's own name: a client that said that itself could say
//! any bytes.

use super::memory::{mapping, note, reserve};
use super::prelude::*;
use super::state::exports::{Memory, OF_EVENT, Secret, fetch};
use super::state::mapped::of_range;
use crate::memory::Charge;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

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
    on: On,
    (tag, secret): (&[u8; 8], &Secret),
) -> Result<(CUmemGenericAllocationHandle, Charge)> {
    let (file, bytes) = fetch(tag, secret)?;
    refuse_if(bytes == OF_EVENT, CUDA_ERROR_INVALID_VALUE)?;
    let charge = w.charge(Use::Imported, on, bytes)?;
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
    of_range(reserve(w, m.va, m.size)?)?;
    let (memory, charge) = taken(w, Some(dev), (&m.tag, &m.secret))?;
    let users = super::memory::users(w, dev);
    super::memory::map(w.driver, m.va, m.size as usize, memory, &users)?;
    note(w, m.va, m.size, dev, Some(charge));
    Ok(())
}

/// A file with the driver's name of an event.
fn written(handle: &CUipcEventHandle) -> std::io::Result<OwnedFd> {
    // SAFETY: a C string; the descriptor that comes is ours.
    let mut file = unsafe {
        let fd = libc::memfd_create(c"busbar-event".as_ptr(), libc::MFD_CLOEXEC);
        if fd < 0 {
            return Err(std::io::Error::last_os_error());
        }
        File::from_raw_fd(fd)
    };
    file.write_all(busbar_abi::bytes_of(handle))?;
    Ok(file.into())
}

pub fn ipc_event_export(w: &mut Cuda, m: msg::IpcEventExport) -> Result<Encoded> {
    let mut handle: CUipcEventHandle = busbar_abi::zeroed();
    let event = w.handle(Kind::Event, m.event)? as CUevent;
    // SAFETY: a live event and a pointer to a live value.
    check(unsafe { w.cuIpcGetEventHandle(&mut handle, event) })?;
    let open = || written(&handle).map_err(|_| CUDA_ERROR_OPERATING_SYSTEM);
    let (tag, secret) = w.exports.offer(Memory::Event(m.event), OF_EVENT, open)?;
    let mut told = [0; size_of::<CUipcEventHandle>()];
    told[..TAG].copy_from_slice(&tag);
    told[TAG..TAG + SECRET].copy_from_slice(&secret);
    Ok(Encoded::of(&msg::IpcEventExportReply { handle: &told }))
}

/// What a program has for an event begins with who offers it, and the secret for it.
const TAG: usize = 8;
const SECRET: usize = size_of::<Secret>();

pub fn ipc_event_import(w: &mut Cuda, m: msg::IpcEventImport<'_>) -> Result {
    let (tag, rest) = m
        .handle
        .split_first_chunk::<TAG>()
        .ok_or(CUDA_ERROR_INVALID_VALUE)?;
    let secret = rest
        .first_chunk::<SECRET>()
        .ok_or(CUDA_ERROR_INVALID_VALUE)?;
    let (file, of) = fetch(tag, secret)?;
    refuse_if(of != OF_EVENT, CUDA_ERROR_INVALID_VALUE)?;
    let mut bytes = [0; size_of::<CUipcEventHandle>()];
    let read = File::from(file).read_exact_at(&mut bytes, 0);
    read.map_err(|_| CUDA_ERROR_INVALID_VALUE)?;
    let known: Option<Vec<CUipcEventHandle>> = busbar_abi::items_from_bytes(&bytes);
    let handle = known
        .and_then(|k| k.into_iter().next())
        .ok_or(CUDA_ERROR_INVALID_VALUE)?;
    let mut event: CUevent = std::ptr::null_mut();
    // SAFETY: a pointer to a live handle.
    check(unsafe { w.cuIpcOpenEventHandle(&mut event, handle) })?;
    w.made(&m, event as u64);
    Ok(())
}
