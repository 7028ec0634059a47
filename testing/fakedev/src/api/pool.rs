//! The functions on memory pools.

use crate::engine::submit;
use crate::entry::api;
use crate::ffi::*;
use crate::state::graph_memory::{self, GraphMemory};
use crate::state::memory::{self, Kind};
use crate::state::pool::{self, Pool, RELEASE_THRESHOLD, by_handle};
use crate::state::stream::Flavour;
use crate::state::work::Work;
use crate::state::{advice, capture, context, device};
use std::ffi::c_void;
use std::os::fd::{BorrowedFd, IntoRawFd};
use std::sync::atomic::Ordering;

const DESCRIPTOR: i32 = 1;

fn allocate(
    out: *mut CUdeviceptr,
    size: usize,
    pool: Option<CUmemoryPool>,
    stream: CUstream,
    flavour: Flavour,
) -> Res {
    let (stream, context) = submit::resolve(stream, flavour)?;
    if out.is_null() {
        return Err(INVALID_VALUE);
    }
    if size == 0 {
        // As NVIDIA's driver has it: no bytes are no error, and at address 0.
        // SAFETY: not null, and valid by the caller's contract.
        return unsafe { put(out, 0) };
    }
    let pool = by_handle(pool.unwrap_or_else(|| pool::current_of(context.device)))?;
    if capture::is_member(&stream) {
        let memory = GraphMemory::captured(size, &context)?;
        let address = memory.address();
        submit::submit_to(&stream, &context, Work::Allocate(memory))?;
        // SAFETY: not null, and valid by the caller's contract.
        return unsafe { put(out, address) };
    }
    if stream.is_legacy() {
        capture::refuse_implicit(&context.order.lock().unwrap())?;
    }
    capture::check_unsafe()?;
    // SAFETY: not null, and valid by the caller's contract.
    unsafe { put(out, pool.allocate(size, context.handle)?) }
}

fn located(location: *const Location) -> R<usize> {
    // SAFETY: the caller's pointer is null or valid, as its header says.
    let location = unsafe { get(location)? };
    if location.kind != LOCATION_DEVICE {
        return Err(NOT_SUPPORTED);
    }
    device::by_ordinal(location.id)
}

