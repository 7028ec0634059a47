//! Virtual memory management: addresses are reserved here, memory is made and mapped at the worker.

use super::device;
use super::handles;
use super::memory::{self, Sort};
use super::runtime::{Cx, decode, enter, guard, put, put_opt};
use super::space::{GRANULE, Reservations};

pub(super) use super::vmm_share::*;
use busbar_abi::cuda::*;
use busbar_wire::generated::cuda::{self as msg, Kind};
use std::collections::{BTreeMap, HashMap};
use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Memory that `cuMemCreate` made, or another process.
struct Allocation {
    size: u64,
    /// What it was asked for, as bytes.
    props: Vec<u8>,
    device: CUdevice,
    /// How often the program holds it.
    held: u32,
}

/// Memory at an address.
struct Mapping {
    size: u64,
    allocation: u32,
    /// What the program was let do with it last.
    access: u32,
}

#[derive(Default)]
struct State {
    reservations: Reservations,
    allocations: HashMap<u32, Allocation>,
    /// Mappings by address.
    mappings: BTreeMap<u64, Mapping>,
}

impl State {
    /// The mapping that an address lies in.
    fn mapping(&self, p: u64) -> Option<&Mapping> {
        let (va, m) = self.mappings.range(..=p).next_back()?;
        (p - va < m.size).then_some(m)
    }

    /// The mappings that a range has anything in common with.
    fn touching(&self, p: u64, size: u64) -> impl Iterator<Item = (&u64, &Mapping)> {
        let all = self.mappings.range(..p.saturating_add(size));
        all.filter(move |(va, m)| **va + m.size > p)
    }
}

/// What the program may do with mapped memory; `None` where nothing is mapped.
pub(super) fn access(p: u64) -> Option<u32> {
    state().as_ref()?.mapping(p).map(|m| m.access)
}

/// The reservation that mapped memory lies in: where it begins, and its length.
pub(super) fn reserved(p: u64) -> Option<(u64, u64)> {
    let s = state();
    let s = s.as_ref()?;
    s.mapping(p)?;
    s.reservations.around(p)
}

static STATE: Mutex<Option<State>> = Mutex::new(None);

fn state() -> MutexGuard<'static, Option<State>> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) unsafe fn cuMemAddressReserve(
    out: *mut CUdeviceptr,
    size: usize,
    alignment: usize,
    _wish: CUdeviceptr,
    flags: u64,
) -> CUresult {
    guard(|| {
        enter()?;
        let size = size as u64;
        let bad_alignment = alignment != 0 && !alignment.is_power_of_two();
        if out.is_null()
            || size == 0
            || !size.is_multiple_of(GRANULE)
            || bad_alignment
            || flags != 0
        {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let mut s = state();
        let at = s
            .get_or_insert_default()
            .reservations
            .take(size, alignment as u64);
        // SAFETY: checked for null above; the program's pointer.
        unsafe { put(out, at.ok_or(CUDA_ERROR_OUT_OF_MEMORY)? as CUdeviceptr) }
    })
}

pub(super) unsafe fn cuMemAddressFree(p: CUdeviceptr, size: usize) -> CUresult {
    guard(|| {
        enter()?;
        let mut s = state();
        let s = s.get_or_insert_default();
        let end = p + size as u64;
        if s.mappings.keys().any(|va| (p..end).contains(va)) {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let given = s.reservations.give(p, size as u64);
        if given {
            Ok(())
        } else {
            Err(CUDA_ERROR_INVALID_VALUE)
        }
    })
}

/// Makes memory known that the worker has under this id; gives its handle.
pub(super) fn add(id: u32, size: u64, props: &CUmemAllocationProp) -> u64 {
    let made = Allocation {
        size,
        props: busbar_abi::bytes_of(props).to_vec(),
        device: location_id(&props.location),
        held: 1,
    };
    state().get_or_insert_default().allocations.insert(id, made);
    handles::raw(Kind::Allocation, id)
}

/// The length of memory, and what it was asked for.
pub(super) fn known(id: u32) -> Result<(u64, CUmemAllocationProp), CUresult> {
    let mut s = state();
    let a = s.get_or_insert_default().allocations.get(&id);
    let a = a.ok_or(CUDA_ERROR_INVALID_VALUE)?;
    let props = busbar_abi::from_bytes(&a.props).ok_or(CUDA_ERROR_UNKNOWN)?;
    Ok((a.size, props))
}

/// Checks what a program asks of new memory: it must be a device's own. That another machine may
/// have it too is a wish that only the attempt to export it turns down.
fn check(cx: Cx, p: *const CUmemAllocationProp) -> Result<CUmemAllocationProp, CUresult> {
    // SAFETY: the program's pointer.
    let p = *unsafe { p.as_ref() }.ok_or(CUDA_ERROR_INVALID_VALUE)?;
    if p.r#type != CU_MEM_ALLOCATION_TYPE_PINNED {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    if p.location.r#type != CU_MEM_LOCATION_TYPE_DEVICE {
        return Err(CUDA_ERROR_NOT_SUPPORTED);
    }
    device::get(cx, location_id(&p.location))?;
    Ok(p)
}

fn location_id(l: &CUmemLocation) -> CUdevice {
    busbar_abi::member::<[i32; 2], _>(l)[1]
}

pub(super) unsafe fn cuMemCreate(
    out: *mut CUmemGenericAllocationHandle,
    size: usize,
    props: *const CUmemAllocationProp,
    flags: u64,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let size = size as u64;
        if out.is_null() || size == 0 || !size.is_multiple_of(GRANULE) || flags != 0 {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let props = check(cx, props)?;
        let allocation = handles::create(Kind::Allocation, 0);
        let m = msg::VmmCreate {
            allocation,
            size,
            props: busbar_abi::bytes_of(&props),
        };
        cx.call(&m)
            .inspect_err(|_| handles::destroy(Kind::Allocation, allocation))?;
        // SAFETY: checked for null above; the program's pointer.
        unsafe { put(out, add(allocation, size, &props)) }
    })
}

