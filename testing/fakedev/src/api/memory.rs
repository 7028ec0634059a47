//! Allocation, host memory and questions about pointers.

use crate::engine::reach;
use crate::entry::api;
use crate::ffi::*;
use crate::state::memory::{self, Kind, Range};
use crate::state::{advice, capture, context, device, graph_memory, module, pool};
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const PITCH_UNIT: usize = 512;
const PORTABLE_MAPPED_COMBINED: u32 = 7;
const REGISTER_FLAGS: u32 = 0xf;
const IO_MEMORY: u32 = 4;
const READ_ONLY: u32 = 8;
const MAX_REGISTERED: usize = 1 << 36;
const ATTACH_GLOBAL: u32 = 1;
const ATTACH_HOST: u32 = 2;

fn free_device(address: CUdeviceptr) -> Res {
    capture::check_unsafe()?;
    if address == 0 {
        return Ok(());
    }
    let context = context::current()?;
    let range = memory::find(address).ok_or(INVALID_VALUE)?;
    let ours = |kind| {
        matches!(
            kind,
            Kind::Device | Kind::Managed | Kind::Pool | Kind::Graph
        )
    };
    if range.base != address || !ours(range.kind) {
        return Err(INVALID_VALUE);
    }
    let of_graph = match range.kind {
        Kind::Graph => Some(graph_memory::take(address)?),
        _ => None,
    };
    // Work that was handed in may still use the memory: the free waits for it, as the real one
    // does.
    let owner = context::by_handle(range.context).unwrap_or(context);
    let status = owner.drain();
    if let Some(memory) = of_graph {
        memory.open(false);
    } else if range.kind == Kind::Pool {
        pool::free(address).map_err(|_| INVALID_VALUE)?;
    } else {
        let found = memory::remove(address, |found| found.id == range.id).ok_or(INVALID_VALUE)?;
        memory::release(&found);
    }
    status
}

fn allocate_host(size: usize, flags: u32) -> R<u64> {
    let context = context::current()?;
    capture::check_unsafe()?;
    if flags & !PORTABLE_MAPPED_COMBINED != 0 {
        return Err(INVALID_VALUE);
    }
    if size == 0 {
        return Ok(0);
    }
    let base = memory::map_anonymous(size)?;
    memory::insert(
        base,
        size,
        Kind::Pinned,
        context.handle,
        context.device,
        0,
        flags,
    );
    Ok(base)
}

fn free_host(address: u64, kind: Kind, error: CUresult) -> Res {
    context::current_even_broken()?;
    capture::check_unsafe()?;
    // What is known as something else, or from another address on, is a wrong value.
    let known = memory::find(address).ok_or(error)?;
    let range = Some(known).filter(|r| r.base == address && r.kind == kind);
    let range = range.ok_or(INVALID_VALUE)?;
    if let Ok(owner) = context::by_handle(range.context) {
        let _ = owner.drain();
    }
    let found = memory::remove(address, |found| found.id == range.id).ok_or(error)?;
    memory::release(&found);
    context::current().map(drop)
}

/// Whether the current context's device may use memory.
fn is_near(range: &Range) -> bool {
    let Ok(context) = context::current() else {
        return true;
    };
    reach::is_near(range, &context)
}

