//! Memory pools: stream-ordered allocation.
//!
//! Memory is there when the call returns and goes when the stream comes to the free, so what a
//! program may do with it in stream order works. What a pool keeps of that is a number: as much as
//! its release threshold says, until it is trimmed.

use super::device;
use super::handle::{self, Given, Table};
use super::memory::{self, Kind};
use crate::ffi::*;
use std::collections::HashMap;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

/// All pools, by handle.
pub static POOLS: Table<Pool> = Table::new();

/// A pool on one device.
pub struct Pool {
    /// Its handle.
    pub handle: usize,
    /// Its device.
    pub device: usize,
    /// Whether the device came with it.
    pub default: bool,
    /// Whether its memory is the host's.
    pub host: bool,
    /// The memory of a pool that other processes may import: what they map, too.
    pub file: Option<OwnedFd>,
    /// Whether another process has made it.
    pub imported: bool,
    max: usize,
    /// What was set on it, and how much it has given.
    pub state: Mutex<State>,
}

/// What changes of a pool.
#[derive(Default)]
pub struct State {
    /// Attributes that were set.
    pub settings: HashMap<i32, u64>,
    /// The bytes in use.
    pub used: u64,
    /// The most that were in use.
    pub high: u64,
    /// Bytes of what is freed in stream order and not yet by its stream. Below none where that was
    /// quicker than whoever had it freed.
    going: i64,
    /// The bytes that it has of its device.
    pub reserved: u64,
    /// The most that it had.
    pub reserved_high: u64,
    /// Where the next memory begins in the file.
    next: u64,
    /// Where memory is in the file, by address.
    pub places: HashMap<u64, u64>,
}

/// How much a pool keeps by itself.
pub const RELEASE_THRESHOLD: i32 = 4;

impl State {
    /// What is there.
    fn there(&self) -> u64 {
        self.used.saturating_add_signed(self.going)
    }

    /// Gives back what is not there, down to so many bytes.
    pub fn trim(&mut self, keep: u64) {
        self.reserved = self.reserved.min(self.there().max(keep));
    }
}

/// Bytes of the file of a pool; only what is used is there.
const FILE: u64 = 1 << 32;

impl Pool {
    /// A pool, entered in the table.
    pub fn new(device: usize, default: bool, max: usize) -> Arc<Pool> {
        Self::with(device, default, max, (false, false, None))
    }

    /// A pool of the host's memory, or one that has a file, which may be another process's.
    pub fn with(
        device: usize,
        default: bool,
        max: usize,
        (host, imported, file): (bool, bool, Option<OwnedFd>),
    ) -> Arc<Pool> {
        let state = Mutex::default();
        let pool = Arc::new(Pool {
            handle: handle::fresh(),
            device,
            default,
            host,
            file,
            imported,
            max,
            state,
        });
        POOLS.insert(pool.handle, pool.clone());
        pool
    }

    /// Memory of the pool.
    pub fn allocate(&self, size: usize, context: usize) -> R<u64> {
        let mut state = self.state.lock().unwrap();
        if self.imported {
            return Err(INVALID_VALUE);
        }
        if self.max != 0 && state.used + size as u64 > self.max as u64 {
            return Err(OUT_OF_MEMORY);
        }
        let address = memory::allocate(Kind::Pool, size, context, self.device, self.handle)?;
        if self.file.is_some() {
            let place = state.next;
            state.next += size.next_multiple_of(4096) as u64;
            self.map(address, place, size)?;
            state.places.insert(address, place);
        }
        state.used += size as u64;
        state.high = state.high.max(state.used);
        state.reserved = state.reserved.max(state.there());
        state.reserved_high = state.reserved_high.max(state.reserved);
        Ok(address)
    }

    /// Maps part of the pool's file where fresh memory is.
    pub fn map(&self, address: u64, place: u64, size: usize) -> Res {
        let file = self.file.as_ref().ok_or(INVALID_VALUE)?;
        // SAFETY: fresh memory of ours of that size, which nobody uses yet.
        let p = unsafe {
            libc::mmap(
                address as *mut libc::c_void,
                size.next_multiple_of(4096),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_FIXED,
                file.as_raw_fd(),
                place as libc::off_t,
            )
        };
        if p == libc::MAP_FAILED {
            return Err(OUT_OF_MEMORY);
        }
        Ok(())
    }
}