pub(super) unsafe fn cuMemRelease(handle: CUmemGenericAllocationHandle) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let id = cx
            .handle(Kind::Allocation, handle)
            .map_err(|_| CUDA_ERROR_INVALID_VALUE)?;
        let mut s = state();
        let s = s.get_or_insert_default();
        let a = s.allocations.get_mut(&id).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        a.held = a.held.checked_sub(1).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        forget_unused(cx, s, id)
    })
}

/// Lets go of memory that is neither held nor mapped. Its handle stays known while it is mapped:
/// the program may ask for it back.
fn forget_unused(cx: Cx, s: &mut State, id: u32) -> Result<(), CUresult> {
    let held = s.allocations.get(&id).is_some_and(|a| a.held > 0);
    if held || s.mappings.values().any(|m| m.allocation == id) {
        return Ok(());
    }
    s.allocations.remove(&id);
    let sent = cx.send(&msg::VmmRelease { allocation: id });
    // Not before: another thread may use the id again, and must come behind this.
    handles::destroy(Kind::Allocation, id);
    sent
}

pub(super) unsafe fn cuMemRetainAllocationHandle(
    out: *mut CUmemGenericAllocationHandle,
    p: *mut c_void,
) -> CUresult {
    guard(|| {
        enter()?;
        let p = p as u64;
        let mut s = state();
        let s = s.get_or_insert_default();
        let id = s.mapping(p).ok_or(CUDA_ERROR_INVALID_VALUE)?.allocation;
        let a = s.allocations.get_mut(&id).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        a.held += 1;
        // SAFETY: the program's pointer.
        unsafe { put(out, handles::raw(Kind::Allocation, id)) }
    })
}

pub(super) unsafe fn cuMemGetAllocationPropertiesFromHandle(
    out: *mut CUmemAllocationProp,
    handle: CUmemGenericAllocationHandle,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let id = cx
            .handle(Kind::Allocation, handle)
            .map_err(|_| CUDA_ERROR_INVALID_VALUE)?;
        let (_, props) = known(id)?;
        // SAFETY: the program's pointer.
        unsafe { put(out, props) }
    })
}

