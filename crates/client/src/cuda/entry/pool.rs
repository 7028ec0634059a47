//! Memory pools: stream-ordered allocation.

use crate::cuda::call::{Cx, decode, put};
use crate::cuda::engine::pool::Maker;
use crate::cuda::engine::{memory, pool, stream};
use crate::cuda::state::handles::WORKER_IDS;
use crate::cuda::state::ranges::{Sort, plausible};
use busbar_abi::cuda::*;
use busbar_wire::generated::cuda::{self as msg, Kind};
use std::ffi::c_void;

pub fn of_device(cx: Cx, dev: CUdevice, default: u32) -> Result<CUmemoryPool> {
    cx.device(dev)?;
    let handle = pool::of_device(cx, dev, default)?;
    Ok(handle as CUmemoryPool)
}

pub fn alloc(cx: Cx, size: usize, pool: Option<CUmemoryPool>, stream: u32) -> Result<CUdeviceptr> {
    let pool = match pool {
        Some(p) => cx.handle(Kind::MemoryPool, p as u64)?,
        None => 0,
    };
    let captured = cx.state().captures.any() && stream::captures(cx, stream)?;
    let reply = cx.call(&msg::PoolAlloc {
        pool,
        size: size as u64,
        stream,
    })?;
    let va = decode::<msg::PoolAllocReply>(&reply)?.va;
    plausible(va, size as u64)?;
    if va == 0 {
        return Ok(0);
    }
    let state = cx.state();
    let known = state.pools.get(&pool);
    let device = known.map_or_else(|| cx.current_device(), Ok)?;
    let from = match pool {
        0 => state.current_pools.get(&device),
        id => Some(id).filter(|id| *id < WORKER_IDS),
    };
    let flags = match captured {
        true => pool::OF_GRAPH,
        false => pool::POOLED | from.unwrap_or(0),
    };
    let of = (cx.scope, device);
    state.ranges.add(va, size as u64, Sort::Foreign, of, flags);
    Ok(va as CUdeviceptr)
}

/// The device that a location names. Pools of other places, and of managed memory, are not offered.
pub unsafe fn located(
    location: *const CUmemLocation,
    kind: CUmemAllocationType,
) -> Result<CUdevice> {
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

/// The attributes of CUDA 13 end here; the first three are an int, the others 64 bits wide.
const LAST_ATTRIBUTE: u32 = CU_MEMPOOL_ATTR_USED_MEM_HIGH;

const LAST_INT: u32 = CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;

pub fn cuMemFreeAsync(cx: Cx, p: CUdeviceptr, stream: u32) -> Result<()> {
    if p == 0 {
        return Ok(());
    }
    if cx
        .state()
        .ranges
        .find(p)
        .is_some_and(|r| r.sort == Sort::Device && r.base == p)
    {
        // Memory of cuMemAlloc may be freed in stream order, too.
        cx.call(&msg::CuStreamSynchronize { h_stream: stream })?;
        return memory::free(cx, p);
    }
    let m = msg::PoolFree { va: p, stream };
    match pool::forget(cx, p)? {
        Maker::Pool => cx.send(&m),
        Maker::Graph => cx.call(&m).map(drop),
    }
}

pub fn cuMemPoolCreate(cx: Cx, props: &CUmemPoolProps) -> Result<u32> {
    if props.allocType == 0 || props.location.r#type == 0 {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    // Memory of the host would lie in the server's; handles for other processes are not
    // offered.
    const DEVICE: CUmemLocationType = CU_MEM_LOCATION_TYPE_DEVICE;
    if props.location.r#type != DEVICE || props.handleTypes != 0 {
        return Err(CUDA_ERROR_NOT_SUPPORTED);
    }
    cx.device(props.location.id)
        .map_err(|_| CUDA_ERROR_INVALID_VALUE)?;
    let pool = cx.create(Kind::MemoryPool);
    let m = msg::PoolCreate {
        pool,
        props: busbar_abi::bytes_of(props),
    };
    cx.call(&m)
        .inspect_err(|_| cx.destroy(Kind::MemoryPool, pool))?;
    cx.state().pools.insert(pool, props.location.id);
    Ok(pool)
}

pub unsafe fn cuMemSetMemPool(
    cx: Cx,
    location: *mut CUmemLocation,
    kind: CUmemAllocationType,
    pool: u32,
) -> Result<()> {
    // SAFETY: passed on to the caller.
    cuDeviceSetMemPool(cx, unsafe { located(location, kind)? }, pool)
}

pub fn cuDeviceSetMemPool(cx: Cx, dev: CUdevice, pool: u32) -> Result<()> {
    cx.call(&msg::CuDeviceSetMemPool { dev, pool })?;
    let now = &cx.state().current_pools;
    // The default one is the only one that a program has not made.
    if pool < WORKER_IDS {
        now.insert(dev, pool);
    } else {
        now.take(&dev);
    }
    Ok(())
}

pub fn cuMemPoolDestroy(cx: Cx, id: u32) -> Result<()> {
    if id >= WORKER_IDS {
        // A device's default one stays.
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    cx.send(&msg::CuMemPoolDestroy { pool: id })?;
    cx.destroy(Kind::MemoryPool, id);
    Ok(())
}

pub unsafe fn cuMemPoolGetAttribute(
    cx: Cx,
    pool: u32,
    attribute: CUmemPool_attribute,
    value: *mut c_void,
) -> Result<()> {
    if !(1..=LAST_ATTRIBUTE).contains(&attribute) {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
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
}

pub unsafe fn cuMemPoolSetAttribute(
    cx: Cx,
    pool: u32,
    attribute: CUmemPool_attribute,
    value: *mut c_void,
) -> Result<()> {
    if value.is_null() || !(1..=LAST_ATTRIBUTE).contains(&attribute) {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
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
}
