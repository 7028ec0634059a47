//! The memory map: which addresses are whose, and what each device has left.

use super::{advice, device, stream};
use crate::ffi::*;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, RwLock};

/// The unit that small allocations are charged in.
const CHARGE_UNIT: usize = 512;
const PAGE: usize = 4096;

static RANGES: RwLock<BTreeMap<u64, Arc<Range>>> = RwLock::new(BTreeMap::new());

/// What the next range of addresses is called, and where it goes.
struct Next {
    id: AtomicU64,
    at: AtomicU64,
}

static NEXT: Next = Next {
    id: AtomicU64::new(1),
    at: AtomicU64::new(FIRST_AT),
};

/// Freed memory whose addresses are not used again yet, and how much of it is kept so. A kernel
/// that runs while another thread frees its memory has passed its check: it must find a page, and
/// its error comes with the next check.
static FREED: Mutex<VecDeque<(u64, usize)>> = Mutex::new(VecDeque::new());
const FREED_KEPT: usize = 256;

/// The flag of mapped memory that is the host's.
pub const OF_HOST: u32 = 1;

/// What a range of addresses is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Device memory, from `cuMemAlloc`.
    Device,
    /// Device memory of a module's global.
    Global,
    /// Device memory of a pool.
    Pool,
    /// Device memory of a graph's node.
    Graph,
    /// Device memory mapped by the virtual memory functions.
    Mapped,
    /// Memory that moves between host and device by itself.
    Managed,
    /// Page-locked host memory that the driver allocated.
    Pinned,
    /// Host memory that the program allocated and registered.
    Registered,
}

/// A live range of addresses.
pub struct Range {
    /// Its first address.
    pub base: u64,
    /// Its size as asked for.
    pub size: usize,
    /// What it is.
    pub kind: Kind,
    /// The context that owns it; 0 for mapped memory.
    pub context: usize,
    /// The device that it is on, or was allocated for.
    pub device: usize,
    /// The pool or the allocation handle behind it, else 0.
    pub owner: usize,
    /// The flags of a host range.
    pub flags: u32,
    /// A number never used again.
    pub id: u64,
    /// Whether it may be accessed: mapped memory and that of graphs start closed.
    pub open: AtomicBool,
    /// What devices may do with mapped memory.
    pub users: Mutex<BTreeMap<usize, i32>>,
    /// Whether a stream is to free it: what comes before that may use it, but nobody can free it
    /// once more.
    pub going: AtomicBool,
}

impl Range {
    /// The first address after it.
    pub fn end(&self) -> u64 {
        self.base + self.size as u64
    }

    /// Whether it is host memory by nature.
    pub fn is_host(&self) -> bool {
        let mapped = self.kind == Kind::Mapped && self.flags & OF_HOST != 0;
        mapped || matches!(self.kind, Kind::Pinned | Kind::Registered)
    }
}

/// Forgets all memory.
pub fn reset() {
    let ranges = std::mem::take(&mut *RANGES.write().unwrap());
    let ours = |r: &&Arc<Range>| !matches!(r.kind, Kind::Registered | Kind::Mapped);
    for range in ranges.values().filter(ours) {
        unmap(range.base, range.size);
    }
    for (base, size) in FREED.lock().unwrap().drain(..) {
        unmap(base, size);
    }
    NEXT.id.store(1, Ordering::Relaxed);
    NEXT.at.store(FIRST_AT, Ordering::Relaxed);
}

/// Enters a range into the map.
pub fn insert(
    base: u64,
    size: usize,
    kind: Kind,
    context: usize,
    device: usize,
    owner: usize,
    flags: u32,
) {
    let range = Range {
        base,
        size,
        kind,
        context,
        device,
        owner,
        flags,
        id: NEXT.id.fetch_add(1, Ordering::Relaxed),
        open: AtomicBool::new(!matches!(kind, Kind::Mapped | Kind::Graph)),
        users: Mutex::default(),
        going: AtomicBool::new(false),
    };
    RANGES.write().unwrap().insert(base, Arc::new(range));
}