/// The value of a pointer attribute, as the bytes of what the caller's pointer points to.
fn attribute(range: Option<&Arc<Range>>, address: u64, attribute: i32) -> R<Vec<u8>> {
    let word = |value: u64| Ok(value.to_ne_bytes().to_vec());
    let int = |value: i32| Ok(value.to_ne_bytes().to_vec());
    let Some(range) = range else {
        return match attribute {
            // What is asked of a pointer that the driver does not know.
            8 | 10 | 13 | 15 | 21 => int(0),
            9 => int(-2),
            14 => word(0),
            _ => Err(INVALID_VALUE),
        };
    };
    match attribute {
        1 if range.kind == Kind::Pool => word(0),
        1 => word(range.context as u64),
        2 => int(if range.is_host() {
            MEMORYTYPE_HOST
        } else {
            MEMORYTYPE_DEVICE
        } as i32),
        3 if !is_near(range) => Err(INVALID_VALUE),
        3 => word(address),
        4 if range.is_host() || range.kind == Kind::Managed => word(address),
        4 => Err(INVALID_VALUE),
        6 => int(1),
        7 => word(range.id),
        8 => int(i32::from(range.kind == Kind::Managed)),
        9 => int(range.device as i32),
        10 => int(0),
        11 | 19 => word(range.base),
        12 | 18 => word(range.size as u64),
        13 => int(1),
        14 => word(u64::from(range.kind == Kind::Mapped)),
        15 | 21 => int(0),
        16 => int(if range.open.load(Ordering::Acquire) {
            3
        } else {
            0
        }),
        17 if range.kind == Kind::Pool => word(range.owner as u64),
        17 => word(0),
        20 => word(range.id),
        _ => Err(INVALID_VALUE),
    }
}

unsafe fn store(data: *mut c_void, bytes: &[u8]) -> Res {
    if data.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: the caller's pointer is valid for the attribute's type, whose bytes these are.
    unsafe {
        data.cast::<u8>()
            .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len())
    };
    Ok(())
}