api! {
    fn [cuMemAllocAsync; cuMemAllocAsync_ptsz] (
        out: *mut CUdeviceptr, size: usize, stream: CUstream,
    ) {
        allocate(out, size, None, stream, FLAVOUR)
    }

    fn [cuMemAllocFromPoolAsync; cuMemAllocFromPoolAsync_ptsz] (
        out: *mut CUdeviceptr, size: usize, pool: CUmemoryPool, stream: CUstream,
    ) {
        allocate(out, size, Some(pool), stream, FLAVOUR)
    }

    fn [cuMemFreeAsync; cuMemFreeAsync_ptsz] (address: CUdeviceptr, stream: CUstream) {
        let (stream, context) = submit::resolve(stream, FLAVOUR)?;
        if address == 0 {
            return Ok(());
        }
        if !capture::is_member(&stream) {
            capture::check_unsafe()?;
        }
        let range = memory::find(address).filter(|range| range.base == address);
        let range = range.ok_or(INVALID_VALUE)?;
        match range.kind {
            Kind::Graph => {
                let memory = match capture::of(&stream)? {
                    Some(_) => graph_memory::find(address)?,
                    None => graph_memory::take(address)?,
                };
                submit::submit_to(&stream, &context, Work::Free(memory))
            }
            Kind::Pool if range.going.swap(true, Ordering::AcqRel) => Err(INVALID_VALUE),
            Kind::Pool => submit::submit_to(&stream, &context, Work::FreeAsync(address))
                .inspect(|_| pool::not_used(&range))
                .inspect_err(|_| range.going.store(false, Ordering::Release)),
            _ => Err(INVALID_VALUE),
        }
    }

    fn [cuMemPoolCreate] (out: *mut CUmemoryPool, props: *const PoolProps) {
        device::initialized()?;
        capture::check_unsafe()?;
        let props = get(props)?;
        if out.is_null() || props.alloc_type != 1 {
            return Err(INVALID_VALUE);
        }
        if props.handle_types & !DESCRIPTOR != 0 {
            return Err(NOT_SUPPORTED);
        }
        let shared = props.handle_types & DESCRIPTOR != 0;
        let host = match props.location.kind {
            LOCATION_DEVICE => false,
            LOCATION_HOST if !shared => true,
            LOCATION_HOST_NUMA if props.location.id == 0 => true,
            _ => return Err(INVALID_VALUE),
        };
        let device = if host { 0 } else { located(&props.location)? };
        let file = shared.then(|| pool::file(device)).transpose()?;
        let of = (host, false, file);
        put(out, Pool::with(device, false, props.max_size, of).handle)
    }

    fn [cuMemPoolExportToShareableHandle] (
        out: *mut i32, pool: CUmemoryPool, kind: i32, flags: u64,
    ) {
        let pool = by_handle(pool)?;
        let right = !pool.imported && kind == DESCRIPTOR && flags == 0;
        let file = pool.file.as_ref().filter(|_| right);
        if out.is_null() {
            return Err(INVALID_VALUE);
        }
        let file = file.ok_or(INVALID_VALUE)?.try_clone().map_err(|_| OPERATING_SYSTEM)?;
        put(out, file.into_raw_fd())
    }

    fn [cuMemPoolImportFromShareableHandle] (
        out: *mut CUmemoryPool, handle: usize, kind: i32, flags: u64,
    ) {
        device::initialized()?;
        if out.is_null() || kind != DESCRIPTOR || flags != 0 || (handle as i32) < 0 {
            return Err(INVALID_VALUE);
        }
        let mut about: libc::stat = std::mem::zeroed();
        let known = libc::fstat(handle as i32, &mut about) == 0;
        let device = pool::device_of(about.st_size as u64).filter(|_| known).ok_or(UNKNOWN)?;
        let file = BorrowedFd::borrow_raw(handle as i32);
        let file = file.try_clone_to_owned().map_err(|_| OPERATING_SYSTEM)?;
        put(out, Pool::with(device, false, 0, (false, true, Some(file))).handle)
    }

    fn [cuMemPoolExportPointer] (out: *mut [u64; 8], address: CUdeviceptr) {
        let range = memory::find(address).filter(|r| r.kind == Kind::Pool && r.base == address);
        let range = range.ok_or(INVALID_VALUE)?;
        let pool = by_handle(range.owner)?;
        let place = pool.state.lock().unwrap().places.get(&address).copied();
        put(out, [place.ok_or(INVALID_VALUE)?, range.size as u64, 0, 0, 0, 0, 0, 0])
    }

    fn [cuMemPoolImportPointer] (
        out: *mut CUdeviceptr, pool: CUmemoryPool, data: *const [u64; 8],
    ) {
        let pool = by_handle(pool)?;
        let [place, size, ..] = get(data)?;
        if out.is_null() || !pool.imported || size == 0 || place.checked_add(size).is_none() {
            return Err(INVALID_VALUE);
        }
        let (size, of) = (size as usize, pool.handle);
        let address = memory::allocate(Kind::Pool, size, 0, pool.device, of)?;
        pool.map(address, place, size)?;
        put(out, address)
    }

    fn [cuMemPoolDestroy] (pool: CUmemoryPool) {
        capture::check_unsafe()?;
        if by_handle(pool)?.default {
            return Err(INVALID_VALUE);
        }
        pool::destroy(pool)
    }

    fn [cuMemPoolTrimTo] (pool: CUmemoryPool, keep: usize) {
        capture::check_unsafe()?;
        by_handle(pool)?.state.lock().unwrap().trim(keep as u64);
        Ok(())
    }

    fn [cuMemPoolSetAttribute] (pool: CUmemoryPool, which: i32, value: *const c_void) {
        let pool = by_handle(pool)?;
        let value = match which {
            1..=3 => get(value.cast::<i32>())? as u64,
            RELEASE_THRESHOLD => get(value.cast::<u64>())?,
            6 | 8 => {
                // A high-water mark can only be set back.
                if get(value.cast::<u64>())? != 0 {
                    return Err(INVALID_VALUE);
                }
                let mut state = pool.state.lock().unwrap();
                match which {
                    6 => state.reserved_high = state.reserved,
                    _ => state.high = state.used,
                }
                return Ok(());
            }
            _ => return Err(INVALID_VALUE),
        };
        pool.state.lock().unwrap().settings.insert(which, value);
        Ok(())
    }

    fn [cuMemPoolGetAttribute] (pool: CUmemoryPool, which: i32, value: *mut c_void) {
        let pool = by_handle(pool)?;
        if pool.imported {
            return Err(INVALID_VALUE);
        }
        let state = pool.state.lock().unwrap();
        match which {
            1..=3 => put(value.cast(), state.settings.get(&which).map_or(1, |v| *v as i32)),
            RELEASE_THRESHOLD => {
                put(value.cast(), state.settings.get(&which).copied().unwrap_or(0))
            }
            5 => put(value.cast(), state.reserved),
            6 => put(value.cast(), state.reserved_high),
            7 => put(value.cast(), state.used),
            8 => put(value.cast(), state.high),
            _ => Err(INVALID_VALUE),
        }
    }

    fn [cuMemPoolSetAccess] (pool: CUmemoryPool, descs: *const AccessDesc, count: usize) {
        let pool = by_handle(pool)?;
        for desc in list(descs, count)? {
            if desc.location.kind == LOCATION_DEVICE {
                let device = located(&desc.location)?;
                let key = pool::ACCESS + device as i32;
                pool.state.lock().unwrap().settings.insert(key, desc.flags as u64);
            }
        }
        Ok(())
    }

    fn [cuMemPoolGetAccess] (out: *mut i32, pool: CUmemoryPool, location: *const Location) {
        let pool = by_handle(pool)?;
        if !pool.host && located(location)? == pool.device {
            return put(out, 3);
        }
        // The host's is the host's own, until devices are let in.
        let flags = match get(location)?.kind {
            LOCATION_DEVICE => {
                let key = pool::ACCESS + located(location)? as i32;
                pool.state.lock().unwrap().settings.get(&key).map_or(0, |f| *f as i32)
            }
            _ => 3,
        };
        put(out, flags)
    }

    fn [cuDeviceGetDefaultMemPool] (out: *mut CUmemoryPool, device: CUdevice) {
        put(out, pool::default_of(device::by_ordinal(device)?))
    }

    fn [cuDeviceGetMemPool] (out: *mut CUmemoryPool, device: CUdevice) {
        put(out, pool::current_of(device::by_ordinal(device)?))
    }

    fn [cuDeviceSetMemPool] (device: CUdevice, pool: CUmemoryPool) {
        let device = device::by_ordinal(device)?;
        let known = by_handle(pool)?;
        if known.host || known.device != device {
            return Err(INVALID_VALUE);
        }
        device::get(device).pool.store(pool, Ordering::Release);
        Ok(())
    }

    fn [cuMemGetDefaultMemPool] (out: *mut CUmemoryPool, location: *const Location, kind: i32) {
        device::initialized()?;
        if kind != 1 {
            return Err(NOT_SUPPORTED);
        }
        if get(location)?.kind == LOCATION_HOST {
            return put(out, pool::of_host());
        }
        put(out, pool::default_of(located(location)?))
    }

    fn [cuMemGetMemPool] (out: *mut CUmemoryPool, location: *const Location, kind: i32) {
        device::initialized()?;
        if kind != 1 {
            return Err(NOT_SUPPORTED);
        }
        put(out, pool::current_of(located(location)?))
    }

    fn [cuMemSetMemPool] (location: *const Location, kind: i32, pool: CUmemoryPool) {
        let device = located(location)?;
        if kind != 1 || by_handle(pool)?.device != device {
            return Err(INVALID_VALUE);
        }
        device::get(device).pool.store(pool, Ordering::Release);
        Ok(())
    }

    fn [cuMemPrefetchAsync; cuMemPrefetchAsync_ptsz] (
        address: CUdeviceptr, size: usize, device: CUdevice, stream: CUstream,
    ) {
        prefetch((address, size), advice::place(device), stream, FLAVOUR)
    }

    fn [cuMemPrefetchAsync_v2; cuMemPrefetchAsync_v2_ptsz] (
        address: CUdeviceptr, size: usize, place: Location, _flags: u32, stream: CUstream,
    ) {
        prefetch((address, size), place, stream, FLAVOUR)
    }

    fn [cuStreamAttachMemAsync; cuStreamAttachMemAsync_ptsz] (
        stream: CUstream, address: CUdeviceptr, _size: usize, flags: u32,
    ) {
        context::current()?;
        let managed = memory::find(address).is_some_and(|range| range.kind == Kind::Managed);
        if !managed || !matches!(flags, 1 | 2 | 4) {
            return Err(INVALID_VALUE);
        }
        capture::refuse(&submit::resolve(stream, FLAVOUR)?.0)?;
        submit::submit(stream, FLAVOUR, Work::Empty)
    }
}

fn prefetch(range: (u64, usize), place: Location, stream: CUstream, flavour: Flavour) -> Res {
    let (address, size) = range;
    let managed = memory::find(address).filter(|range| range.kind == Kind::Managed);
    let end = address.checked_add(size as u64).ok_or(INVALID_VALUE)?;
    if size == 0 || end > managed.ok_or(INVALID_VALUE)?.end() {
        return Err(INVALID_VALUE);
    }
    capture::refuse(&submit::resolve(stream, flavour)?.0)?;
    submit::submit(stream, flavour, Work::Empty)?;
    advice::prefetched(range, place);
    Ok(())
}