/// A file for a pool of a device that other processes may import: its length says of which.
pub fn file(device: usize) -> R<OwnedFd> {
    // SAFETY: a C string; the descriptor that comes is ours.
    unsafe {
        let fd = libc::memfd_create(c"fakedev-pool".as_ptr(), libc::MFD_CLOEXEC);
        if fd < 0 || libc::ftruncate(fd, (FILE + device as u64) as libc::off_t) != 0 {
            return Err(OPERATING_SYSTEM);
        }
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// The device of a pool whose file has this length.
pub fn device_of(length: u64) -> Option<usize> {
    let device = usize::try_from(length.checked_sub(FILE)?).ok();
    device.filter(|d| *d < device::count())
}

/// The pool of a handle.
pub fn by_handle(handle: CUmemoryPool) -> R<Arc<Pool>> {
    device::initialized()?;
    POOLS.get(handle).map_err(|_| INVALID_VALUE)
}

/// What a device may do with a pool's memory is a setting of the pool's, by this and its number.
pub const ACCESS: i32 = 1000;

/// Whether a device that is not the pool's own may use its memory.
pub fn lets_in(pool: CUmemoryPool, device: usize) -> bool {
    let key = ACCESS + device as i32;
    let set = |pool: Arc<Pool>| pool.state.lock().unwrap().settings.get(&key).copied();
    POOLS
        .get(pool)
        .ok()
        .and_then(set)
        .is_some_and(|flags| flags != 0)
}

/// The pool that a device came with.
pub fn default_of(device: usize) -> CUmemoryPool {
    let fresh = || Pool::new(device, true, 0).handle;
    device::get(device).default_pool.get(fresh)
}

/// The pool of host memory that no program made.
pub fn of_host() -> CUmemoryPool {
    OF_HOST.get(|| Pool::with(0, true, 0, (true, false, None)).handle)
}

static OF_HOST: Given = Given::new();

/// Forgets all pools.
pub fn reset() {
    OF_HOST.forget();
    POOLS.clear();
}

/// The pool that allocations without one come from.
pub fn current_of(device: usize) -> CUmemoryPool {
    match device::get(device).pool.load(Ordering::Acquire) {
        0 => default_of(device),
        pool => pool,
    }
}

/// Ends a pool; devices that it was the current one of fall back to their default pools.
pub fn destroy(handle: CUmemoryPool) -> Res {
    POOLS.remove(handle)?;
    for device in 0..device::count() {
        let pool = &device::get(device).pool;
        let _ = pool.compare_exchange(handle, 0, Ordering::AcqRel, Ordering::Relaxed);
    }
    Ok(())
}

/// What is freed in stream order counts as used no longer, though the stream has yet to come to it:
/// so it is with a driver (580, H100).
pub fn not_used(range: &memory::Range) {
    if let Ok(pool) = POOLS.get(range.owner) {
        let mut state = pool.state.lock().unwrap();
        state.used = state.used.saturating_sub(range.size as u64);
        state.going += range.size as i64;
    }
}

/// Frees an allocation of a pool.
pub fn free(base: u64) -> Res {
    let range = memory::remove(base, |range| range.kind == Kind::Pool).ok_or(ILLEGAL_ADDRESS)?;
    if !range.going.load(Ordering::Acquire) {
        not_used(&range);
    }
    memory::release(&range);
    if let Ok(pool) = POOLS.get(range.owner) {
        let mut state = pool.state.lock().unwrap();
        state.going -= range.size as i64;
        let keep = state.settings.get(&RELEASE_THRESHOLD).copied();
        state.trim(keep.unwrap_or(0));
    }
    Ok(())
}

/// Frees what a context allocated.
pub fn drop_context(context: usize) {
    let ours = |range: &&Arc<memory::Range>| range.context == context && range.kind == Kind::Pool;
    for range in memory::all().iter().filter(ours) {
        let _ = free(range.base);
    }
}

/// How many pools programs have made.
pub fn live() -> usize {
    POOLS.all().iter().filter(|pool| !pool.default).count()
}