/// The range that an address lies in.
pub fn find(address: u64) -> Option<Arc<Range>> {
    let ranges = RANGES.read().unwrap();
    let (_, range) = ranges.range(..=address).next_back()?;
    (address < range.end()).then(|| range.clone())
}

/// The range that begins at an address, if it is of this kind, taken out of the map.
pub fn remove(base: u64, pick: impl Fn(&Range) -> bool) -> Option<Arc<Range>> {
    let mut ranges = RANGES.write().unwrap();
    if !pick(ranges.get(&base)?) {
        return None;
    }
    ranges.remove(&base)
}

/// The ranges that overlap some addresses.
pub fn overlapping(base: u64, size: usize) -> Vec<Arc<Range>> {
    let ranges = RANGES.read().unwrap();
    let end = base.saturating_add(size as u64);
    let mut found: Vec<_> = ranges
        .range(base..end)
        .map(|(_, range)| range.clone())
        .collect();
    if let Some((_, before)) = ranges.range(..base).next_back()
        && before.end() > base
    {
        found.insert(0, before.clone());
    }
    found
}

/// Whether a copy may have these bytes on the host: what begins in a page-locked range ends there.
pub fn may_be_end(address: u64, size: usize) -> bool {
    let end = address.saturating_add(size as u64);
    find(address).is_none_or(|r| !r.is_host() || end <= r.end())
}

/// Whether the process may write to all pages of some addresses.
pub fn writable(address: u64, size: usize) -> bool {
    // To ask takes longer than all else that a program does that has the driver reset.
    if stream::alone() {
        return true;
    }
    let Ok(maps) = std::fs::read_to_string("/proc/self/maps") else {
        return false;
    };
    let closed = |line: &str| {
        let (range, rest) = line.split_once(' ')?;
        let (from, to) = range.split_once('-')?;
        let at = |s| u64::from_str_radix(s, 16).ok();
        let hit = at(from)? < address + size as u64 && address < at(to)?;
        (hit && rest.as_bytes().get(1) != Some(&b'w')).then_some(())
    };
    maps.lines().find_map(closed).is_none()
}

/// All live ranges.
pub fn all() -> Vec<Arc<Range>> {
    RANGES.read().unwrap().values().cloned().collect()
}

/// Whether each byte of some addresses is live and may be accessed. Ranges that touch count as one.
pub fn accessible(address: u64, size: usize) -> bool {
    covered(address, size, |range| range.open.load(Ordering::Acquire))
}

/// Whether work may be asked for that accesses some addresses: memory of graphs will be there when
/// it runs, or it fails then.
pub fn usable(address: u64, size: usize) -> bool {
    covered(address, size, |range| {
        range.kind == Kind::Graph || range.open.load(Ordering::Acquire)
    })
}

/// Whether some addresses are in ranges that are each good. What says so may lock more: whoever
/// has that locked may be about to change the map.
pub fn covered(address: u64, size: usize, good: impl Fn(&Range) -> bool) -> bool {
    let Some(end) = address.checked_add(size as u64) else {
        return false;
    };
    let mut at = address;
    while at < end {
        match find(at) {
            Some(range) if good(&range) => at = range.end(),
            _ => return false,
        }
    }
    true
}

fn charged(size: usize) -> usize {
    size.next_multiple_of(CHARGE_UNIT)
}

fn whole_pages(size: usize) -> R<usize> {
    size.checked_next_multiple_of(PAGE).ok_or(OUT_OF_MEMORY)
}

/// Where memory is looked for where everything is to be the same each time: far from what the
/// process has otherwise, and with a page between.
const FIRST_AT: u64 = 0x2000_0000_0000;

/// Where the next memory of some pages goes; null where the kernel chooses.
pub fn next_at(size: usize, align: u64) -> u64 {
    if !stream::alone() {
        return 0;
    }
    let at = NEXT.at.load(Ordering::Relaxed).next_multiple_of(align);
    NEXT.at
        .store(at + size as u64 + PAGE as u64, Ordering::Relaxed);
    at
}

