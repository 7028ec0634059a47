//! Memory pools: stream-ordered allocation.
//!
//! Memory is there when the call returns and goes when the stream comes to the free, so what a
//! program may do with it in stream order works, and nothing is kept back in the pool.

use crate::capture;
use crate::context;
use crate::device;
use crate::entry::{Flavour, api};
use crate::ffi::*;
use crate::graph_memory::{self, GraphMemory};
use crate::handle::{self, Table};
use crate::memory::{self, Kind};
use crate::stream;
use crate::work::Work;
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

static POOLS: Table<Pool> = Table::new();

const RELEASE_THRESHOLD: i32 = 4;

/// A pool on one device.
pub struct Pool {
    handle: usize,
    device: usize,
    default: bool,
    max: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    settings: HashMap<i32, u64>,
    used: u64,
    high: u64,
}

impl Pool {
    /// A pool, entered in the table.
    pub fn new(device: usize, default: bool, max: usize) -> Arc<Pool> {
        let state = Mutex::default();
        let pool = Arc::new(Pool {
            handle: handle::fresh(),
            device,
            default,
            max,
            state,
        });
        POOLS.insert(pool.handle, pool.clone());
        pool
    }

    /// Its handle.
    pub fn handle(&self) -> usize {
        self.handle
    }

    fn allocate(&self, size: usize, context: usize) -> R<u64> {
        let mut state = self.state.lock().unwrap();
        if self.max != 0 && state.used + size as u64 > self.max as u64 {
            return Err(OUT_OF_MEMORY);
        }
        let address = memory::allocate(Kind::Pool, size, context, self.device, self.handle)?;
        state.used += size as u64;
        state.high = state.high.max(state.used);
        Ok(address)
    }
}

/// Counts memory out of its pool.
pub fn gave_back(pool: usize, size: usize) {
    if let Ok(pool) = POOLS.get(pool) {
        let mut state = pool.state.lock().unwrap();
        state.used = state.used.saturating_sub(size as u64);
    }
}

fn pool_of(handle: CUmemoryPool) -> R<Arc<Pool>> {
    device::initialized()?;
    POOLS.get(handle).map_err(|_| INVALID_VALUE)
}

fn allocate(
    out: *mut CUdeviceptr,
    size: usize,
    pool: Option<CUmemoryPool>,
    stream: CUstream,
    flavour: Flavour,
) -> Res {
    let (stream, context) = stream::resolve(stream, flavour)?;
    if out.is_null() || size == 0 {
        return Err(INVALID_VALUE);
    }
    let pool = pool_of(pool.unwrap_or_else(|| device::get(context.device).pool()))?;
    if stream.capture.lock().unwrap().is_some() {
        let memory = GraphMemory::captured(size, &context)?;
        let address = memory.address();
        stream::submit_to(&stream, &context, Work::Allocate(memory))?;
        // SAFETY: not null, and valid by the caller's contract.
        return unsafe { put(out, address) };
    }
    // SAFETY: not null, and valid by the caller's contract.
    unsafe { put(out, pool.allocate(size, context.handle)?) }
}

fn located(location: *const Location) -> R<usize> {
    // SAFETY: the caller's pointer is null or valid, as its header says.
    let location = unsafe { get(location)? };
    if location.kind != LOCATION_DEVICE {
        return Err(NOT_SUPPORTED);
    }
    device::by_ordinal(location.id)
}

