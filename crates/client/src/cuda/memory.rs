//! Device memory, page-locked host memory, and what is known of a pointer.

use super::context;
use super::handles;
use super::runtime::{Cx, enter, enter_local, guard, put, put_opt};
use super::shadow;
use super::shared;
use super::space::{self, Alloc, Release, Space};
use busbar_abi::cuda::*;
use busbar_wire::generated::cuda::{self as msg, Kind};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

/// What kind of memory a range is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    /// `cuMemAlloc`: lies where [`Space`] put it.
    Device,
    /// On the device, but not ours to free: a module's variable, a pool's allocation, a mapping.
    Foreign,
    /// `cuMemHostAlloc`.
    Host,
    /// `cuMemHostRegister`.
    Registered,
    /// `cuMemAllocManaged`, or a managed variable of a module.
    Managed,
    /// Another process's memory; see [`super::ipc`].
    Imported,
}

impl Sort {
    /// Whether it is the program's own memory, page-locked.
    pub fn is_page_locked(self) -> bool {
        matches!(self, Self::Host | Self::Registered)
    }
}

/// Set in the flags of device memory whose copies the program wants to be synchronous.
pub const ORDERED: u32 = 1 << 31;

/// A range of memory that CUDA knows.
#[derive(Debug, Clone, Copy)]
pub struct Range {
    /// Its first address.
    pub base: u64,
    /// Its length in bytes.
    pub size: u64,
    /// What it is.
    pub sort: Sort,
    /// The context it was made in.
    pub context: u32,
    /// The program's ordinal of its device.
    pub device: CUdevice,
    /// Flags of host memory; of a device's, [`ORDERED`] and what its maker keeps here.
    pub flags: u32,
    /// A number that no other allocation of the process has.
    pub serial: u64,
}

static RANGES: RwLock<BTreeMap<u64, Range>> = RwLock::new(BTreeMap::new());
static SPACES: Mutex<BTreeMap<u32, Space>> = Mutex::new(BTreeMap::new());
static SERIAL: AtomicU64 = AtomicU64::new(1);

/// The known range that holds `p`.
pub fn find(p: u64) -> Option<Range> {
    let ranges = RANGES.read().unwrap_or_else(PoisonError::into_inner);
    let (_, r) = ranges.range(..=p).next_back()?;
    (p - r.base < r.size.max(1)).then_some(*r)
}

/// The page-locked memory that holds an address.
pub fn find_page_locked(p: u64) -> Option<Range> {
    find(p).filter(|r| r.sort.is_page_locked())
}

/// Makes a range known.
pub fn add(base: u64, size: u64, sort: Sort, context: u32, device: CUdevice, flags: u32) {
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    let r = Range {
        base,
        size,
        sort,
        context,
        device,
        flags,
        serial,
    };
    RANGES
        .write()
        .unwrap_or_else(PoisonError::into_inner)
        .insert(base, r);
}

/// Whether an address that the worker says may be one of device memory, of so many bytes. The
/// program gets the number; nothing here looks behind it.
pub fn plausible(va: u64, size: u64) -> Result<(), CUresult> {
    const LOWEST: u64 = 1 << 16;
    let end = va.checked_add(size);
    if va < LOWEST || end.is_none_or(|end| end > 1 << 57) {
        crate::log!(
            Error,
            "the worker says that {size} bytes of memory are at {va:#x}"
        );
        return Err(CUDA_ERROR_UNKNOWN);
    }
    Ok(())
}

/// Makes a module's variable known.
pub fn add_variable(
    va: u64,
    size: u64,
    managed: bool,
    context: u32,
    device: CUdevice,
) -> Result<(), CUresult> {
    plausible(va, size)?;
    if managed {
        shadow::add_variable(va, size, context)?;
    }
    let sort = if managed {
        Sort::Managed
    } else {
        Sort::Foreign
    };
    add(va, size, sort, context, device, 0);
    Ok(())
}

/// Forgets the range that begins at `base`, if it is of a sort that `which` accepts.
pub fn remove(base: u64, which: impl Fn(Sort) -> bool) -> Option<Range> {
    take(base, |r| which(r.sort))
}

