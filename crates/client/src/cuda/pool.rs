//! Memory pools: stream-ordered allocation. The driver's own pools serve it, at the worker, so it is
//! the driver that says where such memory lies.

use super::context;
use super::device;
use super::memory::{self, Sort};
use super::runtime::{Cx, decode, enter, guard, put};
use super::stream;
use busbar_abi::cuda::*;
use busbar_wire::generated::cuda::{self as msg, Kind};

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
        let reply = cx.call(&msg::PoolAlloc {
            pool,
            size: size as u64,
            stream,
        })?;
        let va = decode::<msg::PoolAllocReply>(&reply)?.va;
        let device = context::current_device(cx)?;
        memory::add(va, size as u64, Sort::Foreign, context, device, 0);
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
        memory::remove(p, |s| s == Sort::Foreign).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        cx.send(&msg::PoolFree { va: p, stream })
    })
}

/// `cuMemFree` of memory that came from a pool.
pub fn free_now(cx: Cx, p: CUdeviceptr) -> Result<(), CUresult> {
    memory::remove(p, |s| s == Sort::Foreign).ok_or(CUDA_ERROR_INVALID_VALUE)?;
    cx.call(&msg::PoolFreeNow { va: p }).map(drop)
}

unsafe fn of_device(out: *mut CUmemoryPool, dev: CUdevice, default: u32) -> CUresult {
    guard(|| {
        let cx = enter()?;
        device::get(cx, dev)?;
        if out.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let pool = cx.create(Kind::MemoryPool);
        cx.call(&msg::PoolOfDevice {
            pool,
            device: dev,
            default,
        })
        .inspect_err(|_| cx.destroy(Kind::MemoryPool, pool))?;
        // SAFETY: checked for null above; the program's pointer.
        unsafe { put(out, cx.raw(Kind::MemoryPool, pool) as CUmemoryPool) }
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
        let pool = cx.create(Kind::MemoryPool);
        let m = msg::PoolCreate {
            pool,
            props: busbar_abi::bytes_of(&props),
        };
        cx.call(&m)
            .inspect_err(|_| cx.destroy(Kind::MemoryPool, pool))?;
        // SAFETY: checked for null above; the program's pointer.
        unsafe { put(out, cx.raw(Kind::MemoryPool, pool) as CUmemoryPool) }
    })
}
