//! Memory pools: stream-ordered allocation. The driver's own pools serve it, at the worker, so it
//! is the driver that says where such memory lies.

use super::context;
use super::device;
use super::handles;
use super::memory::{self, Sort};
use super::runtime::{Cx, decode, enter, guard, put};
use super::stream;
use busbar_abi::cuda::*;
use busbar_wire::generated::cuda::{self as msg, Kind};
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The device of each pool, by the pool's id.
static DEVICES: Mutex<Option<HashMap<u32, CUdevice>>> = Mutex::new(None);

fn remember(pool: u32, device: CUdevice) {
    let mut d = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
    d.get_or_insert_default().insert(pool, device);
}

fn device_of(pool: u32) -> Option<CUdevice> {
    let d = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
    d.as_ref()?.get(&pool).copied()
}

/// The pool that each device allocates from, where it is not the default one.
static CURRENT: Mutex<Option<HashMap<CUdevice, u32>>> = Mutex::new(None);

fn current() -> MutexGuard<'static, Option<HashMap<CUdevice, u32>>> {
    CURRENT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Marks the flags of memory that came from a pool; the others are the pool's id, 0 for the default
/// one of its device.
const POOLED: u32 = 1 << 30;

/// Marks the flags of memory that a node of a graph allocates. Its address is the graph's: who
/// frees it gives it back until the graph is launched again.
pub const OF_GRAPH: u32 = 1 << 29;

/// Whether memory came from a pool.
pub fn is_pooled(r: &memory::Range) -> bool {
    r.sort == Sort::Foreign && r.flags & POOLED != 0
}

/// The handle of the pool that memory came from; null when it came from none.
pub fn of_memory(r: &memory::Range) -> Result<u64, CUresult> {
    match r.flags & !memory::ORDERED {
        POOLED => {
            let mut pool = std::ptr::null_mut();
            // SAFETY: a pointer to a live handle.
            match unsafe { of_device(&mut pool, r.device, 1) } {
                CUDA_SUCCESS => Ok(pool as u64),
                e => Err(e),
            }
        }
        f if f & POOLED != 0 => Ok(handles::raw(Kind::MemoryPool, f & !POOLED)),
        _ => Ok(0),
    }
}

unsafe fn alloc(
    out: *mut CUdeviceptr,
    size: usize,
    pool: Option<CUmemoryPool>,
    raw: CUstream,
    per_thread: bool,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let context = cx.need_context()?;
        if out.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let stream = stream::id(cx, raw, per_thread)?;
        let pool = match pool {
            Some(p) => cx.handle(Kind::MemoryPool, p as u64)?,
            None => 0,
        };
        let captured = stream::capturing() && stream::captures(cx, stream)?;
        let reply = cx.call(&msg::PoolAlloc {
            pool,
            size: size as u64,
            stream,
        })?;
        let va = decode::<msg::PoolAllocReply>(&reply)?.va;
        memory::plausible(va, size as u64)?;
        let device = device_of(pool).map_or_else(|| context::current_device(cx), Ok)?;
        let from = match pool {
            0 => current().as_ref().and_then(|c| c.get(&device).copied()),
            id => Some(id).filter(|id| *id < handles::WORKER_IDS),
        };
        let flags = match captured {
            true => OF_GRAPH,
            false => POOLED | from.unwrap_or(0),
        };
        memory::add(va, size as u64, Sort::Foreign, context, device, flags);
        // SAFETY: checked for null above; the program's pointer.
        unsafe { put(out, va as CUdeviceptr) }
    })
}

pub(super) unsafe fn cuMemAllocAsync(
    out: *mut CUdeviceptr,
    size: usize,
    stream: CUstream,
    per_thread: bool,
) -> CUresult {
    // SAFETY: passed on to the caller.
    unsafe { alloc(out, size, None, stream, per_thread) }
}

pub(super) unsafe fn cuMemAllocFromPoolAsync(
    out: *mut CUdeviceptr,
    size: usize,
    pool: CUmemoryPool,
    stream: CUstream,
    per_thread: bool,
) -> CUresult {
    // SAFETY: passed on to the caller.
    unsafe { alloc(out, size, Some(pool), stream, per_thread) }
}

