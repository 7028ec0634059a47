//! Stream-ordered memory.

use super::driver::{capture, is_capturing};
use super::graph_memory;
use super::prelude::*;
use super::state::execs::Allocator;
use super::state::exports::{Memory, fetch};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// The pool that the current context's device allocates from.
fn current(w: &mut Cuda) -> Result<CUmemoryPool> {
    let (mut dev, mut pool) = (0, std::ptr::null_mut());
    // SAFETY: pointers to live values.
    unsafe {
        check(w.cuCtxGetDevice(&mut dev))?;
        check(w.cuDeviceGetMemPool(&mut pool, dev))?;
    }
    // It may be one of the program's, which is on that device, too.
    w.pools.insert(pool as u64, dev);
    Ok(pool)
}

pub fn cu_mem_pool_trim_to(w: &mut Cuda, m: msg::CuMemPoolTrimTo) -> Result {
    let pool = w.handle(Kind::MemoryPool, m.pool)? as CUmemoryPool;
    // SAFETY: a live pool.
    check(unsafe { w.cuMemPoolTrimTo(pool, m.min_bytes_to_keep as usize) })?;
    w.count_pool(pool);
    Ok(())
}

pub fn pool_alloc(w: &mut Cuda, m: msg::PoolAlloc) -> Result<msg::PoolAllocReply> {
    let mut va: CUdeviceptr = 0;
    let stream = w.stream(m.stream)? as CUstream;
    let size = m.size as usize;
    let pool = match m.pool {
        0 => None,
        id => Some(w.handle(Kind::MemoryPool, id)? as CUmemoryPool),
    };
    let counted = pool.map_or_else(|| current(w), Ok);
    // What a capture allocates is its graph's.
    let captured = match w.captures.is_empty() {
        true => None,
        false => capture(w.driver, stream).ok(),
    };
    let captured = captured.filter(|(status, ..)| *status != CU_STREAM_CAPTURE_STATUS_NONE);
    let on = counted.map_or(None, |pool| w.pool_is_on(pool));
    let bytes = if captured.is_some() { 0 } else { m.size };
    let charge = match (w.charge_pool(on, bytes), counted) {
        (Err(_), Ok(pool)) if w.comes_free(pool, stream, bytes) => w.charge_pool(on, bytes)?,
        (charge, _) => charge?,
    };
    // SAFETY: a live stream, a live pool if there is one, and a pointer to a live address.
    check(unsafe {
        match pool {
            None => w.cuMemAllocAsync(&mut va, size, stream),
            Some(p) => w.cuMemAllocFromPoolAsync(&mut va, size, p, stream),
        }
    })?;
    match captured {
        Some((_, _, number)) => {
            let by = Allocator::Capture(number);
            w.graphs.allocated.insert(va, (m.size, by));
        }
        None => {
            let pool = counted.unwrap_or(std::ptr::null_mut());
            w.note_pooled(va, pool, charge);
            if !pool.is_null() {
                w.count_pool(pool);
                // It may have taken more than there is room for.
                if w.has_too_much(on) {
                    // SAFETY: memory that nobody knows of.
                    unsafe { w.cuMemFreeAsync(va, stream) };
                    graph_memory::freed(w, va);
                    return Err(CUDA_ERROR_OUT_OF_MEMORY);
                }
            }
        }
    }
    w.given.memory(va, m.size);
    Ok(msg::PoolAllocReply { va })
}

pub fn pool_free(w: &mut Cuda, m: msg::PoolFree) -> Result {
    let stream = w.stream(m.stream)? as CUstream;
    let va = w.address(m.va)?;
    // SAFETY: an address that the driver checks, and a live stream.
    check(unsafe { w.cuMemFreeAsync(va, stream) })?;
    // What a capture frees its graph will.
    if w.captures.is_empty() || !is_capturing(w.driver, stream) {
        graph_memory::freed(w, va);
    }
    Ok(())
}

pub fn pool_free_now(w: &mut Cuda, m: msg::PoolFreeNow) -> Result {
    let va = w.address(m.va)?;
    // SAFETY: an address that the driver checks.
    check(unsafe { w.cuMemFree_v2(va) })?;
    let pool = w.pooled.get(&va).map(|p| p.pool);
    graph_memory::freed(w, va);
    if let Some(pool) = pool {
        w.count_pool(pool as CUmemoryPool);
    }
    Ok(())
}

pub fn pool_of_device(w: &mut Cuda, m: msg::PoolOfDevice) -> Result<msg::PoolOfDeviceReply> {
    let dev = w.device(m.device)?;
    let mut pool: CUmemoryPool = std::ptr::null_mut();
    // SAFETY: a pointer to a live handle.
    check(unsafe {
        if m.default != 0 {
            w.cuDeviceGetDefaultMemPool(&mut pool, dev)
        } else {
            w.cuDeviceGetMemPool(&mut pool, dev)
        }
    })?;
    w.pools.insert(pool as u64, dev);
    let pool = w.adopt(Kind::MemoryPool, pool as u64, &[]);
    Ok(msg::PoolOfDeviceReply { pool })
}