/// As [`remove`], for a range that `which` accepts.
pub fn take(base: u64, which: impl Fn(&Range) -> bool) -> Option<Range> {
    let mut ranges = RANGES.write().unwrap_or_else(PoisonError::into_inner);
    ranges.get(&base).filter(|r| which(r))?;
    ranges.remove(&base)
}

impl Range {
    /// Whether all of `len` bytes at `p`, an address of this range, are in it.
    pub fn holds(&self, p: u64, len: usize) -> bool {
        (p - self.base).saturating_add(len as u64) <= self.size
    }
}

/// Whether `len` bytes at `p` are all in memory that a device has, be it one range or several side
/// by side.
pub fn is_on_device(mut p: u64, len: usize) -> bool {
    let Some(end) = p.checked_add(len as u64) else {
        return false;
    };
    while p < end {
        match find(p) {
            Some(r) if !r.sort.is_page_locked() => p = r.base + r.size,
            _ => return false,
        }
    }
    true
}

/// Whether memory at `p` moves by itself.
pub fn is_managed(p: u64) -> bool {
    find(p).is_some_and(|r| r.sort == Sort::Managed)
}

/// Whether `len` bytes at `p` are page-locked host memory.
pub fn is_pinned(p: u64, len: usize) -> bool {
    find_page_locked(p).is_some_and(|r| r.holds(p, len))
}

/// A context is gone, and the device memory in it: what the worker is to unmap.
pub fn forget_context(id: u32, device: CUdevice) -> Vec<(u64, u64)> {
    shadow::forget_context(id);
    let mut unmapped = Vec::new();
    super::ipc::forget_context(id, |device, at, size| {
        unmapped.extend(unplace(device as u32, at, size));
    });
    let gone: Vec<Range> = {
        let mut ranges = RANGES.write().unwrap_or_else(PoisonError::into_inner);
        let of_it = |r: &Range| r.context == id && !r.sort.is_page_locked();
        let gone = ranges.values().filter(|r| of_it(r)).copied().collect();
        ranges.retain(|_, r| !of_it(r));
        gone
    };
    for r in gone {
        match r.sort {
            Sort::Device => unmapped.extend(unplace(r.device as u32, r.base, r.size)),
            Sort::Managed if r.flags != 0 => unmapped.extend(super::managed::release(&r)),
            _ => {}
        }
    }
    let trim = |range| spaces().get_mut(&range).map_or_else(Vec::new, Space::trim);
    unmapped.extend(trim(device as u32));
    for (at, bytes) in trim(space::MANAGED) {
        unmap_host(at, bytes);
        unmapped.push((at, bytes));
    }
    unmapped
}

fn spaces() -> MutexGuard<'static, BTreeMap<u32, Space>> {
    SPACES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Allocates device memory in the current context.
pub fn alloc(cx: Cx, size: usize) -> Result<u64, CUresult> {
    let context = cx.need_context()?;
    let device = context::current_device(cx)?;
    super::stream::must_be_safe(cx)?;
    if size == 0 {
        return Err(CUDA_ERROR_INVALID_VALUE);
    }
    let at = place(device as u32, size as u64, |va, size| {
        cx.call(&msg::MemMapAt { va, size, device }).map(drop)
    })?;
    add(at, size as u64, Sort::Device, context, device, 0);
    Ok(at)
}

/// Finds room in a range of addresses, and has what is missing there mapped by `map`.
pub fn place(
    range: u32,
    size: u64,
    map: impl FnOnce(u64, u64) -> Result<(), CUresult>,
) -> Result<u64, CUresult> {
    let found = spaces()
        .entry(range)
        .or_insert_with(|| Space::new(range))
        .alloc(size);
    match found.ok_or(CUDA_ERROR_OUT_OF_MEMORY)? {
        Alloc::Ready(at) => Ok(at),
        Alloc::Map { at, bytes } => {
            let mapped = map(at, bytes);
            let mut s = spaces();
            let Some(space) = s.get_mut(&range) else {
                return Err(CUDA_ERROR_UNKNOWN);
            };
            if let Err(e) = mapped {
                space.failed(at, bytes);
                return Err(e);
            }
            space.mapped(at, size);
            Ok(at)
        }
    }
}

/// The bytes of the mapping that an allocation has for itself, if it has one.
pub fn whole(size: u64) -> Option<u64> {
    (size >= space::LARGE).then(|| size.next_multiple_of(space::GRANULE))
}

