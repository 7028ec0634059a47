//! Virtual memory management: addresses are reserved here, memory is made and mapped at the worker.

use super::prelude::*;
use crate::cuda::call::unmap_host;
use crate::cuda::engine::{host_file, place, shadow};
use crate::cuda::state::host_file::FIRST;
use crate::cuda::state::ranges::{CREATED, IN_FILE};
use crate::cuda::state::vmm::{Allocation, Pages};

/// Makes memory at the worker; of the host's, the program has these pages.
pub fn create(cx: Cx, size: u64, props: &CUmemAllocationProp, pages: Pages) -> Result<u32> {
    let allocation = cx.create_in(Kind::Allocation, 0);
    let m = msg::VmmCreate {
        allocation,
        size,
        props: busbar_abi::bytes_of(props),
    };
    cx.call(&m).inspect_err(|_| {
        cx.destroy(Kind::Allocation, allocation);
        if let Pages::At(at) = pages {
            unmap_host(at, size);
        }
    })?;
    add(cx, allocation, size, props, pages);
    Ok(allocation)
}

/// Makes memory known that the worker has under this id; of the host's, with the program's pages.
pub fn add(cx: Cx, id: u32, size: u64, props: &CUmemAllocationProp, pages: Pages) {
    let made = Allocation {
        size,
        props: busbar_abi::bytes_of(props).to_vec(),
        device: location_id(&props.location),
        held: 1,
        pages,
    };
    lock(&cx.state().vmm).allocations.insert(id, made);
}

/// The length of memory, and what it was asked for.
pub fn known(cx: Cx, id: u32) -> Result<(u64, CUmemAllocationProp)> {
    let s = lock(&cx.state().vmm);
    let a = s.allocations.get(&id);
    let a = a.ok_or(CUDA_ERROR_INVALID_VALUE)?;
    let props = busbar_abi::from_bytes(&a.props).ok_or(CUDA_ERROR_UNKNOWN)?;
    Ok((a.size, props))
}

/// Checks what a program asks of new memory: it must be a device's own, or the host's. That
/// another machine may have it too is a wish that only the attempt to export it turns down.
pub fn check(cx: Cx, p: &CUmemAllocationProp) -> Result<()> {
    let pinned = p.r#type == CU_MEM_ALLOCATION_TYPE_PINNED;
    refuse_if(!pinned, CUDA_ERROR_INVALID_VALUE)?;
    match p.location.r#type {
        CU_MEM_LOCATION_TYPE_DEVICE => cx.device(location_id(&p.location)).map(drop),
        // No process can share memory that is on no node in particular.
        CU_MEM_LOCATION_TYPE_HOST => {
            refuse_if(p.requestedHandleTypes != 0, CUDA_ERROR_INVALID_VALUE)
        }
        CU_MEM_LOCATION_TYPE_HOST_NUMA => Ok(()),
        _ => Err(CUDA_ERROR_INVALID_VALUE),
    }
}

/// Whether a location is the host's.
pub fn is_host(l: &CUmemLocation) -> bool {
    matches!(
        l.r#type,
        CU_MEM_LOCATION_TYPE_HOST | CU_MEM_LOCATION_TYPE_HOST_NUMA
    )
}

/// What sizes of memory with these properties must be multiples of; the server's driver knows.
pub fn granularity(
    cx: Cx,
    props: &CUmemAllocationProp,
    option: CUmemAllocationGranularity_flags,
) -> Result<usize> {
    check(cx, props)?;
    let m = msg::VmmGranularity {
        props: busbar_abi::bytes_of(props),
        option,
    };
    let reply = cx.cached(&m)?;
    let n = decode::<msg::VmmGranularityReply>(&reply)?.granularity;
    Ok(n as usize)
}

/// The device that a location names.
pub fn location_id(l: &CUmemLocation) -> CUdevice {
    busbar_abi::member::<[i32; 2], _>(l)[1]
}

/// Host memory that a program maps is page-locked, every context's, and for kernels.
pub const FLAGS: u32 = CREATED | CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP;

const RIGHTS: i32 = libc::PROT_READ | libc::PROT_WRITE;

/// The flags of host memory that a program maps.
pub fn flags_of(pages: &Pages) -> u32 {
    match pages {
        Pages::In(_) => FLAGS | IN_FILE,
        _ => FLAGS,
    }
}

/// Has the program's pages of host memory where it maps them. Nobody may use them yet. They are
/// there from now on.
pub fn move_in(pages: &Pages, to: u64, size: u64) -> Result<Pages> {
    let from = match pages {
        Pages::None => return Ok(Pages::None),
        Pages::At(from) => *from,
        Pages::In(file) => {
            host_file::map(file, FIRST, to, size, libc::PROT_NONE)?;
            return Ok(pages.clone());
        }
    };
    place::map_fixed(to, size, libc::PROT_NONE)?;
    // SAFETY: pages that are nowhere else, and a mapping that is new.
    let moved = unsafe { place::move_pages(from, to, size) };
    moved.and_then(|()| place::protect(to, size, libc::PROT_NONE))?;
    Ok(Pages::At(to))
}

/// Sets who may use host memory: the program, and what `m` says.
pub fn let_in(cx: Cx, m: &msg::VmmSetAccess<'_>, all: &[(u64, u64)], devices: bool) -> Result<()> {
    cx.call(m)?;
    for (va, size) in all.iter().copied() {
        if cx.state().shadows.device_side(va, 1).is_some() {
            continue;
        }
        place::protect(va, size, RIGHTS)?;
        if devices {
            shadow::add_created(cx, va, size)?;
        }
    }
    Ok(())
}

/// Takes the program's pages away from where they are mapped, with the bytes that devices wrote.
pub fn move_out(cx: Cx, va: u64, id: u32) -> Result<()> {
    let of_host = |a: &Allocation| a.pages.is_any().then(|| (a.size, a.pages.clone()));
    let known = lock(&cx.state().vmm).allocations.get(&id).and_then(of_host);
    let Some((size, pages)) = known else {
        return Ok(());
    };
    shadow::take_created(cx, va, size);
    if let Pages::In(_) = pages {
        unmap_host(va, size);
        return Ok(());
    }
    place::protect(va, size, RIGHTS)?;
    let to = place::map_anywhere(size)?;
    // SAFETY: the program unmaps it, and the other is new.
    unsafe { place::move_pages(va, to, size)? };
    let mut s = lock(&cx.state().vmm);
    s.allocations
        .entry(id)
        .and_modify(|a| a.pages = Pages::At(to));
    Ok(())
}

/// Lets go of memory that is neither held nor mapped. Its handle stays known while it is mapped:
/// the program may ask for it back.
pub fn forget_unused(cx: Cx, id: u32) -> Result<()> {
    let Some(gone) = lock(&cx.state().vmm).take_unused(id) else {
        return Ok(());
    };
    if let Pages::At(at) = gone.pages {
        unmap_host(at, gone.size);
    }
    let release = msg::VmmRelease { allocation: id };
    // What is much is free when this returns, as far as other processes see.
    let sent = match cx.state().spaces.adds_up_to_much(gone.size) {
        true => cx.call(&release).map(drop),
        false => cx.send(&release),
    };
    cx.destroy(Kind::Allocation, id);
    sent
}
