//! Memory pools: stream-ordered allocation.

use super::managed::advised_at;
use super::prelude::*;
use crate::cuda::engine::pool::Maker;
use crate::cuda::engine::{context, host_file, host_pool, memory, pool, stream};
use crate::cuda::state::advice::Place;
use crate::cuda::state::handles::WORKER_IDS;
use crate::cuda::state::host_file::POOL;
use crate::cuda::state::host_pools::{HostPool, Of};
use crate::cuda::state::ranges::{Sort, plausible};

pub fn of_device(cx: Cx, dev: CUdevice, default: u32) -> Result<CUmemoryPool> {
    cx.device(dev)?;
    let handle = pool::of_device(cx, dev, default)?;
    Ok(handle as CUmemoryPool)
}

pub fn alloc(cx: Cx, size: usize, pool: Option<CUmemoryPool>, stream: u32) -> Result<CUdeviceptr> {
    let pool = match pool {
        Some(p) if p.is_null() => return Err(CUDA_ERROR_INVALID_VALUE),
        Some(p) => cx.handle(Kind::MemoryPool, p as u64)?,
        None => 0,
    };
    if let Some(host) = host_pool::find(cx, pool) {
        return host_pool::alloc(cx, host, size as u64, stream);
    }
    let captured = cx.state().captures.any() && stream::captures(cx, stream)?;
    if !captured {
        cx.must_be_safe()?;
    }
    let size = size as u64;
    let state = cx.state();
    // Its own pool, or the one of the stream's device.
    let known = state.pools.get(&pool);
    let device = known.map_or_else(|| cx.current_device(), Ok)?;
    let from = match pool {
        0 => state.current_pools.get(&device),
        id => Some(id).filter(|id| *id < WORKER_IDS),
    };
    let from = (device, from.unwrap_or(0));
    let again = match captured {
        true => None,
        false => state.recycled.take(pool::home(cx, stream, from, size)),
    };
    let va = match again {
        Some(va) => va,
        None => cx.reply_to(&msg::PoolAlloc { pool, size, stream })?.va,
    };
    plausible(va, size)?;
    if va == 0 {
        return Ok(0);
    }
    let flags = match captured {
        true => pool::OF_GRAPH,
        false => pool::POOLED | from.1,
    };
    let of = context::home_on(cx, device)?;
    state.ranges.add(va, size, Sort::Foreign, of, flags);
    Ok(va as CUdeviceptr)
}

/// Where the memory of a pool is that a location names.
enum At {
    Device(CUdevice),
    Seen(Of),
}

/// What a location is. The server's nodes are its own: the first stands for all of its memory.
unsafe fn located(cx: Cx, location: *const CUmemLocation, kind: CUmemAllocationType) -> Result<At> {
    refuse_if(location.is_null(), CUDA_ERROR_INVALID_VALUE)?;
    // SAFETY: the program's structure, of plain numbers.
    let at = unsafe { location.read() };
    match at.r#type {
        CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT => return Err(CUDA_ERROR_NOT_SUPPORTED),
        CU_MEM_LOCATION_TYPE_HOST_NUMA if at.id != 0 => return Err(CUDA_ERROR_INVALID_VALUE),
        _ => {}
    }
    match (kind, at.r#type) {
        (CU_MEM_ALLOCATION_TYPE_MANAGED, _) => managed_on(cx, &at).map(At::Seen),
        (CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_DEVICE) => {
            advised_at(cx, &at).map(|_| At::Device(at.id))
        }
        (
            CU_MEM_ALLOCATION_TYPE_PINNED,
            CU_MEM_LOCATION_TYPE_HOST | CU_MEM_LOCATION_TYPE_HOST_NUMA,
        ) => Ok(At::Seen(Of::Host)),
        _ => Err(CUDA_ERROR_INVALID_VALUE),
    }
}

/// Managed memory that is preferred to be at a location.
fn managed_on(cx: Cx, at: &CUmemLocation) -> Result<Of> {
    Ok(Of::Managed(match at.r#type {
        CU_MEM_LOCATION_TYPE_NONE => None,
        _ => Some(Place::of(advised_at(cx, at)?.device())),
    }))
}

/// The default or the present pool of a place.
pub unsafe fn of_location(
    cx: Cx,
    location: *const CUmemLocation,
    kind: CUmemAllocationType,
    default: u32,
) -> Result<CUmemoryPool> {
    // SAFETY: passed on to the caller.
    let of = match unsafe { located(cx, location, kind)? } {
        At::Device(device) => return of_device(cx, device, default),
        At::Seen(of) => of,
    };
    let id = match default {
        0 => host_pool::current(cx, of),
        _ => host_pool::default(cx, of),
    };
    Ok(cx.raw(Kind::MemoryPool, id) as CUmemoryPool)
}

/// The attributes of CUDA 13 end here; the first three are an int, the others 64 bits wide.
const LAST_ATTRIBUTE: u32 = CU_MEMPOOL_ATTR_USED_MEM_HIGH;