/// Gives room back; what is to be unmapped there, if anything. It is nobody's until [`vacant`] is
/// told that it is.
pub fn unplace(range: u32, at: u64, size: u64) -> Option<(u64, u64)> {
    match spaces().get_mut(&range).map(|s| s.free(at, size)) {
        Some(Release::Unmap { at, bytes }) => Some((at, bytes)),
        _ => None,
    }
}

/// Something that [`unplace`] gave is unmapped, or will be before anything else is mapped there: it
/// may be anybody's.
pub fn vacant(at: u64, bytes: u64) {
    if let Some(range) = space::number(at)
        && let Some(s) = spaces().get_mut(&range)
    {
        s.vacant(at, bytes);
    }
}

pub(super) unsafe fn cuMemAlloc_v2(out: *mut CUdeviceptr, size: usize) -> CUresult {
    guard(|| {
        let cx = enter()?;
        if out.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let at = alloc(cx, size)?;
        // SAFETY: checked for null above; the program's pointer.
        unsafe { put(out, at as CUdeviceptr) }
    })
}

/// Alignment of the rows of pitched memory.
const PITCH: usize = 512;

pub(super) unsafe fn cuMemAllocPitch_v2(
    out: *mut CUdeviceptr,
    pitch: *mut usize,
    width: usize,
    height: usize,
    element: u32,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        if out.is_null() || pitch.is_null() || width == 0 || height == 0 {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        if !matches!(element, 4 | 8 | 16) {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let row = width
            .checked_next_multiple_of(PITCH)
            .ok_or(CUDA_ERROR_INVALID_VALUE)?;
        let at = alloc(cx, row.checked_mul(height).ok_or(CUDA_ERROR_OUT_OF_MEMORY)?)?;
        // SAFETY: checked for null above; the program's pointers.
        unsafe {
            put(out, at as CUdeviceptr)?;
            put(pitch, row)
        }
    })
}

pub(super) unsafe fn cuMemFree_v2(p: CUdeviceptr) -> CUresult {
    guard(|| {
        let cx = enter()?;
        if p == 0 {
            return Ok(());
        }
        // A module's managed variable has no flags, and is not the program's to free.
        let free = |r: &Range| r.sort == Sort::Device || r.sort == Sort::Managed && r.flags != 0;
        let found = find(p).filter(|r| r.base == p && free(r));
        let Some(r) = found.and_then(|r| remove(p, |s| s == r.sort)) else {
            return super::pool::free_now(cx, p);
        };
        // In the context the memory was made in: it is that one's work that must be over first.
        let cx = Cx {
            scope: r.context,
            ..cx
        };
        if r.sort == Sort::Device {
            return super::retire::retire(cx, r.device as u32, r.base, r.size);
        }
        shadow::forget_managed(r.base);
        super::managed::close(&r);
        super::retire::retire(cx, space::MANAGED, r.base, r.size)
    })
}

pub(super) unsafe fn cuMemGetAddressRange_v2(
    base: *mut CUdeviceptr,
    size: *mut usize,
    p: CUdeviceptr,
) -> CUresult {
    guard(|| {
        enter_local()?;
        let r = find(p)
            .filter(|_| super::vmm::access(p) != Some(0))
            .ok_or(CUDA_ERROR_NOT_FOUND)?;
        // SAFETY: the program's pointers; either may be null.
        unsafe {
            put_opt(base, r.base as CUdeviceptr);
            put_opt(size, r.size as usize);
        }
        Ok(())
    })
}

/// Bytes of whole pages.
pub fn pages(size: u64) -> u64 {
    size.max(1).next_multiple_of(4096)
}

/// Maps fresh memory of the program's at an address of one of our ranges.
pub fn map_fixed(at: u64, len: u64, rights: i32) -> Result<(), CUresult> {
    let flags =
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    // SAFETY: a new mapping that replaces nothing.
    let p = unsafe { libc::mmap(at as *mut c_void, len as usize, rights, flags, -1, 0) };
    if p as u64 == at {
        return Ok(());
    }
    if p != libc::MAP_FAILED {
        unmap_host(p as u64, len);
    }
    Err(CUDA_ERROR_OUT_OF_MEMORY)
}