api! {
    fn [cuMemAlloc_v2] (out: *mut CUdeviceptr, size: usize) {
        let context = context::current()?;
        capture::check_unsafe()?;
        if out.is_null() {
            return Err(INVALID_VALUE);
        }
        put(out, memory::allocate(Kind::Device, size, context.handle, context.device, 0)?)
    }

    fn [cuMemAllocPitch_v2] (
        out: *mut CUdeviceptr, pitch: *mut usize, width: usize, height: usize, element: u32,
    ) {
        let context = context::current()?;
        capture::check_unsafe()?;
        if out.is_null() {
            return Err(INVALID_VALUE);
        }
        let fits = width > 0 && height > 0 && matches!(element, 4 | 8 | 16);
        let row = width.checked_next_multiple_of(PITCH_UNIT).filter(|_| fits);
        // It is told of what cannot be had, too.
        put(pitch, row.unwrap_or(0))?;
        let size = row.and_then(|row| row.checked_mul(height)).ok_or(INVALID_VALUE)?;
        put(out, memory::allocate(Kind::Device, size, context.handle, context.device, 0)?)
    }

    fn [cuMemFree_v2] (address: CUdeviceptr) {
        free_device(address)
    }

    fn [cuMemGetInfo_v2] (free: *mut usize, total: *mut usize) {
        let context = context::current()?;
        let device = device::get(context.device);
        put(free, device.free())?;
        put(total, device.memory())
    }

    fn [cuMemGetAddressRange_v2] (base: *mut CUdeviceptr, size: *mut usize, address: CUdeviceptr) {
        context::current()?;
        let range = memory::find(address).filter(|r| is_near(r)).ok_or(NOT_FOUND)?;
        put_opt(base, range.base);
        put_opt(size, range.size);
        Ok(())
    }

    fn [cuMemHostAlloc] (out: *mut u64, size: usize, flags: u32) {
        if out.is_null() {
            return Err(INVALID_VALUE);
        }
        put(out, allocate_host(size, flags)?)
    }

    fn [cuMemAllocHost_v2] (out: *mut u64, size: usize) {
        if out.is_null() {
            return Err(INVALID_VALUE);
        }
        put(out, allocate_host(size, 0)?)
    }

    fn [cuMemFreeHost] (address: u64) {
        // A context that is lost frees nothing.
        if let Ok(context) = context::current_even_broken() {
            context.status()?;
        }
        if address == 0 {
            return Ok(());
        }
        free_host(address, Kind::Pinned, INVALID_VALUE)
    }

    fn [cuMemHostRegister_v2 cuMemHostRegister] (address: u64, size: usize, flags: u32) {
        let context = context::current()?;
        capture::check_unsafe()?;
        if address == 0 || size == 0 || flags & !REGISTER_FLAGS != 0
            || size > MAX_REGISTERED || !memory::exists(address, size)
        {
            return Err(INVALID_VALUE);
        }
        if flags & IO_MEMORY != 0 {
            // SAFETY: no arguments.
            return Err(if unsafe { libc::geteuid() } == 0 { INVALID_VALUE } else { NOT_PERMITTED });
        }
        let known = memory::overlapping(address, size);
        if known.iter().any(|r| r.kind == Kind::Pinned && r.base <= address) {
            return Err(INVALID_VALUE);
        }
        if !known.is_empty() {
            return Err(HOST_MEMORY_ALREADY_REGISTERED);
        }
        // The driver locks pages for writing.
        if flags & READ_ONLY == 0 && !memory::writable(address, size) {
            return Err(INVALID_VALUE);
        }
        memory::insert(address, size, Kind::Registered, context.handle, context.device, 0, flags);
        Ok(())
    }

    fn [cuMemHostUnregister] (address: u64) {
        free_host(address, Kind::Registered, HOST_MEMORY_NOT_REGISTERED)
    }

    fn [cuMemHostGetDevicePointer_v2] (out: *mut CUdeviceptr, address: u64, flags: u32) {
        context::current()?;
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        memory::find(address).filter(|range| range.is_host()).ok_or(INVALID_VALUE)?;
        put(out, address)
    }

    fn [cuMemHostGetFlags] (out: *mut u32, address: u64) {
        context::current()?;
        let range = memory::find(address).ok_or(INVALID_VALUE)?;
        let told = match range.kind {
            Kind::Pinned => range.flags,
            // Whether it is portable.
            Kind::Registered => range.flags & 1,
            _ => return Err(INVALID_VALUE),
        };
        // Mapped is always set: every device here shares the host's addresses.
        put(out, told | 2)
    }

    // Only that of a tensor map which is needed for it to have another address.
    fn [cuTensorMapReplaceAddress] (map: *mut [u64; 16], address: u64) {
        context::current()?;
        let mut words = get(map)?;
        words[0] = address;
        put(map, words)
    }

    fn [cuMemAllocManaged] (out: *mut CUdeviceptr, size: usize, flags: u32) {
        let context = context::current()?;
        capture::check_unsafe()?;
        if out.is_null() || size == 0 || !matches!(flags, ATTACH_GLOBAL | ATTACH_HOST) {
            return Err(INVALID_VALUE);
        }
        let base = memory::map_anonymous(size)?;
        memory::insert(base, size, Kind::Managed, context.handle, context.device, 0, flags);
        put(out, base)
    }

    fn [cuMemAdvise] (address: CUdeviceptr, size: usize, advice: i32, device: i32) {
        context::current()?;
        capture::check_unsafe()?;
        managed(address, size, advice, advice::place(device))
    }

    fn [cuMemAdvise_v2] (address: CUdeviceptr, size: usize, advice: i32, place: Location) {
        context::current()?;
        capture::check_unsafe()?;
        managed(address, size, advice, place)
    }

    fn [cuMemRangeGetAttribute] (
        data: *mut i32, size: usize, which: i32, address: CUdeviceptr, count: usize,
    ) {
        advised(data, size, which, (address, count))
    }

    fn [cuMemRangeGetAttributes] (
        data: *const *mut i32, sizes: *const usize, which: *const i32, n: usize,
        address: CUdeviceptr, count: usize,
    ) {
        if n == 0 {
            return Err(INVALID_VALUE);
        }
        let (data, sizes) = (list(data, n)?, list(sizes, n)?);
        for (i, which) in list(which, n)?.into_iter().enumerate() {
            advised(data[i], sizes[i], which, (address, count))?;
        }
        Ok(())
    }

    fn [cuPointerGetAttribute] (data: *mut c_void, which: i32, address: CUdeviceptr) {
        device::initialized()?;
        // A driver knows of a graph's memory while that is allocated.
        let there = |r: &Arc<Range>| r.kind != Kind::Graph || r.open.load(Ordering::Acquire);
        let range = memory::find(address).filter(there).ok_or(INVALID_VALUE)?;
        store(data, &attribute(Some(&range), address, which)?)
    }

    fn [cuPointerGetAttributes] (
        n: u32, which: *const i32, data: *const *mut c_void, address: CUdeviceptr,
    ) {
        device::initialized()?;
        let range = memory::find(address);
        let data = list(data, n as usize)?;
        for (which, data) in list(which, n as usize)?.into_iter().zip(data) {
            if which == 2 && range.is_none() {
                store(data, &0_i32.to_ne_bytes())?;
                continue;
            }
            // Memory that CUDA does not know is the host's.
            if which == 4 && range.is_none() {
                store(data, &address.to_ne_bytes())?;
                continue;
            }
            match attribute(range.as_ref(), address, which) {
                Ok(bytes) => store(data, &bytes)?,
                // Not an error here: what does not apply to the pointer reads as zero.
                Err(_) if (1..=21).contains(&which) && which != 5 => store(data, &[0; 8])?,
                Err(code) => return Err(code),
            }
        }
        Ok(())
    }

    fn [cuPointerSetAttribute] (value: *const c_void, which: i32, address: CUdeviceptr) {
        context::current()?;
        memory::find(address).ok_or(INVALID_VALUE)?;
        // Synchronous memory operations: ours always are towards one range.
        if which == 6 && !value.is_null() { Ok(()) } else { Err(INVALID_VALUE) }
    }

    fn [cuDeviceCanAccessPeer] (out: *mut i32, device: CUdevice, peer: CUdevice) {
        device::by_ordinal(device)?;
        device::by_ordinal(peer)?;
        put(out, i32::from(device != peer))
    }

    fn [cuCtxEnablePeerAccess] (peer: CUcontext, flags: u32) {
        let context = context::current()?;
        let peer = context::by_handle(peer)?;
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        if peer.device == context.device {
            return Err(INVALID_DEVICE);
        }
        if context.peers.lock().unwrap().insert(peer.handle) {
            Ok(())
        } else {
            Err(PEER_ACCESS_ALREADY_ENABLED)
        }
    }

    fn [cuCtxDisablePeerAccess] (peer: CUcontext) {
        let context = context::current()?;
        context::by_handle(peer)?;
        if context.peers.lock().unwrap().remove(&peer) {
            Ok(())
        } else {
            Err(PEER_ACCESS_NOT_ENABLED)
        }
    }

    fn [cuModuleGetLoadingMode] (out: *mut i32) {
        device::initialized()?;
        put(out, module::loading_mode())
    }
}

/// Whether all of a range is in one piece of managed memory.
fn is_managed(address: CUdeviceptr, size: usize) -> Res {
    let range = memory::find(address).filter(|range| range.kind == Kind::Managed);
    let end = address.checked_add(size as u64).ok_or(INVALID_VALUE)?;
    if size == 0 || end > range.ok_or(INVALID_VALUE)?.end() {
        return Err(INVALID_VALUE);
    }
    Ok(())
}

fn managed(address: CUdeviceptr, size: usize, advice: i32, place: Location) -> Res {
    is_managed(address, size)?;
    advice::advise((address, size), advice, place)
}

/// Writes an attribute of a range of managed memory.
fn advised(data: *mut i32, size: usize, which: i32, range: (CUdeviceptr, usize)) -> Res {
    is_managed(range.0, range.1)?;
    let room = size / size_of::<i32>();
    if data.is_null() || room == 0 || which != advice::ACCESSED_BY && room != 1 {
        return Err(INVALID_VALUE);
    }
    for (i, v) in advice::attribute(which, room, range)?
        .into_iter()
        .enumerate()
    {
        // SAFETY: not null, and valid for so many by the caller's contract.
        unsafe { put(data.add(i), v)? };
    }
    Ok(())
}