/// Attributes that are an int; the others are 64 bits wide.
fn is_int(attribute: u32) -> bool {
    const REUSE_INTERNAL: u32 = CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
    attribute <= REUSE_INTERNAL
}

pub fn pool_attribute(w: &mut Cuda, m: msg::PoolAttribute) -> Result<msg::PoolAttributeReply> {
    // Room for either width: an int fills the lower half.
    let mut value = 0u64;
    let pool = w.handle(Kind::MemoryPool, m.pool)? as CUmemoryPool;
    let p = (&raw mut value).cast();
    // SAFETY: a live pool, and room for any attribute.
    check(unsafe { w.cuMemPoolGetAttribute(pool, m.attribute, p) })?;
    Ok(msg::PoolAttributeReply { value })
}

pub fn pool_set_attribute(w: &mut Cuda, m: msg::PoolSetAttribute) -> Result {
    let pool = w.handle(Kind::MemoryPool, m.pool)? as CUmemoryPool;
    let (mut wide, mut int) = (m.value, m.value as u32);
    let p = if is_int(m.attribute) {
        (&raw mut int).cast()
    } else {
        (&raw mut wide).cast()
    };
    // SAFETY: a live pool, and a value as wide as the attribute.
    check(unsafe { w.cuMemPoolSetAttribute(pool, m.attribute, p) })?;
    w.count_pool(pool);
    Ok(())
}

pub fn pool_create(w: &mut Cuda, m: msg::PoolCreate<'_>) -> Result<(), Fail> {
    let mut props: CUmemPoolProps = plain(m.props)?;
    w.locate(&mut props.location)?;
    props.win32SecurityAttributes = std::ptr::null_mut();
    let mut pool: CUmemoryPool = std::ptr::null_mut();
    // SAFETY: pointers to live values.
    check(unsafe { w.cuMemPoolCreate(&mut pool, &props) })?;
    if props.location.r#type == CU_MEM_LOCATION_TYPE_DEVICE {
        w.pools.insert(pool as u64, props.location.id);
    }
    w.made(&m, pool as u64);
    Ok(())
}

const DESCRIPTOR: CUmemAllocationHandleType = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

pub fn pool_export(w: &mut Cuda, m: msg::PoolExport) -> Result<msg::PoolExportReply> {
    let pool = w.handle(Kind::MemoryPool, m.pool)? as CUmemoryPool;
    let d = w.driver;
    let open = || {
        let mut fd = -1i32;
        let out = (&raw mut fd).cast();
        // SAFETY: a live pool and a pointer to a live value; the descriptor that comes is ours.
        unsafe {
            check(d.cuMemPoolExportToShareableHandle(out, pool, DESCRIPTOR, 0))?;
            Ok(OwnedFd::from_raw_fd(fd))
        }
    };
    let (tag, secret) = w.exports.offer(Memory::Pool(m.pool), 0, open)?;
    Ok(msg::PoolExportReply { tag, secret })
}

pub fn pool_import(w: &mut Cuda, m: msg::PoolImport) -> Result {
    let (file, _) = fetch(&m.tag, &m.secret)?;
    let os_handle = std::ptr::without_provenance_mut(file.as_raw_fd() as usize);
    let mut pool: CUmemoryPool = std::ptr::null_mut();
    // SAFETY: a pointer to a live handle, and a descriptor that lives through the call.
    check(unsafe { w.cuMemPoolImportFromShareableHandle(&mut pool, os_handle, DESCRIPTOR, 0) })?;
    w.made(&m, pool as u64);
    Ok(())
}

pub fn pool_import_pointer(
    w: &mut Cuda,
    m: msg::PoolImportPointer<'_>,
) -> Result<msg::PoolImportPointerReply, Fail> {
    let mut data: CUmemPoolPtrExportData = plain(m.data)?;
    let pool = w.handle(Kind::MemoryPool, m.pool)? as CUmemoryPool;
    let (mut va, mut size, mut device) = (0, 0u64, 0i32);
    // It is the exporter's session that has the bytes: they go when it frees them, whoever else
    // knows them.
    let charge = w.charge(Use::Pool, None, 0)?;
    // SAFETY: a live pool, and pointers to live values of the sizes that are asked for.
    unsafe {
        let d = w.driver;
        check(d.cuMemPoolImportPointer(&mut va, pool, &mut data))?;
        // Not by cuMemGetAddressRange, which needs a context; the import needs none.
        let (bytes, ordinal) = (
            CU_POINTER_ATTRIBUTE_RANGE_SIZE,
            CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
        );
        check(d.cuPointerGetAttribute((&raw mut size).cast(), bytes, va))?;
        check(d.cuPointerGetAttribute((&raw mut device).cast(), ordinal, va))?;
    }
    let seen = w.devices.iter().position(|d| *d == device);
    let device = seen.ok_or(CUDA_ERROR_INVALID_DEVICE)? as i32;
    w.given.memory(va, size);
    w.note_pooled(va, std::ptr::null_mut(), charge);
    Ok(msg::PoolImportPointerReply { va, size, device })
}
