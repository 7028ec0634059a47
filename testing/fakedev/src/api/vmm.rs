//! The functions of virtual memory management.

use crate::entry::api;
use crate::ffi::*;
use crate::state::context::{self, CONTEXTS};
use crate::state::device;
use crate::state::memory::{self, Kind, Range};
use crate::state::vmm::*;
use std::ffi::c_void;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::sync::atomic::Ordering;

const HANDLE_TYPE_FD: i32 = 1;
const ACCESS_READ: i32 = 1;
const ACCESS_READ_WRITE: i32 = 3;

fn checked_prop(prop: *const AllocationProp) -> R<AllocationProp> {
    // SAFETY: the caller's pointer is null or valid, as its header says.
    let prop = unsafe { get(prop)? };
    let known = match prop.location.kind {
        LOCATION_DEVICE => device::by_ordinal(prop.location.id).map(|_| true)?,
        LOCATION_HOST => prop.handle_types == 0,
        // There is one node.
        LOCATION_HOST_NUMA => prop.location.id == 0,
        _ => false,
    };
    if prop.kind != 1 || !known {
        return Err(INVALID_VALUE);
    }
    Ok(prop)
}

fn aligned(values: &[u64]) -> bool {
    values.iter().all(|value| value % GRANULARITY as u64 == 0)
}

fn duplicate(fd: BorrowedFd<'_>) -> R<OwnedFd> {
    fd.try_clone_to_owned().map_err(|_| OPERATING_SYSTEM)
}

/// Whether a descriptor stands for host memory: its file's name says so.
fn is_of_host(fd: usize) -> bool {
    let name = std::fs::read_link(format!("/proc/self/fd/{fd}"));
    name.is_ok_and(|name| {
        name.to_string_lossy()
            .contains(OF_HOST.to_str().unwrap_or_default())
    })
}

const OF_HOST: &std::ffi::CStr = c"fakedev-host";