/// Fresh zeroed memory of the process.
pub fn map_anonymous(size: usize) -> R<u64> {
    let size = whole_pages(size)?;
    // SAFETY: a new private mapping at an address of the kernel's choice, for which ours is a hint,
    // overlaps nothing.
    let p = unsafe {
        libc::mmap(
            next_at(size, PAGE as u64) as *mut libc::c_void,
            size,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
            -1,
            0,
        )
    };
    if p == libc::MAP_FAILED {
        Err(OUT_OF_MEMORY)
    } else {
        Ok(p as u64)
    }
}

/// Gives whole pages back to the system.
pub fn unmap(base: u64, size: usize) {
    if let Ok(size) = whole_pages(size) {
        // SAFETY: the caller took this range, a mapping of ours, out of the map, so nobody uses it.
        unsafe { libc::munmap(base as *mut libc::c_void, size) };
    }
}

/// Gives freed memory's pages back now, and its addresses when enough has been freed after it.
fn retire(base: u64, size: usize) {
    let Ok(size) = whole_pages(size) else { return };
    // SAFETY: the range is a private mapping of ours; its pages read as zero from here on.
    unsafe { libc::madvise(base as *mut libc::c_void, size, libc::MADV_DONTNEED) };
    let mut freed = FREED.lock().unwrap();
    freed.push_back((base, size));
    if freed.len() > FREED_KEPT
        && let Some((base, size)) = freed.pop_front()
    {
        unmap(base, size);
    }
}

/// Whether all of the process's pages in a range of addresses exist.
pub fn exists(address: u64, size: usize) -> bool {
    let first = address & !(PAGE as u64 - 1);
    let Some(end) = address.checked_add(size as u64) else {
        return false;
    };
    let pages = ((end - first) as usize).div_ceil(PAGE);
    let mut resident = vec![0_u8; pages];
    let start = first as *mut libc::c_void;
    // SAFETY: the call only writes one byte for each page to the vector, which has room for them.
    unsafe { libc::mincore(start, pages * PAGE, resident.as_mut_ptr()) == 0 }
}

/// Whether all of some addresses can be read: asked of the kernel, which fails where we would
/// crash.
pub fn readable(address: u64, size: usize) -> bool {
    static PROBE: LazyLock<libc::c_int> = LazyLock::new(|| {
        // SAFETY: the name is a C string.
        unsafe { libc::memfd_create(c"fakedev-probe".as_ptr(), libc::MFD_CLOEXEC) }
    });
    let Some(end) = address.checked_add(size as u64) else {
        return false;
    };
    let mut at = address;
    while at < end {
        // SAFETY: the call reads one byte, or says that it cannot.
        if unsafe { libc::pwrite(*PROBE, at as *const libc::c_void, 1, 0) } != 1 {
            return false;
        }
        at = (at & !(PAGE as u64 - 1)) + PAGE as u64;
    }
    true
}

/// Allocates device memory of a kind, charged to the device: that of graphs when it is there.
pub fn allocate(kind: Kind, size: usize, context: usize, device: usize, owner: usize) -> R<u64> {
    if size == 0 {
        return Err(INVALID_VALUE);
    }
    let charge = match kind {
        Kind::Graph => 0,
        _ => size
            .checked_next_multiple_of(CHARGE_UNIT)
            .ok_or(OUT_OF_MEMORY)?,
    };
    device::get(device).charge(charge)?;
    match map_anonymous(size) {
        Ok(base) => {
            insert(base, size, kind, context, device, owner, 0);
            Ok(base)
        }
        Err(code) => {
            device::get(device).refund(charge);
            Err(code)
        }
    }
}

/// Ends a range that is out of the map: its memory and its charge.
pub fn release(range: &Range) {
    match range.kind {
        Kind::Graph => retire(range.base, range.size),
        Kind::Device | Kind::Global | Kind::Pool => {
            retire(range.base, range.size);
            device::get(range.device).refund(charged(range.size));
        }
        Kind::Managed | Kind::Pinned => {
            advice::forget((range.base, range.size));
            retire(range.base, range.size);
        }
        Kind::Registered | Kind::Mapped => {}
    }
}

/// Frees what a context owns.
pub fn drop_context(context: usize) {
    for range in all().into_iter().filter(|range| range.context == context) {
        if let Some(range) = remove(range.base, |found| found.id == range.id) {
            release(&range);
        }
    }
}