/// Unmaps memory of the program's that was ours to map.
pub fn unmap_host(at: u64, len: u64) {
    // SAFETY: a mapping of ours that nobody uses any more.
    unsafe { libc::munmap(at as *mut c_void, len as usize) };
}

/// Maps device memory through which kernels see memory that lies elsewhere in the program.
pub fn map_window(cx: Cx, size: u64, device: CUdevice) -> Result<u64, CUresult> {
    // Whole granules, so that a window can be freed by its address and size alone.
    let size = size.next_multiple_of(space::GRANULE);
    place(space::WINDOW, size, |va, size| {
        cx.call(&msg::MemMapAt { va, size, device }).map(drop)
    })
}

fn host_map(size: usize) -> Result<u64, CUresult> {
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    // In a range that is free in the worker as well: a kernel finds it at the same address.
    place(space::HOST, size as u64, |at, len| {
        map_fixed(at, len, rights)
    })
}

fn host_alloc(out: *mut *mut c_void, size: usize, flags: u32) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let context = cx.need_context()?;
        let device = context::current_device(cx)?;
        if out.is_null() || flags & !0x27 != 0 {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        super::stream::must_be_safe(cx)?;
        if size == 0 {
            // SAFETY: checked for null above; the program's pointer.
            return unsafe { put(out, std::ptr::null_mut()) };
        }
        let shared = shared::alloc(cx, size as u64);
        let p = shared.map_or_else(|| host_map(size), Ok)?;
        add(p, size as u64, Sort::Host, context, device, flags);
        if shared.is_none() {
            shadow::has_host_memory(None);
        }
        // SAFETY: checked for null above; the program's pointer.
        unsafe { put(out, p as *mut c_void) }
    })
}

pub(super) unsafe fn cuMemHostAlloc(out: *mut *mut c_void, size: usize, flags: u32) -> CUresult {
    host_alloc(out, size, flags)
}

pub(super) unsafe fn cuMemAllocHost_v2(out: *mut *mut c_void, size: usize) -> CUresult {
    host_alloc(out, size, 0)
}

/// Waits until no queued copy needs the program's own bytes any more.
pub fn settle(cx: Cx) {
    if cx.rt.session.drain().is_ok() {
        super::copy::wait_for_copies(cx);
    }
}

pub(super) unsafe fn cuMemFreeHost(p: *mut c_void) -> CUresult {
    guard(|| {
        let cx = enter_local()?;
        let r = remove(p as u64, |s| s == Sort::Host).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        settle(cx);
        if shared::holds(r.base) {
            // In the context it was registered in, whose work must be over first.
            let scope = r.context;
            shared::free(Cx { scope, ..cx }, r.base, r.size);
            return Ok(());
        }
        shadow::forget_host(r.base);
        if let Some((va, size)) = leave_host(r.base, r.size) {
            unmap_host(va, size);
            if shadow::forget_granule(va) {
                super::retire::unmap(cx, va, size)?;
            } else {
                vacant(va, size);
            }
        }
        Ok(())
    })
}

/// Gives the room of page-locked memory back, as [`unplace`] does, and its pages to the system.
fn leave_host(at: u64, size: u64) -> Option<(u64, u64)> {
    // First the pages: once the room is given back it may be another thread's, with its bytes in
    // it. What has a mapping of its own is unmapped as a whole.
    if whole(size).is_none() {
        // SAFETY: pages of ours that nobody uses any more, and that nobody else is given yet.
        unsafe {
            libc::madvise(at as *mut c_void, pages(size) as usize, libc::MADV_DONTNEED);
        }
    }
    unplace(space::HOST, at, size)
}

/// Whether the program has memory at all of these addresses.
fn is_mapped(start: u64, size: usize) -> bool {
    let page = start & !4095;
    let len = (start - page) as usize + size;
    // SAFETY: nothing is changed; the kernel says whether a page is missing.
    unsafe { libc::msync(page as *mut c_void, len, libc::MS_ASYNC) == 0 }
}

