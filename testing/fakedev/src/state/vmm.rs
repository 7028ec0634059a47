//! Virtual memory management: addresses and memory, reserved and created apart, and mapped.

use super::device;
use super::handle::{self, Table};
use super::memory;
use crate::ffi::*;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// The only granularity.
pub const GRANULARITY: usize = 2 << 20;

/// Reserved ranges of addresses and their sizes.
pub static RESERVED: Mutex<BTreeMap<u64, usize>> = Mutex::new(BTreeMap::new());
/// All allocations, by handle.
pub static CREATED: Table<Allocation> = Table::new();

/// Forgets all reservations and allocations.
pub fn reset() {
    let reserved = std::mem::take(&mut *RESERVED.lock().unwrap());
    for (base, size) in reserved {
        memory::unmap(base, size);
    }
    CREATED.clear();
}

/// Memory without an address.
pub struct Allocation {
    /// The memory, which can be mapped.
    pub file: OwnedFd,
    /// Its size.
    pub size: usize,
    /// What it was made with.
    pub prop: AllocationProp,
    /// What the device was charged: nothing for memory that came from elsewhere.
    charge: usize,
    /// The handle's own references and one for each mapping.
    pub references: AtomicUsize,
    /// The handle's own references.
    pub handles: AtomicUsize,
}

impl Allocation {
    /// Whether it is host memory.
    pub fn is_host(&self) -> bool {
        self.prop.location.kind != LOCATION_DEVICE
    }

    /// The device that it is on, or the first.
    pub fn device(&self) -> usize {
        match self.is_host() {
            true => 0,
            false => self.prop.location.id.max(0) as usize,
        }
    }
}

/// Takes a reference away; an allocation without any ends.
pub fn drop_reference(handle: usize, allocation: &Allocation) {
    if allocation.references.fetch_sub(1, Ordering::AcqRel) == 1 {
        let _ = CREATED.remove(handle);
        if allocation.charge != 0 {
            device::get(allocation.device()).refund(allocation.charge);
        }
    }
}

/// Whether addresses lie in one reservation.
pub fn inside_reservation(address: u64, size: usize) -> bool {
    let reserved = RESERVED.lock().unwrap();
    reserved
        .range(..=address)
        .next_back()
        .is_some_and(|(base, length)| {
            address
                .checked_add(size as u64)
                .is_some_and(|end| end <= base + *length as u64)
        })
}

/// Maps addresses that hold nothing yet: at the hint where it is free, else aligned anywhere.
pub fn map_closed(size: usize, align: usize, hint: u64) -> R<u64> {
    let hint = match hint {
        0 => memory::next_at(size, align as u64),
        hint => hint,
    };
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    if hint != 0 && hint.is_multiple_of(align as u64) {
        // SAFETY: with NOREPLACE the kernel refuses rather than touch what is already there.
        let p = unsafe {
            libc::mmap(
                hint as *mut c_void,
                size,
                libc::PROT_NONE,
                flags | libc::MAP_FIXED_NOREPLACE,
                -1,
                0,
            )
        };
        if p as u64 == hint {
            return Ok(hint);
        }
        if p != libc::MAP_FAILED {
            memory::unmap(p as u64, size);
        }
    }
    let padded = size.checked_add(align).ok_or(OUT_OF_MEMORY)?;
    // SAFETY: a new private mapping at an address of the kernel's choice overlaps nothing.
    let p = unsafe { libc::mmap(std::ptr::null_mut(), padded, libc::PROT_NONE, flags, -1, 0) };
    if p == libc::MAP_FAILED {
        return Err(OUT_OF_MEMORY);
    }
    let start = p as u64;
    let base = start.next_multiple_of(align as u64);
    let head = (base - start) as usize;
    if head != 0 {
        memory::unmap(start, head);
    }
    if align != head {
        memory::unmap(base + size as u64, align - head);
    }
    Ok(base)
}

/// Takes the memory away from reserved addresses. What is left there is nobody's, but it is there:
/// for a kernel that another thread launched in spite of the unmapping.
pub fn close_mapping(address: u64, size: usize) -> Res {
    // SAFETY: the addresses are ours, reserved; what was mapped there was taken out of the map.
    let p = unsafe {
        libc::mmap(
            address as *mut c_void,
            size,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED,
            -1,
            0,
        )
    };
    if p == libc::MAP_FAILED {
        Err(OPERATING_SYSTEM)
    } else {
        Ok(())
    }
}

/// Makes an allocation of a file.
pub fn enter(file: OwnedFd, size: usize, prop: AllocationProp, charge: usize) -> usize {
    let handle = handle::fresh();
    let (references, handles) = (AtomicUsize::new(1), AtomicUsize::new(1));
    CREATED.insert(
        handle,
        Arc::new(Allocation {
            file,
            size,
            prop,
            charge,
            references,
            handles,
        }),
    );
    handle
}