const LAST_INT: u32 = CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;

pub fn cuMemFreeAsync(cx: Cx, p: CUdeviceptr, stream: u32) -> Result<()> {
    if p == 0 {
        return Ok(());
    }
    if cx.state().captures.any() && !stream::captures(cx, stream)? {
        cx.must_be_safe()?;
    }
    if cx
        .state()
        .ranges
        .find(p)
        .is_some_and(|r| r.sort == Sort::Device && r.base == p)
    {
        // Memory of cuMemAlloc may be freed in stream order, too.
        cx.synchronize(stream)?;
        return memory::free(cx, p);
    }
    if host_pool::free(cx, p, stream)? {
        return Ok(());
    }
    let m = msg::PoolFree { va: p, stream };
    match pool::forget(cx, p)? {
        Maker::Pool(r) if pool::keep(cx, &r, stream) => Ok(()),
        Maker::Pool(_) => cx.send(&m),
        Maker::Graph => cx.call(&m).map(drop),
    }
}

pub fn cuMemPoolCreate(cx: Cx, props: &CUmemPoolProps) -> Result<u32> {
    refuse_if(props.allocType == 0, CUDA_ERROR_INVALID_VALUE)?;
    if props.allocType == CU_MEM_ALLOCATION_TYPE_MANAGED {
        return of_managed(cx, props);
    }
    refuse_if(props.location.r#type == 0, CUDA_ERROR_INVALID_VALUE)?;
    const DESCRIPTOR: CUmemAllocationHandleType = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    // Those are the only handles that processes of one server can exchange.
    if props.handleTypes & !DESCRIPTOR != 0 || props.allocType != CU_MEM_ALLOCATION_TYPE_PINNED {
        return Err(CUDA_ERROR_NOT_SUPPORTED);
    }
    match props.location.r#type {
        CU_MEM_LOCATION_TYPE_DEVICE => {}
        CU_MEM_LOCATION_TYPE_HOST | CU_MEM_LOCATION_TYPE_HOST_NUMA => {
            return of_host(cx, props);
        }
        _ => return Err(CUDA_ERROR_INVALID_VALUE),
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
    if props.handleTypes != 0 {
        cx.state().recycled.is_shared((props.location.id, pool));
    }
    Ok(pool)
}

/// Makes a pool of host memory, on a node of the server's if one is named.
fn of_host(cx: Cx, props: &CUmemPoolProps) -> Result<u32> {
    let shared = props.handleTypes != 0;
    // No process can share memory that is on no node in particular.
    let nowhere = props.location.r#type == CU_MEM_LOCATION_TYPE_HOST;
    refuse_if(shared && nowhere, CUDA_ERROR_INVALID_VALUE)?;
    // What else a driver refuses is its own to say: it makes such a pool once, of which nothing is
    // taken.
    let tried = cx.create(Kind::MemoryPool);
    let m = msg::PoolCreate {
        pool: tried,
        props: busbar_abi::bytes_of(props),
    };
    let there = cx.call(&m);
    if there.is_ok() {
        cx.send(&msg::CuMemPoolDestroy { pool: tried })?;
    }
    cx.destroy(Kind::MemoryPool, tried);
    there?;
    let file = shared.then(|| host_file::create(POOL, 0, [0; 32]));
    let most = props.maxSize as u64;
    Ok(host_pool::create(cx, Of::Host, most, file.transpose()?))
}

/// Makes a pool of managed memory, which no other process can have, and which has no bound.
fn of_managed(cx: Cx, props: &CUmemPoolProps) -> Result<u32> {
    let bad = props.handleTypes != 0 || props.maxSize != 0;
    refuse_if(bad, CUDA_ERROR_INVALID_VALUE)?;
    Ok(host_pool::create(
        cx,
        managed_on(cx, &props.location)?,
        0,
        None,
    ))
}

pub unsafe fn cuMemSetMemPool(
    cx: Cx,
    location: *mut CUmemLocation,
    kind: CUmemAllocationType,
    pool: u32,
) -> Result<()> {
    // SAFETY: passed on to the caller.
    match unsafe { located(cx, location, kind)? } {
        At::Device(device) => cuDeviceSetMemPool(cx, device, pool),
        At::Seen(Of::Host) => Err(CUDA_ERROR_NOT_SUPPORTED),
        At::Seen(of) => {
            let managed = |p: Arc<HostPool>| p.of != Of::Host;
            let right = host_pool::find(cx, pool).is_some_and(managed);
            refuse_if(!right, CUDA_ERROR_INVALID_VALUE)?;
            lock(&cx.state().known_host_pools).current.insert(of, pool);
            Ok(())
        }
    }
}

pub fn cuDeviceSetMemPool(cx: Cx, dev: CUdevice, pool: u32) -> Result<()> {
    if host_pool::find(cx, pool).is_some() {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
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
    if let Some(host) = host_pool::find(cx, id) {
        return host_pool::destroy(cx, &host);
    }
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
    let host = host_pool::find(cx, pool);
    // Of its own pool another process knows more.
    let is_imported = host.as_ref().is_some_and(|host| host.is_imported());
    if is_imported || !(1..=LAST_ATTRIBUTE).contains(&attribute) {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let v = match host {
        Some(host) => host_pool::attribute(&host, attribute),
        None => cx.reply_to(&msg::PoolAttribute { pool, attribute })?.value,
    };
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
    if let Some(host) = host_pool::find(cx, pool) {
        return host_pool::set_attribute(&host, attribute, value);
    }
    let m = msg::PoolSetAttribute {
        pool,
        attribute,
        value,
    };
    cx.call(&m)?;
    if attribute == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
        && let Some(pool) = pool::known(cx, pool)
    {
        cx.state().recycled.set_threshold(pool, value);
    }
    Ok(())
}

pub fn cuMemPoolTrimTo(cx: Cx, pool: u32, min_bytes_to_keep: usize) -> Result<()> {
    if let Some(host) = host_pool::find(cx, pool) {
        return host_pool::release(cx, host.trim(min_bytes_to_keep as u64));
    }
    let m = msg::CuMemPoolTrimTo {
        pool,
        min_bytes_to_keep: min_bytes_to_keep as u64,
    };
    cx.call(&m).map(drop)
}

const READ_WRITE: u32 = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;

pub unsafe fn cuMemPoolSetAccess(
    cx: Cx,
    pool: u32,
    map: *const CUmemAccessDesc,
    count: usize,
) -> Result<()> {
    refuse_if(map.is_null(), CUDA_ERROR_INVALID_VALUE)?;
    refuse_if(count > 4096, CUDA_ERROR_INVALID_VALUE)?;
    // SAFETY: the program's array of `count` items.
    let list = unsafe { std::slice::from_raw_parts(map, count) };
    let Some(host) = host_pool::find(cx, pool) else {
        let m = msg::CuMemPoolSetAccess {
            pool,
            map: busbar_abi::slice_bytes(list),
            count: count as u64,
        };
        cx.call(&m)?;
        pool::let_in(cx, pool, list);
        return Ok(());
    };
    for d in list {
        match d.location.r#type {
            CU_MEM_LOCATION_TYPE_DEVICE => {
                cx.device(d.location.id)?;
                lock(&host.inside).access.insert(d.location.id, d.flags);
            }
            // The program itself has it all the time.
            _ if d.flags == READ_WRITE => {}
            _ => return Err(CUDA_ERROR_INVALID_VALUE),
        }
    }
    Ok(())
}

pub unsafe fn cuMemPoolGetAccess(
    cx: Cx,
    pool: u32,
    location: *mut CUmemLocation,
) -> Result<CUmemAccess_flags> {
    // SAFETY: the program's structure.
    let location = unsafe { location.as_ref() }.ok_or(CUDA_ERROR_INVALID_VALUE)?;
    if let Some(host) = host_pool::find(cx, pool) {
        if host.of != Of::Host {
            // Everybody has managed memory, and nobody is said to.
            return Ok(CU_MEM_ACCESS_FLAGS_PROT_NONE);
        }
        if location.r#type != CU_MEM_LOCATION_TYPE_DEVICE {
            return Ok(READ_WRITE);
        }
        cx.device(location.id)?;
        let known = lock(&host.inside).access.get(&location.id).copied();
        return Ok(known.unwrap_or(CU_MEM_ACCESS_FLAGS_PROT_NONE));
    }
    let m = msg::CuMemPoolGetAccess {
        mem_pool: pool,
        location: busbar_abi::to_array(location),
    };
    Ok(cx.reply_to(&m)?.flags)
}

pub fn cuMemPoolExportPointer(cx: Cx, p: CUdeviceptr) -> Result<CUmemPoolPtrExportData> {
    if let Some(data) = host_pool::export(cx, p)? {
        return Ok(data);
    }
    let r = cx.reply_to(&msg::CuMemPoolExportPointer { ptr: p })?;
    let reserved = r.share_data_out;
    Ok(CUmemPoolPtrExportData { reserved })
}

pub fn cuMemPoolImportPointer(
    cx: Cx,
    pool: u32,
    data: &CUmemPoolPtrExportData,
) -> Result<CUdeviceptr> {
    if let Some(host) = host_pool::find(cx, pool) {
        return host_pool::import(cx, host, data);
    }
    let m = msg::PoolImportPointer {
        pool,
        data: busbar_abi::bytes_of(data),
    };
    let r = cx.reply_to(&m)?;
    plausible(r.va, r.size)?;
    let of = context::home_on(cx, r.device).map_err(|_| CUDA_ERROR_UNKNOWN)?;
    let flags = pool::POOLED | pool;
    let ranges = &cx.state().ranges;
    ranges.add(r.va, r.size, Sort::Foreign, of, flags);
    Ok(r.va as CUdeviceptr)
}

pub use super::vmm_share::{cuMemPoolExportToShareableHandle, cuMemPoolImportFromShareableHandle};