pub(super) unsafe fn cuMemHostRegister_v2(p: *mut c_void, size: usize, flags: u32) -> CUresult {
    guard(|| {
        let cx = enter()?;
        let context = cx.need_context()?;
        if p.is_null() || size == 0 || flags & !0xf != 0 {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let start = p as u64;
        let end = start.checked_add(size as u64);
        let end = end
            .filter(|_| is_mapped(start, size))
            .ok_or(CUDA_ERROR_INVALID_VALUE)?;
        let known = {
            let ranges = RANGES.read().unwrap_or_else(PoisonError::into_inner);
            let before = ranges.range(..end).next_back();
            before.is_some_and(|(_, r)| r.base + r.size > start)
        };
        if known {
            return Err(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
        }
        add(
            start,
            size as u64,
            Sort::Registered,
            context,
            context::current_device(cx)?,
            flags,
        );
        shadow::has_host_memory(Some((start, end)));
        Ok(())
    })
}

pub(super) unsafe fn cuMemHostUnregister(p: *mut c_void) -> CUresult {
    guard(|| {
        let cx = enter_local()?;
        let other = match find(p as u64) {
            Some(_) => CUDA_ERROR_INVALID_VALUE,
            None => CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
        };
        let r = remove(p as u64, |s| s == Sort::Registered).ok_or(other)?;
        settle(cx);
        if let Some(window) = shadow::forget_registered(cx, r.base) {
            let size = (r.base % 4096 + r.size).next_multiple_of(space::GRANULE);
            if let Some((va, size)) = unplace(space::WINDOW, window, size) {
                super::retire::unmap(cx, va, size)?;
            }
        }
        Ok(())
    })
}

pub(super) unsafe fn cuMemHostGetFlags(flags: *mut u32, p: *mut c_void) -> CUresult {
    guard(|| {
        enter_local()?;
        let r = find(p as u64)
            .filter(|r| r.sort == Sort::Host)
            .ok_or(CUDA_ERROR_INVALID_VALUE)?;
        // SAFETY: the program's pointer.
        unsafe { put(flags, r.flags & WRITE_COMBINED | DEVICE_MAP) }
    })
}

pub(super) unsafe fn cuMemHostGetDevicePointer_v2(
    out: *mut CUdeviceptr,
    p: *mut c_void,
    flags: u32,
) -> CUresult {
    guard(|| {
        let cx = enter()?;
        if flags != 0 || out.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let r = find_page_locked(p as u64).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        let there = shadow::expose(cx, &r, p as u64, || "its address was asked for".into())?;
        // SAFETY: checked for null above; the program's pointer.
        unsafe { put(out, there as CUdeviceptr) }
    })
}

/// Flags of page-locked memory, which is mapped whether a program asks for it or not.
const DEVICE_MAP: u32 = 2;
const WRITE_COMBINED: u32 = 4;

const HOST: u32 = 1;
const DEVICE: u32 = 2;

/// Where the mapping begins that a range lies in.
fn mapping_base(r: &Range) -> u64 {
    const PAGE: u64 = 4096;
    match r.sort {
        Sort::Foreign if r.flags != 0 || super::vmm::access(r.base).is_some() => r.base,
        Sort::Registered => r.base & !(PAGE - 1),
        // The driver never keeps it in one mapping with memory that caches hold.
        Sort::Host if r.flags & WRITE_COMBINED != 0 => r.base,
        _ => r.base & !(space::GRANULE - 1),
    }
}

/// Writes one attribute of the range `r`, which holds `p`. What CUDA calls a boolean is 32 bits
/// wide: a caller that has not cleared its variable would see what was there before.
unsafe fn attribute(r: &Range, p: u64, which: u32, data: *mut c_void) -> Result<(), CUresult> {
    let on_host = r.sort.is_page_locked();
    // What is mapped, or of a pool, or a variable of the program's that moves, is no context's.
    let (reserved, access) = match r.sort {
        Sort::Foreign => (super::vmm::reserved(p), super::vmm::access(p)),
        _ => (None, None),
    };
    let nobodys =
        access.is_some() || super::pool::is_pooled(r) || r.sort == Sort::Managed && r.flags == 0;
    let ctx = if nobodys {
        0
    } else {
        handles::raw(Kind::Context, r.context)
    };
    let (start, size) = reserved.unwrap_or((r.base, r.size));
    // SAFETY: the attribute says what `data` points at; the caller passes the program's pointer.
    unsafe {
        match which {
            1 => put(data.cast(), ctx),
            2 => put(data.cast(), if on_host { HOST } else { DEVICE }),
            3 if access == Some(0) => Err(CUDA_ERROR_INVALID_VALUE),
            3 => put(data.cast(), p),
            4 if on_host || r.sort == Sort::Managed => put(data.cast(), p),
            4 => Err(CUDA_ERROR_INVALID_VALUE),
            6 if r.sort == Sort::Managed => put(data.cast(), 1u32),
            6 => put(data.cast(), u32::from(r.flags & ORDERED != 0 && !on_host)),
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
            17 if r.sort == Sort::Foreign => put(data.cast(), super::pool::of_memory(r)?),
            17 => put(data.cast(), 0u64),
            18 => put(data.cast(), r.size),
            19 => put(data.cast(), mapping_base(r)),
            20 => put(data.cast(), r.serial),
            21 => put(data.cast(), 0u32),
            _ => Err(CUDA_ERROR_INVALID_VALUE),
        }
    }
}

/// What an attribute of a pointer that CUDA does not know is.
unsafe fn no_attribute(p: u64, which: u32, data: *mut c_void) -> Result<(), CUresult> {
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

pub(super) unsafe fn cuPointerGetAttribute(
    data: *mut c_void,
    which: CUpointer_attribute,
    p: CUdeviceptr,
) -> CUresult {
    guard(|| {
        enter_local()?;
        if data.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let r = find(p).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        // SAFETY: checked for null above; the program's pointer.
        unsafe { attribute(&r, p, which, data) }
    })
}

pub(super) unsafe fn cuPointerGetAttributes(
    n: u32,
    which: *mut CUpointer_attribute,
    data: *mut *mut c_void,
    p: CUdeviceptr,
) -> CUresult {
    guard(|| {
        enter_local()?;
        if which.is_null() || data.is_null() || n == 0 {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        let r = find(p);
        for i in 0..n as usize {
            // SAFETY: the program's arrays of `n` items.
            let (a, d) = unsafe { (which.add(i).read(), data.add(i).read()) };
            // SAFETY: the program's pointer for this attribute.
            let done = unsafe {
                match &r {
                    Some(r) => attribute(r, p, a, d).or_else(|_| no_attribute(0, a, d)),
                    None => no_attribute(p, a, d),
                }
            };
            done?;
        }
        Ok(())
    })
}

pub(super) unsafe fn cuPointerSetAttribute(
    value: *const c_void,
    which: CUpointer_attribute,
    p: CUdeviceptr,
) -> CUresult {
    guard(|| {
        enter()?;
        // Copies through a session are ordered anyway, which is all that SYNC_MEMOPS (6) asks.
        if which != 6 || value.is_null() {
            return Err(CUDA_ERROR_INVALID_VALUE);
        }
        // SAFETY: checked for null above; the attribute is a number.
        let on = unsafe { value.cast::<u32>().read_unaligned() } != 0;
        let known = find(p).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        let mut ranges = RANGES.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(r) = ranges.get_mut(&known.base)
            && matches!(r.sort, Sort::Device | Sort::Foreign | Sort::Imported)
        {
            r.flags = r.flags & !ORDERED | if on { ORDERED } else { 0 };
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    /// While no room is given out or taken back, freed memory is nobody's: that is when it must be
    /// emptied. Emptied later it could be another thread's by then.
    #[test]
    fn freed_page_locked_memory_is_empty_before_it_is_anybodys() {
        let at = host_map(100).expect("there is room");
        let first = at as *mut u8;
        // SAFETY: memory that was just mapped.
        unsafe { first.write_volatile(0xaa) };
        let gate = spaces();
        let freeing = std::thread::spawn(move || leave_host(at, 100));
        let end = Instant::now() + Duration::from_secs(10);
        // SAFETY: its granule stays mapped.
        while unsafe { (at as *const u8).read_volatile() } != 0 && Instant::now() < end {
            std::thread::yield_now();
        }
        // SAFETY: as above.
        let left = unsafe { (at as *const u8).read_volatile() };
        drop(gate);
        freeing.join().expect("it ends well");
        assert_eq!(left, 0, "emptied only after it was given back");
        assert_eq!(host_map(100), Ok(at), "it is given out again");
    }
}