pub(super) unsafe fn cuMemMap(
    p: CUdeviceptr,
    size: usize,
    offset: usize,
    handle: CUmemGenericAllocationHandle,
    flags: u64,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let (size, offset) = (size as u64, offset as u64);
        let id = cx
            .handle(Kind::Allocation, handle)
            .map_err(|_| CUDA_ERROR_INVALID_VALUE)?;
        let mut s = state();
        let s = s.get_or_insert_default();
        let a = s.allocations.get(&id).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        // Parts of it cannot be mapped.
        if offset != 0 || size != a.size {
            return Err(CUDA_ERROR_NOT_SUPPORTED);
        }
        let overlaps = s.touching(p, size).next().is_some();
        let aligned = p.is_multiple_of(GRANULE);
        if flags != 0 || !aligned || overlaps || !s.reservations.holds(p, size) {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let device = a.device;
        cx.send(&msg::VmmMap {
            va: p,
            size,
            offset,
            allocation: id,
        })?;
        let mapping = Mapping {
            size,
            allocation: id,
            access: 0,
        };
        s.mappings.insert(p, mapping);
        memory::add(
            p,
            size,
            Sort::Foreign,
            device::get(cx, device)?.primary,
            device,
            0,
        );
        Ok(())
    })
}

pub(super) unsafe fn cuMemSetAccess(
    p: CUdeviceptr,
    size: usize,
    access: *const CUmemAccessDesc,
    n: usize,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        if access.is_null() || n == 0 || n > 64 || !memory::is_on_device(p, size) {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        // SAFETY: the program's array of `n` items.
        let list = unsafe { std::slice::from_raw_parts(access, n) };
        for a in list {
            if a.location.r#type != CU_MEM_LOCATION_TYPE_DEVICE {
                return Err(CUDA_ERROR_NOT_SUPPORTED);
            }
            device::get(cx, location_id(&a.location))?;
        }
        let access = busbar_abi::slice_bytes(list);
        cx.send(&msg::VmmSetAccess {
            va: p,
            size: size as u64,
            access,
        })?;
        let mut s = state();
        let State {
            mappings,
            allocations,
            ..
        } = s.get_or_insert_default();
        for (_, m) in mappings.range_mut(p..p.saturating_add(size as u64)) {
            // What the device may do that has it; others' rights say nothing of that.
            let home = allocations.get(&m.allocation).map(|a| a.device);
            let own = list
                .iter()
                .rfind(|a| Some(location_id(&a.location)) == home);
            m.access = own.map_or(m.access, |a| a.flags);
        }
        Ok(())
    })
}

pub(super) unsafe fn cuMemGetAccess(
    out: *mut u64,
    location: *const CUmemLocation,
    p: CUdeviceptr,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        // SAFETY: the program's pointer.
        let location = unsafe { location.as_ref() }.ok_or(CUDA_ERROR_INVALID_VALUE)?;
        let m = msg::VmmGetAccess {
            va: p,
            location: busbar_abi::bytes_of(location),
        };
        // Where nothing is mapped, the driver says that there are no rights, and refuses besides.
        // SAFETY: the program's pointer.
        let reply = cx.call(&m).inspect_err(|_| unsafe { put_opt(out, 0) })?;
        // SAFETY: the program's pointer.
        unsafe { put(out, decode::<msg::VmmGetAccessReply>(&reply)?.flags) }
    })
}

pub(super) unsafe fn cuMemUnmap(p: CUdeviceptr, size: usize) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let end = p.saturating_add(size as u64);
        let mut s = state();
        let s = s.get_or_insert_default();
        if !s.reservations.holds(p, size as u64) {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        // What is not mapped need not be unmapped, but no mapping can be cut.
        let inside: Vec<_> = s
            .touching(p, size as u64)
            .map(|(va, m)| (*va, m.size, m.allocation))
            .collect();
        if inside.iter().any(|m| m.0 < p || m.0 + m.1 > end) {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        for (va, size, id) in inside {
            s.mappings.remove(&va);
            memory::remove(va, |sort| sort == Sort::Foreign);
            cx.send(&msg::VmmUnmap { va, size })?;
            forget_unused(cx, s, id)?;
        }
        Ok(())
    })
}

pub(super) unsafe fn cuMemGetAllocationGranularity(
    out: *mut usize,
    props: *const CUmemAllocationProp,
    option: CUmemAllocationGranularity_flags,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let props = check(cx, props)?;
        let m = msg::VmmGranularity {
            props: busbar_abi::bytes_of(&props),
            option,
        };
        let reply = cx.cached(&m)?;
        let n = decode::<msg::VmmGranularityReply>(&reply)?.granularity;
        // SAFETY: the program's pointer.
        unsafe { put(out, n as usize) }
    })
}
