//! Device memory, page-locked host memory, and what is known of a pointer.

use super::prelude::*;
use crate::cuda::engine::{host_memory, host_pool, memory, peer, place, pool, shadow, transfer};
use crate::cuda::state::area::Evidence;
use crate::cuda::state::ranges::{Range, Sort};
use crate::cuda::state::space;

/// Alignment of the rows of pitched memory.
const PITCH: usize = 512;

const HOST: u32 = 1;
const DEVICE: u32 = 2;

/// Where the mapping begins that a range lies in.
fn mapping_base(cx: Cx, r: &Range) -> u64 {
    const PAGE: u64 = 4096;
    match r.sort {
        Sort::Foreign if r.flags != 0 || lock(&cx.state().vmm).access(r.base).is_some() => r.base,
        Sort::Registered => r.base & !(PAGE - 1),
        // The driver never keeps it in one mapping with memory that caches hold.
        Sort::Host if r.flags & CU_MEMHOSTALLOC_WRITECOMBINED != 0 => r.base,
        _ => r.base & !(space::GRANULE - 1),
    }
}

/// Writes one attribute of the range `r`, which holds `p`. What CUDA calls a boolean is 32 bits
/// wide: a caller that has not cleared its variable would see what was there before.
unsafe fn attribute(cx: Cx, r: &Range, p: u64, which: u32, data: *mut c_void) -> Result<()> {
    let on_host = r.sort.is_page_locked();
    // What is mapped, or of a pool, or a variable of the program's that moves, is no context's.
    let (reserved, access) = match r.sort {
        _ if r.sort == Sort::Foreign || r.is_created() => {
            let vmm = lock(&cx.state().vmm);
            (vmm.reserved(p), vmm.access(p))
        }
        _ => (None, None),
    };
    let of_pool = pool::is_pooled(r) || host_pool::is_managed(r);
    let nobodys = access.is_some() || of_pool || r.sort == Sort::Managed && r.flags == 0;
    let ctx = if nobodys {
        0
    } else {
        cx.raw(Kind::Context, r.context)
    };
    let (start, size) = reserved.unwrap_or((r.base, r.size));
    // SAFETY: the attribute says what `data` points at; the caller passes the program's pointer.
    unsafe {
        match which {
            1 => put(data.cast(), ctx),
            2 => put(data.cast(), if on_host { HOST } else { DEVICE }),
            3 if !is_near(cx, r, p) => Err(CUDA_ERROR_INVALID_VALUE),
            3 => put(data.cast(), p),
            4 if on_host || r.sort == Sort::Managed => put(data.cast(), p),
            4 => Err(CUDA_ERROR_INVALID_VALUE),
            6 => put(data.cast(), u32::from(r.is_ordered() && !on_host)),
            7 => put(data.cast(), r.serial),
            8 => put(data.cast(), u32::from(r.sort == Sort::Managed)),
            9 => put(data.cast(), r.device),
            10 => put(data.cast(), u32::from(r.sort == Sort::Device)),
            11 => put(data.cast(), start),
            12 => put(data.cast(), size),
            13 => put(data.cast(), 1u32),
            14 => put(data.cast(), 0u64),
            15 => put(data.cast(), 0u32),
            16 => put(data.cast(), access.unwrap_or(3)),
            17 => put(data.cast(), pool::of_memory(cx, r)?),
            18 => put(data.cast(), r.size),
            19 => put(data.cast(), mapping_base(cx, r)),
            20 => put(data.cast(), r.serial),
            21 => put(data.cast(), 0u32),
            _ => Err(CUDA_ERROR_INVALID_VALUE),
        }
    }
}

/// Whether the current context's device reaches what lies at an address.
fn is_near(cx: Cx, r: &Range, p: u64) -> bool {
    let hidden = || lock(&cx.state().vmm).access(p) == Some(0);
    match cx.current_device() {
        Ok(device) if cx.client.devices.len() > 1 => peer::reaches(cx, device, r, p),
        _ => r.sort.is_page_locked() || !hidden(),
    }
}

/// What an attribute of a pointer that CUDA does not know is.
unsafe fn no_attribute(p: u64, which: u32, data: *mut c_void) -> Result<()> {
    // SAFETY: as in `attribute`.
    unsafe {
        match which {
            9 => put(data.cast(), -2i32),
            2 | 6 | 8 | 10 | 13 | 15 | 16 | 21 => put(data.cast(), 0u32),
            4 => put(data.cast(), p),
            1 | 3 | 7 | 11 | 12 | 14 | 17 | 18 | 19 | 20 => put(data.cast(), 0u64),
            _ => Err(CUDA_ERROR_INVALID_VALUE),
        }
    }
}