api! {
    fn [cuMemAllocAsync; cuMemAllocAsync_ptsz] (
        out: *mut CUdeviceptr, size: usize, stream: CUstream,
    ) {
        allocate(out, size, None, stream, FLAVOUR)
    }

    fn [cuMemAllocFromPoolAsync; cuMemAllocFromPoolAsync_ptsz] (
        out: *mut CUdeviceptr, size: usize, pool: CUmemoryPool, stream: CUstream,
    ) {
        allocate(out, size, Some(pool), stream, FLAVOUR)
    }

    fn [cuMemFreeAsync; cuMemFreeAsync_ptsz] (address: CUdeviceptr, stream: CUstream) {
        let (stream, context) = stream::resolve(stream, FLAVOUR)?;
        let range = memory::find(address).filter(|range| range.base == address);
        let range = range.ok_or(INVALID_VALUE)?;
        match range.kind {
            Kind::Graph => {
                let memory = match capture::of(&stream)? {
                    Some(_) => graph_memory::find(address)?,
                    None => graph_memory::take(address)?,
                };
                stream::submit_to(&stream, &context, Work::Free(memory))
            }
            Kind::Pool if range.going.swap(true, Ordering::AcqRel) => Err(INVALID_VALUE),
            Kind::Pool => stream::submit_to(&stream, &context, Work::FreeAsync(address))
                .inspect_err(|_| range.going.store(false, Ordering::Release)),
            _ => Err(NOT_SUPPORTED),
        }
    }

    fn [cuMemPoolCreate] (out: *mut CUmemoryPool, props: *const PoolProps) {
        device::initialized()?;
        let props = get(props)?;
        if out.is_null() || props.alloc_type != 1 {
            return Err(INVALID_VALUE);
        }
        let device = located(&props.location)?;
        put(out, Pool::new(device, false, props.max_size).handle)
    }

    fn [cuMemPoolDestroy] (pool: CUmemoryPool) {
        if pool_of(pool)?.default {
            return Err(INVALID_VALUE);
        }
        let pool = POOLS.remove(pool)?;
        for device in 0..device::count() {
            device::get(device).forget_pool(pool.handle);
        }
        Ok(())
    }

    fn [cuMemPoolTrimTo] (pool: CUmemoryPool, _keep: usize) {
        pool_of(pool).map(drop)
    }

    fn [cuMemPoolSetAttribute] (pool: CUmemoryPool, which: i32, value: *const c_void) {
        let pool = pool_of(pool)?;
        let value = match which {
            1..=3 => get(value.cast::<i32>())? as u64,
            RELEASE_THRESHOLD => get(value.cast::<u64>())?,
            6 | 8 => {
                // A high-water mark can only be set back.
                if get(value.cast::<u64>())? != 0 {
                    return Err(INVALID_VALUE);
                }
                let mut state = pool.state.lock().unwrap();
                state.high = state.used;
                return Ok(());
            }
            _ => return Err(INVALID_VALUE),
        };
        pool.state.lock().unwrap().settings.insert(which, value);
        Ok(())
    }

    fn [cuMemPoolGetAttribute] (pool: CUmemoryPool, which: i32, value: *mut c_void) {
        let pool = pool_of(pool)?;
        let state = pool.state.lock().unwrap();
        match which {
            1..=3 => put(value.cast(), state.settings.get(&which).map_or(1, |v| *v as i32)),
            RELEASE_THRESHOLD => {
                put(value.cast(), state.settings.get(&which).copied().unwrap_or(0))
            }
            5 | 7 => put(value.cast(), state.used),
            6 | 8 => put(value.cast(), state.high),
            _ => Err(INVALID_VALUE),
        }
    }

    fn [cuMemPoolSetAccess] (pool: CUmemoryPool, descs: *const AccessDesc, count: usize) {
        pool_of(pool)?;
        for desc in list(descs, count)? {
            located(&desc.location)?;
        }
        Ok(())
    }

    fn [cuMemPoolGetAccess] (out: *mut i32, pool: CUmemoryPool, location: *const Location) {
        pool_of(pool)?;
        located(location)?;
        put(out, 3)
    }

    fn [cuDeviceGetDefaultMemPool] (out: *mut CUmemoryPool, device: CUdevice) {
        put(out, device::get(device::by_ordinal(device)?).default_pool())
    }

    fn [cuDeviceGetMemPool] (out: *mut CUmemoryPool, device: CUdevice) {
        put(out, device::get(device::by_ordinal(device)?).pool())
    }

    fn [cuDeviceSetMemPool] (device: CUdevice, pool: CUmemoryPool) {
        let device = device::by_ordinal(device)?;
        if pool_of(pool)?.device != device {
            return Err(INVALID_VALUE);
        }
        device::get(device).set_pool(pool);
        Ok(())
    }

    fn [cuMemGetDefaultMemPool] (out: *mut CUmemoryPool, location: *const Location, kind: i32) {
        device::initialized()?;
        if kind != 1 {
            return Err(NOT_SUPPORTED);
        }
        put(out, device::get(located(location)?).default_pool())
    }

    fn [cuMemGetMemPool] (out: *mut CUmemoryPool, location: *const Location, kind: i32) {
        device::initialized()?;
        if kind != 1 {
            return Err(NOT_SUPPORTED);
        }
        put(out, device::get(located(location)?).pool())
    }

    fn [cuMemSetMemPool] (location: *const Location, kind: i32, pool: CUmemoryPool) {
        let device = located(location)?;
        if kind != 1 || pool_of(pool)?.device != device {
            return Err(INVALID_VALUE);
        }
        device::get(device).set_pool(pool);
        Ok(())
    }

    fn [cuMemPrefetchAsync; cuMemPrefetchAsync_ptsz] (
        address: CUdeviceptr, size: usize, _device: CUdevice, stream: CUstream,
    ) {
        prefetch(address, size, stream, FLAVOUR)
    }

    fn [cuMemPrefetchAsync_v2; cuMemPrefetchAsync_v2_ptsz] (
        address: CUdeviceptr, size: usize, _where: Location, _flags: u32, stream: CUstream,
    ) {
        prefetch(address, size, stream, FLAVOUR)
    }

    fn [cuStreamAttachMemAsync; cuStreamAttachMemAsync_ptsz] (
        stream: CUstream, address: CUdeviceptr, _size: usize, flags: u32,
    ) {
        context::current()?;
        let managed = memory::find(address).is_some_and(|range| range.kind == Kind::Managed);
        if !managed || !matches!(flags, 1 | 2 | 4) {
            return Err(INVALID_VALUE);
        }
        stream::submit(stream, FLAVOUR, Work::Empty)
    }
}

fn prefetch(address: CUdeviceptr, size: usize, stream: CUstream, flavour: Flavour) -> Res {
    let managed = memory::find(address).filter(|range| range.kind == Kind::Managed);
    let end = address.checked_add(size as u64).ok_or(INVALID_VALUE)?;
    if size == 0 || end > managed.ok_or(INVALID_VALUE)?.end() {
        return Err(INVALID_VALUE);
    }
    stream::submit(stream, flavour, Work::Empty)
}

/// How many pools there are, for the leak count.
pub fn live() -> usize {
    POOLS.len()
}