api! {
    fn [cuMemGetAllocationGranularity] (out: *mut usize, prop: *const AllocationProp, option: i32) {
        device::initialized()?;
        checked_prop(prop)?;
        if !(0..=1).contains(&option) {
            return Err(INVALID_VALUE);
        }
        put(out, GRANULARITY)
    }

    fn [cuMemAddressReserve] (
        out: *mut CUdeviceptr, size: usize, align: usize, hint: CUdeviceptr, flags: u64,
    ) {
        device::initialized()?;
        let bad_align = align != 0 && !align.is_power_of_two();
        if out.is_null() || size == 0 || bad_align || flags != 0 || !aligned(&[size as u64]) {
            return Err(INVALID_VALUE);
        }
        let base = map_closed(size, align.max(GRANULARITY), hint)?;
        RESERVED.lock().unwrap().insert(base, size);
        put(out, base)
    }

    fn [cuMemAddressFree] (address: CUdeviceptr, size: usize) {
        device::initialized()?;
        let mut reserved = RESERVED.lock().unwrap();
        if reserved.get(&address) != Some(&size) || !memory::overlapping(address, size).is_empty() {
            return Err(INVALID_VALUE);
        }
        reserved.remove(&address);
        memory::unmap(address, size);
        Ok(())
    }

    fn [cuMemCreate] (out: *mut CUmemHandle, size: usize, prop: *const AllocationProp, flags: u64) {
        device::initialized()?;
        let prop = checked_prop(prop)?;
        if out.is_null() || size == 0 || flags != 0 || !aligned(&[size as u64]) {
            return Err(INVALID_VALUE);
        }
        let on_device = prop.location.kind == LOCATION_DEVICE;
        let charge = if on_device { size } else { 0 };
        let device = device::get(if on_device { prop.location.id as usize } else { 0 });
        device.charge(charge)?;
        let name = if on_device { c"fakedev" } else { OF_HOST };
        let file = libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC);
        if file < 0 {
            device.refund(charge);
            return Err(OPERATING_SYSTEM);
        }
        let file = OwnedFd::from_raw_fd(file);
        if libc::ftruncate(file.as_raw_fd(), size as libc::off_t) != 0 {
            device.refund(charge);
            return Err(OUT_OF_MEMORY);
        }
        put(out, enter(file, size, prop, charge) as CUmemHandle)
    }

    fn [cuMemRelease] (handle: CUmemHandle) {
        device::initialized()?;
        let allocation = CREATED.get(handle as usize).map_err(|_| INVALID_VALUE)?;
        let one_less = |n: usize| n.checked_sub(1);
        let (order, fetch) = (Ordering::AcqRel, Ordering::Acquire);
        if allocation.handles.fetch_update(order, fetch, one_less).is_err() {
            return Err(INVALID_VALUE);
        }
        drop_reference(handle as usize, &allocation);
        Ok(())
    }

    fn [cuMemMap] (
        address: CUdeviceptr, size: usize, offset: usize, handle: CUmemHandle, flags: u64,
    ) {
        device::initialized()?;
        let allocation = CREATED.get(handle as usize).map_err(|_| INVALID_VALUE)?;
        let fits = offset.checked_add(size).is_some_and(|end| end <= allocation.size);
        if size == 0 || flags != 0 || !fits
            || !aligned(&[address, size as u64, offset as u64])
            || !inside_reservation(address, size)
            || !memory::overlapping(address, size).is_empty()
        {
            return Err(INVALID_VALUE);
        }
        // As a whole, or not at all.
        if offset != 0 || size != allocation.size {
            return Err(NOT_SUPPORTED);
        }
        let p = libc::mmap(
            address as *mut c_void,
            size,
            libc::PROT_NONE,
            libc::MAP_SHARED | libc::MAP_FIXED | libc::MAP_NORESERVE,
            allocation.file.as_raw_fd(),
            offset as libc::off_t,
        );
        if p == libc::MAP_FAILED {
            return Err(OUT_OF_MEMORY);
        }
        allocation.references.fetch_add(1, Ordering::AcqRel);
        let device = allocation.device();
        let flags = if allocation.is_host() { memory::OF_HOST } else { 0 };
        memory::insert(address, size, Kind::Mapped, 0, device, handle as usize, flags);
        Ok(())
    }

    fn [cuMemUnmap] (address: CUdeviceptr, size: usize) {
        device::initialized()?;
        let ranges = memory::overlapping(address, size);
        // What is not mapped need not be unmapped, but no mapping can be cut.
        let end = address.saturating_add(size as u64);
        let whole = |r: &Range| {
            r.kind == Kind::Mapped && r.base >= address && r.base + r.size as u64 <= end
        };
        if size == 0 || !inside_reservation(address, size) || !ranges.iter().all(|r| whole(r)) {
            return Err(INVALID_VALUE);
        }
        // Work that still uses the memory comes first: unlike a device, we would crash under it.
        for context in CONTEXTS.all() {
            let _ = context.synchronize();
        }
        for range in ranges {
            let same = memory::remove(range.base, |found| found.id == range.id);
            let range = same.ok_or(INVALID_VALUE)?;
            close_mapping(range.base, range.size)?;
            if let Ok(allocation) = CREATED.get(range.owner) {
                drop_reference(range.owner, &allocation);
            }
        }
        Ok(())
    }

    fn [cuMemSetAccess] (
        address: CUdeviceptr, size: usize, descs: *const AccessDesc, count: usize,
    ) {
        device::initialized()?;
        let ranges = memory::overlapping(address, size);
        let covered = ranges.iter().map(|range| range.size).sum::<usize>();
        if size == 0 || count == 0 || covered < size
            || ranges.iter().any(|range| range.kind != Kind::Mapped)
        {
            return Err(INVALID_VALUE);
        }
        let mut access = 0;
        for desc in list(descs, count)? {
            if !matches!(desc.flags, 0 | ACCESS_READ | ACCESS_READ_WRITE) {
                return Err(INVALID_VALUE);
            }
            if desc.location.kind == LOCATION_DEVICE {
                device::by_ordinal(desc.location.id).map_err(|_| INVALID_VALUE)?;
            } else if !ranges.iter().all(|range| range.is_host()) {
                return Err(NOT_SUPPORTED);
            }
            access = access.max(desc.flags);
        }
        let by_device = |desc: &&AccessDesc| desc.location.kind == LOCATION_DEVICE;
        for range in ranges {
            let mut users = range.users.lock().unwrap();
            for desc in list(descs, count)?.iter().filter(by_device) {
                users.insert(desc.location.id as usize, desc.flags);
            }
            let open = match range.is_host() {
                true => access != 0,
                false => users.values().any(|flags| *flags != 0),
            };
            drop(users);
            let rights = if open { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_NONE };
            if libc::mprotect(range.base as *mut c_void, range.size, rights) != 0 {
                return Err(OPERATING_SYSTEM);
            }
            range.open.store(open, Ordering::Release);
        }
        Ok(())
    }

    fn [cuMemGetAccess] (flags: *mut u64, location: *const Location, address: CUdeviceptr) {
        device::initialized()?;
        get(location)?;
        // Said before it is known whether anything is mapped, as the driver does.
        put(flags, 0)?;
        let range = memory::find(address).filter(|range| range.kind == Kind::Mapped);
        let range = range.ok_or(INVALID_VALUE)?;
        if range.is_host() {
            return put(flags, if range.open.load(Ordering::Acquire) { 3 } else { 0 });
        }
        let by = get(location)?.id as usize;
        let own = range.users.lock().unwrap().get(&by).copied();
        put(flags, own.unwrap_or(0) as u64)
    }

    fn [cuMemRetainAllocationHandle] (out: *mut CUmemHandle, address: u64) {
        device::initialized()?;
        let range = memory::find(address).filter(|range| range.kind == Kind::Mapped);
        let handle = range.ok_or(INVALID_VALUE)?.owner;
        let allocation = CREATED.get(handle).map_err(|_| INVALID_VALUE)?;
        put(out, handle as CUmemHandle)?;
        allocation.references.fetch_add(1, Ordering::AcqRel);
        allocation.handles.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    fn [cuMemGetAllocationPropertiesFromHandle] (out: *mut AllocationProp, handle: CUmemHandle) {
        device::initialized()?;
        let allocation = CREATED.get(handle as usize).map_err(|_| INVALID_VALUE)?;
        put(out, allocation.prop)
    }

    fn [cuMemExportToShareableHandle] (
        out: *mut i32, handle: CUmemHandle, kind: i32, flags: u64,
    ) {
        device::initialized()?;
        let allocation = CREATED.get(handle as usize).map_err(|_| INVALID_VALUE)?;
        if out.is_null() || flags != 0 || kind != HANDLE_TYPE_FD
            || allocation.prop.handle_types & HANDLE_TYPE_FD == 0
        {
            return Err(INVALID_VALUE);
        }
        let file = duplicate(std::os::fd::AsFd::as_fd(&allocation.file))?;
        put(out, file.into_raw_fd())
    }

    fn [cuMemImportFromShareableHandle] (out: *mut CUmemHandle, os_handle: usize, kind: i32) {
        device::initialized()?;
        if kind != HANDLE_TYPE_FD || os_handle as i32 <= 0 {
            return Err(INVALID_VALUE);
        }
        let mut about: libc::stat = std::mem::zeroed();
        if libc::fstat(os_handle as i32, &mut about) != 0 || about.st_size <= 0 {
            return Err(INVALID_VALUE);
        }
        let file = duplicate(BorrowedFd::borrow_raw(os_handle as i32))?;
        let (handle_types, location) = match is_of_host(os_handle) {
            // An H200 says that it cannot be given on.
            true => (0, Location { kind: LOCATION_HOST_NUMA, id: 0 }),
            false => {
                let (kind, id) = (LOCATION_DEVICE, context::device_of_current());
                (HANDLE_TYPE_FD, Location { kind, id })
            }
        };
        let prop = AllocationProp { kind: 1, handle_types, location, ..AllocationProp::default() };
        put(out, enter(file, about.st_size as usize, prop, 0) as CUmemHandle)
    }
}