/// The pitch is told of what cannot be had, too, as by the driver: 0 where there is none.
pub unsafe fn cuMemAllocPitch_v2(
    cx: Cx,
    pitch: *mut usize,
    width: usize,
    height: usize,
    element: u32,
) -> Result<CUdeviceptr> {
    refuse_if(pitch.is_null(), CUDA_ERROR_INVALID_VALUE)?;
    let fits = width > 0 && height > 0 && matches!(element, 4 | 8 | 16);
    let row = width.checked_next_multiple_of(PITCH).filter(|_| fits);
    // SAFETY: the program's pointer; the API asks that it be valid.
    unsafe { pitch.write_unaligned(row.unwrap_or(0)) };
    let size = row.and_then(|row| row.checked_mul(height));
    memory::alloc(cx, size.ok_or(CUDA_ERROR_INVALID_VALUE)?)
}

pub fn cuMemFree_v2(cx: Cx, p: CUdeviceptr) -> Result<()> {
    if p == 0 {
        return Ok(());
    }
    memory::free(cx, p)
}

pub fn cuMemGetAddressRange_v2(cx: Cx, p: CUdeviceptr) -> Result<(CUdeviceptr, usize)> {
    cx.need_context()?;
    let r = cx
        .state()
        .ranges
        .find(p)
        .filter(|r| is_near(cx, r, p))
        .ok_or(CUDA_ERROR_NOT_FOUND)?;
    Ok((r.base as CUdeviceptr, r.size as usize))
}

pub fn cuMemHostAlloc(cx: Cx, size: usize, flags: u32) -> Result<*mut c_void> {
    cx.need_context()?;
    refuse_if(flags & !0x27 != 0, CUDA_ERROR_INVALID_VALUE)?;
    if size == 0 {
        return Ok(std::ptr::null_mut());
    }
    Ok(host_memory::alloc(cx, size, flags)? as *mut c_void)
}