pub(super) unsafe fn cuMemFreeAsync(
    p: CUdeviceptr,
    stream: CUstream,
    per_thread: bool,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let stream = stream::id(cx, stream, per_thread)?;
        if memory::find(p).is_some_and(|r| r.sort == Sort::Device && r.base == p) {
            // Memory of cuMemAlloc may be freed in stream order, too.
            cx.call(&msg::CuStreamSynchronize { h_stream: stream })?;
            // SAFETY: an address, not followed.
            return match unsafe { memory::cuMemFree_v2(p) } {
                CUDA_SUCCESS => Ok(()),
                e => Err(e),
            };
        }
        let m = msg::PoolFree { va: p, stream };
        match forget(p)? {
            Maker::Pool => cx.send(&m),
            Maker::Graph => cx.call(&m).map(drop),
        }
    })
}

/// What memory that is about to be freed came from.
enum Maker {
    /// It was there, and is no longer.
    Pool,
    /// Whether it is there depends on what graphs have been launched: the driver knows.
    Graph,
}

/// Memory that a pool or a graph gave is about to be freed.
fn forget(p: CUdeviceptr) -> Result<Maker, CUresult> {
    let of_graph =
        |r: &memory::Range| r.base == p && r.sort == Sort::Foreign && r.flags & OF_GRAPH != 0;
    if memory::find(p).is_some_and(|r| of_graph(&r)) {
        return Ok(Maker::Graph);
    }
    let gone = memory::take(p, is_pooled);
    gone.map(|_| Maker::Pool).ok_or(CUDA_ERROR_INVALID_VALUE)
}

/// `cuMemFree` of memory that came from a pool.
pub fn free_now(cx: Cx, p: CUdeviceptr) -> Result<(), CUresult> {
    forget(p)?;
    cx.call(&msg::PoolFreeNow { va: p }).map(drop)
}

unsafe fn of_device(out: *mut CUmemoryPool, dev: CUdevice, default: u32) -> CUresult {
    guard(|| {
        let cx = enter()?;
        device::get(cx, dev)?;
        if out.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let m = msg::PoolOfDevice {
            device: dev,
            default,
        };
        let pool = decode::<msg::PoolOfDeviceReply>(&cx.call(&m)?)?.pool;
        remember(pool, dev);
        // SAFETY: checked for null above; the program's pointer.
        unsafe {
            put(
                out,
                handles::adopt(Kind::MemoryPool, pool, 0)? as CUmemoryPool,
            )
        }
    })
}

pub(super) unsafe fn cuDeviceGetDefaultMemPool(out: *mut CUmemoryPool, dev: CUdevice) -> CUresult {
    // SAFETY: passed on to the caller.
    unsafe { of_device(out, dev, 1) }
}

pub(super) unsafe fn cuDeviceGetMemPool(out: *mut CUmemoryPool, dev: CUdevice) -> CUresult {
    // SAFETY: passed on to the caller.
    unsafe { of_device(out, dev, 0) }
}

pub(super) unsafe fn cuMemPoolCreate(
    out: *mut CUmemoryPool,
    props: *const CUmemPoolProps,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        if out.is_null() || props.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        // SAFETY: the program's structure, of plain numbers.
        let props = unsafe { props.read() };
        if props.allocType == 0 || props.location.r#type == 0 {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        // Memory of the host would lie in the server's; handles for other processes are not
        // offered.
        const DEVICE: CUmemLocationType = CU_MEM_LOCATION_TYPE_DEVICE;
        if props.location.r#type != DEVICE || props.handleTypes != 0 {
            return Err(CUDA_ERROR_NOT_SUPPORTED);
        }
        device::get(cx, props.location.id).map_err(|_| CUDA_ERROR_INVALID_VALUE)?;
        let pool = cx.create(Kind::MemoryPool);
        let m = msg::PoolCreate {
            pool,
            props: busbar_abi::bytes_of(&props),
        };
        cx.call(&m)
            .inspect_err(|_| cx.destroy(Kind::MemoryPool, pool))?;
        remember(pool, props.location.id);
        // SAFETY: checked for null above; the program's pointer.
        unsafe { put(out, cx.raw(Kind::MemoryPool, pool) as CUmemoryPool) }
    })
}

/// The device that a location names. Pools of other places, and of managed memory, are not offered.
unsafe fn located(
    location: *const CUmemLocation,
    kind: CUmemAllocationType,
) -> Result<CUdevice, CUresult> {
    if location.is_null() {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    // SAFETY: the program's structure, of plain numbers.
    let at = unsafe { location.read() };
    if at.r#type != CU_MEM_LOCATION_TYPE_DEVICE || kind != CU_MEM_ALLOCATION_TYPE_PINNED {
        return Err(CUDA_ERROR_NOT_SUPPORTED);
    }
    Ok(at.id)
}