pub unsafe fn cuMemFreeHost(cx: Cx, p: *mut c_void) -> Result<()> {
    // A context that is lost frees nothing.
    cx.state().contexts.works(cx.scope)?;
    if p.is_null() {
        return Ok(());
    }
    let cx = cx.of_address(p as u64);
    if cx.state().host_pooled.get(&(p as u64)).is_some() {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    host_memory::free(cx, p as u64)
}

pub unsafe fn cuMemHostRegister_v2(cx: Cx, p: *mut c_void, size: usize, flags: u32) -> Result<()> {
    const FLAGS: u32 = CU_MEMHOSTREGISTER_PORTABLE
        | CU_MEMHOSTREGISTER_DEVICEMAP
        | CU_MEMHOSTREGISTER_IOMEMORY
        | CU_MEMHOSTREGISTER_READ_ONLY;
    let (of, state) = (cx.home()?, cx.state());
    let bad = p.is_null() || size == 0 || flags & !FLAGS != 0;
    refuse_if(bad, CUDA_ERROR_INVALID_VALUE)?;
    let read_only = flags & CU_MEMHOSTREGISTER_READ_ONLY != 0;
    let can = CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED as i32;
    let can = cx.device(of.1)?.attributes.get(&can).copied();
    refuse_if(read_only && can.unwrap_or(0) == 0, CUDA_ERROR_NOT_SUPPORTED)?;
    let start = p as u64;
    // Of a machine without a GPU no device is one that a GPU reaches.
    if flags & CU_MEMHOSTREGISTER_IOMEMORY != 0 {
        let found = state.ranges.find(start);
        let twice = found.is_some_and(|r| r.sort == Sort::Registered);
        refuse_if(twice, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED)?;
        refuse_if(!place::is_root(), CUDA_ERROR_NOT_PERMITTED)?;
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let end = start.checked_add(size as u64);
    let end = end
        .filter(|_| place::is_mapped(start, size))
        .ok_or(CUDA_ERROR_INVALID_VALUE)?;
    let registered = Sort::Registered;
    if !state
        .ranges
        .add_apart(start, size as u64, registered, of, flags)
    {
        let made = state
            .ranges
            .find(start)
            .is_some_and(|r| r.sort == Sort::Host);
        return Err(match made {
            true => CUDA_ERROR_INVALID_VALUE,
            false => CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
        });
    }
    // The driver locks pages for writing; what is registered is not looked at before: it may be
    // closed.
    if !read_only && !place::may_write(start, size) {
        state.ranges.remove(start, |s| s == registered);
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    state.shadows.has_host_memory(Some((start, end)));
    host_memory::tell(cx, (start, size as u64), registered, flags);
    Ok(())
}

pub unsafe fn cuMemHostUnregister(cx: Cx, p: *mut c_void) -> Result<()> {
    let cx = cx.of_address(p as u64);
    let (p, state) = (p as u64, cx.state());
    let known = state.ranges.find(p);
    let other = match known {
        None if p != 0 => CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
        _ => CUDA_ERROR_INVALID_VALUE,
    };
    let flag = known.is_some_and(|r| host_memory::is_flag(cx, &r));
    let r = state.ranges.remove(p, |s| s == Sort::Registered);
    let r = r.ok_or(other)?;
    transfer::wait_for_copies(cx, r.base, r.size);
    host_memory::untell(cx, &r);
    host_memory::put_by(cx, &r, flag);
    Ok(())
}

pub unsafe fn cuMemHostGetFlags(cx: Cx, p: *mut c_void) -> Result<u32> {
    cx.need_context()?;
    let r = cx
        .state()
        .ranges
        .find_page_locked(p as u64)
        .filter(|r| !r.is_created())
        .ok_or(CUDA_ERROR_INVALID_VALUE)?;
    // It is mapped whether a program asks for that or not.
    let told = match r.sort {
        Sort::Registered => CU_MEMHOSTREGISTER_PORTABLE,
        _ => CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_WRITECOMBINED,
    };
    Ok(r.flags & told | CU_MEMHOSTALLOC_DEVICEMAP)
}

pub unsafe fn cuMemHostGetDevicePointer_v2(
    cx: Cx,
    out: *mut CUdeviceptr,
    p: *mut c_void,
    flags: u32,
) -> Result<()> {
    cx.need_context()?;
    refuse_if(flags != 0 || out.is_null(), CUDA_ERROR_INVALID_VALUE)?;
    let r = cx
        .state()
        .ranges
        .find_page_locked(p as u64)
        .ok_or(CUDA_ERROR_INVALID_VALUE)?;
    let why = || "its address was asked for".into();
    let there = shadow::expose(cx, &r, p as u64, Evidence::Sure, why)?;
    // SAFETY: checked for null above; the program's pointer.
    unsafe { put(out, there as CUdeviceptr) }
}

pub unsafe fn cuPointerGetAttribute(
    cx: Cx,
    data: *mut c_void,
    which: CUpointer_attribute,
    p: CUdeviceptr,
) -> Result<()> {
    refuse_if(data.is_null(), CUDA_ERROR_INVALID_VALUE)?;
    let r = cx.state().ranges.find(p).ok_or(CUDA_ERROR_INVALID_VALUE)?;
    // SAFETY: checked for null above; the program's pointer.
    unsafe { attribute(cx, &r, p, which, data) }
}

pub unsafe fn cuPointerGetAttributes(
    cx: Cx,
    n: u32,
    which: *mut CUpointer_attribute,
    data: *mut *mut c_void,
    p: CUdeviceptr,
) -> Result<()> {
    refuse_if(which.is_null(), CUDA_ERROR_INVALID_VALUE)?;
    refuse_if(data.is_null() || n == 0, CUDA_ERROR_INVALID_VALUE)?;
    let r = cx.state().ranges.find(p);
    for i in 0..n as usize {
        // SAFETY: the program's arrays of `n` items.
        let (a, d) = unsafe { (which.add(i).read(), data.add(i).read()) };
        // SAFETY: the program's pointer for this attribute.
        let done = unsafe {
            match &r {
                Some(r) => attribute(cx, r, p, a, d).or_else(|_| no_attribute(0, a, d)),
                None => no_attribute(p, a, d),
            }
        };
        done?;
    }
    Ok(())
}

pub unsafe fn cuPointerSetAttribute(
    cx: Cx,
    value: *const c_void,
    which: CUpointer_attribute,
    p: CUdeviceptr,
) -> Result<()> {
    // Copies through a session are ordered anyway, which is all that SYNC_MEMOPS (6) asks.
    refuse_if(which != 6 || value.is_null(), CUDA_ERROR_INVALID_VALUE)?;
    // SAFETY: checked for null above; the attribute is a number.
    let on = unsafe { value.cast::<u32>().read_unaligned() } != 0;
    cx.state().ranges.order(p, on)
}