unsafe fn of_location(
    out: *mut CUmemoryPool,
    location: *mut CUmemLocation,
    kind: CUmemAllocationType,
    default: u32,
) -> CUresult {
    // SAFETY: passed on to the caller.
    unsafe {
        match located(location, kind) {
            Ok(dev) => of_device(out, dev, default),
            Err(e) => e,
        }
    }
}

pub(super) unsafe fn cuMemGetDefaultMemPool(
    out: *mut CUmemoryPool,
    location: *mut CUmemLocation,
    kind: CUmemAllocationType,
) -> CUresult {
    // SAFETY: passed on to the caller.
    unsafe { of_location(out, location, kind, 1) }
}

pub(super) unsafe fn cuMemGetMemPool(
    out: *mut CUmemoryPool,
    location: *mut CUmemLocation,
    kind: CUmemAllocationType,
) -> CUresult {
    // SAFETY: passed on to the caller.
    unsafe { of_location(out, location, kind, 0) }
}

pub(super) unsafe fn cuMemSetMemPool(
    location: *mut CUmemLocation,
    kind: CUmemAllocationType,
    pool: CUmemoryPool,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        // SAFETY: passed on to the caller.
        let dev = unsafe { located(location, kind)? };
        choose(cx, dev, pool)
    })
}

fn choose(cx: Cx, dev: CUdevice, pool: CUmemoryPool) -> Result<(), CUresult> {
    let pool = cx.handle(Kind::MemoryPool, pool as u64)?;
    cx.call(&msg::CuDeviceSetMemPool { dev, pool })?;
    let mut now = current();
    let now = now.get_or_insert_default();
    // The default one is the only one that a program has not made.
    if pool < handles::WORKER_IDS {
        now.insert(dev, pool);
    } else {
        now.remove(&dev);
    }
    Ok(())
}

pub(super) unsafe fn cuDeviceSetMemPool(dev: CUdevice, pool: CUmemoryPool) -> CUresult {
    guard(|| choose(enter()?, dev, pool))
}

pub(super) unsafe fn cuMemPoolDestroy(pool: CUmemoryPool) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let id = cx.handle(Kind::MemoryPool, pool as u64)?;
        if id >= handles::WORKER_IDS {
            // A device's default one stays.
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        current().get_or_insert_default().retain(|_, p| *p != id);
        cx.send(&msg::CuMemPoolDestroy { pool: id })?;
        cx.destroy(Kind::MemoryPool, id);
        Ok(())
    })
}

/// The attributes of CUDA 13 end here; the first three are an int, the others 64 bits wide.
const LAST_ATTRIBUTE: u32 = CU_MEMPOOL_ATTR_USED_MEM_HIGH;
const LAST_INT: u32 = CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;

pub(super) unsafe fn cuMemPoolGetAttribute(
    pool: CUmemoryPool,
    attr: CUmemPool_attribute,
    value: *mut c_void,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let attribute = attr;
        if !(1..=LAST_ATTRIBUTE).contains(&attribute) {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let pool = cx.handle(Kind::MemoryPool, pool as u64)?;
        let reply = cx.call(&msg::PoolAttribute { pool, attribute })?;
        let v = decode::<msg::PoolAttributeReply>(&reply)?.value;
        // SAFETY: the attribute says how wide the program's value is.
        unsafe {
            if attribute <= LAST_INT {
                put(value.cast(), v as u32)
            } else {
                put(value.cast(), v)
            }
        }
    })
}

pub(super) unsafe fn cuMemPoolSetAttribute(
    pool: CUmemoryPool,
    attr: CUmemPool_attribute,
    value: *mut c_void,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let attribute = attr;
        if value.is_null() || !(1..=LAST_ATTRIBUTE).contains(&attribute) {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let pool = cx.handle(Kind::MemoryPool, pool as u64)?;
        // SAFETY: as above.
        let value = unsafe {
            if attribute <= LAST_INT {
                u64::from(value.cast::<u32>().read_unaligned())
            } else {
                value.cast::<u64>().read_unaligned()
            }
        };
        let m = msg::PoolSetAttribute {
            pool,
            attribute,
            value,
        };
        cx.call(&m).map(drop)
    })
}
