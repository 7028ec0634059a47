//! Ranges: the memory that CUDA knows, and which addresses are given out.

use super::prelude::*;
use super::space::{self, Alloc, Release, Share, Space};
use crate::lock::{read, write};
use std::cell::Cell;
use std::ops::Bound;
use std::sync::RwLock;

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

/// Set in the flags of device memory whose copies the program wants to be synchronous, and of
/// managed memory, whose copies are, if it does not.
pub const ORDERED: u32 = 1 << 31;

/// Set in the flags of page-locked memory that the program has made and mapped itself.
pub const CREATED: u32 = 1 << 30;

/// Set in the flags of page-locked memory that lies in a file, for other processes to have.
pub const IN_FILE: u32 = 1 << 29;

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

impl Range {
    /// Whether the program has made and mapped it itself: host memory of `cuMemCreate`.
    pub fn is_created(&self) -> bool {
        self.sort == Sort::Host && self.flags & CREATED != 0
    }

    /// Whether it is what `cuMemHostAlloc` gave.
    pub fn is_allocated(&self) -> bool {
        self.sort == Sort::Host && self.flags & CREATED == 0
    }

    /// Whether other processes may have it, too, by a file.
    pub fn is_in_file(&self) -> bool {
        self.sort == Sort::Host && self.flags & IN_FILE != 0
    }

    /// Whether the program wants copies of it to be synchronous.
    pub fn is_ordered(&self) -> bool {
        (self.flags & ORDERED != 0) == (self.sort != Sort::Managed)
    }

    /// Whether all of `len` bytes at `p`, an address of this range, are in it.
    pub fn holds(&self, p: u64, len: usize) -> bool {
        (p - self.base).saturating_add(len as u64) <= self.size
    }
}

/// What a thread has looked up: that at these addresses, from the first to before the second, there
/// is this range, or none, in that version of the ranges.
#[derive(Clone, Copy)]
struct Looked {
    version: u64,
    from: u64,
    to: u64,
    found: Option<Range>,
}

/// How much a thread keeps: memory that is copied or filled is mostly what was before.
const LOOKED: usize = 8;
const NOTHING: Looked = Looked {
    version: 0,
    from: 0,
    to: 0,
    found: None,
};

thread_local! {
    static LAST: [Cell<Looked>; LOOKED] = const { [const { Cell::new(NOTHING) }; LOOKED] };
}

/// Which of them an address is kept in.
fn slot(p: u64) -> usize {
    (p >> 21 ^ p >> 12) as usize % LOOKED
}

/// The last version of any client's ranges: no two have the same.
static VERSION: AtomicU64 = AtomicU64::new(0);

/// The ranges of a client, by their first address.
#[derive(Default)]
pub struct Ranges {
    all: RwLock<BTreeMap<u64, Range>>,
    /// Changes with them, before whoever changes them goes on; 0 while there is none.
    version: AtomicU64,
    serials: AtomicU64,
    /// Page-locked memory that has been an end of a copy, by serial.
    copied: RwLock<BTreeSet<u64>>,
}

impl Ranges {
    /// None, of one of several servers: no two give a serial.
    pub fn of(server: usize) -> Self {
        Self {
            serials: AtomicU64::new(space::first_serial(server)),
            ..Self::default()
        }
    }

    /// The known range that holds `p`.
    #[inline]
    pub fn find(&self, p: u64) -> Option<Range> {
        let version = self.version.load(Ordering::Acquire);
        let kept = LAST.try_with(|last| last[slot(p)].get()).ok();
        match kept.filter(|l| l.version == version && l.from <= p && p < l.to) {
            Some(l) => l.found,
            None => self.look_up(p),
        }
    }

    #[inline(never)]
    fn look_up(&self, p: u64) -> Option<Range> {
        let all = read(&self.all);
        let before = all.range(..=p).next_back().map(|(_, r)| r);
        let end = |r: &Range| r.base.saturating_add(r.size.max(1));
        let found = before.filter(|r| p - r.base < r.size.max(1)).copied();
        // Where ranges overlap, the one that begins last has the address.
        let next = all.range((Bound::Excluded(p), Bound::Unbounded)).next();
        let next = next.map_or(u64::MAX, |(base, _)| *base);
        let (from, to) = match found {
            Some(r) => (r.base, end(&r).min(next)),
            None => (before.map_or(0, end), next),
        };
        // What is known here stays so for as long as it is locked.
        let looked = Looked {
            version: self.version.load(Ordering::Acquire),
            from,
            to,
            found,
        };
        let _ = LAST.try_with(|last| last[slot(p)].set(looked));
        found
    }

    /// The page-locked memory that holds an address.
    pub fn find_page_locked(&self, p: u64) -> Option<Range> {
        self.find(p).filter(|r| r.sort.is_page_locked())
    }

    fn change<T>(&self, f: impl FnOnce(&mut BTreeMap<u64, Range>) -> T) -> T {
        let mut all = write(&self.all);
        let done = f(&mut all);
        let version = VERSION.fetch_add(1, Ordering::Relaxed) + 1;
        self.version.store(version, Ordering::Release);
        done
    }

    /// Makes a range known, of a context and its device.
    pub fn add(
        &self,
        base: u64,
        size: u64,
        sort: Sort,
        (context, device): (u32, CUdevice),
        flags: u32,
    ) {
        let serial = self.serials.fetch_add(1, Ordering::Relaxed) + 1;
        let r = Range {
            base,
            size,
            sort,
            context,
            device,
            flags,
            serial,
        };
        self.change(|all| all.insert(base, r));
    }

    /// As [`Ranges::add`], unless it has bytes in common with a known one.
    pub fn add_apart(
        &self,
        base: u64,
        size: u64,
        sort: Sort,
        of: (u32, CUdevice),
        flags: u32,
    ) -> bool {
        let known = {
            let all = read(&self.all);
            let before = all.range(..base.saturating_add(size)).next_back();
            before.is_some_and(|(_, r)| r.base + r.size > base)
        };
        if !known {
            self.add(base, size, sort, of, flags);
        }
        !known
    }

    /// Forgets the range that begins at `base`, if it is of a sort that `which` accepts.
    pub fn remove(&self, base: u64, which: impl Fn(Sort) -> bool) -> Option<Range> {
        self.take(base, |r| which(r.sort))
    }

    /// As [`Ranges::remove`], for a range that `which` accepts.
    pub fn take(&self, base: u64, which: impl Fn(&Range) -> bool) -> Option<Range> {
        self.change(|all| {
            all.get(&base).filter(|r| which(r))?;
            all.remove(&base)
        })
        .inspect(|r| {
            if r.sort.is_page_locked() {
                write(&self.copied).remove(&r.serial);
            }
        })
    }

    /// A copy has an end in page-locked memory: its address is on the stack of many a function.
    pub fn note_copied(&self, r: &Range) {
        if !self.was_copied(r) {
            write(&self.copied).insert(r.serial);
        }
    }

    /// Whether any copy has had an end in page-locked memory.
    pub fn was_copied(&self, r: &Range) -> bool {
        read(&self.copied).contains(&r.serial)
    }

    /// Whether page-locked memory is meant for kernels, as far as is known: it was asked for as
    /// such, or no copy has had an end in it.
    pub fn may_be_for_kernels(&self, r: &Range) -> bool {
        // The same bit for memory that is allocated and for memory that is registered.
        r.flags & CU_MEMHOSTALLOC_DEVICEMAP != 0 || !self.was_copied(r)
    }

    /// Forgets all memory of a context but for the program's own, which stays.
    pub fn take_context(&self, id: u32) -> Vec<Range> {
        let of_it = |r: &Range| r.context == id && !r.sort.is_page_locked();
        self.change(|all| {
            let gone = all.values().filter(|r| of_it(r)).copied().collect();
            all.retain(|_, r| !of_it(r));
            gone
        })
    }

    /// Sets whether the program wants copies of memory at `p` to be synchronous.
    pub fn order(&self, p: u64, on: bool) -> Result<()> {
        let known = self.find(p).ok_or(CUDA_ERROR_INVALID_VALUE)?;
        self.change(|all| {
            if let Some(r) = all.get_mut(&known.base)
                && !r.sort.is_page_locked()
            {
                let marked = on == (r.sort != Sort::Managed);
                r.flags = r.flags & !ORDERED | if marked { ORDERED } else { 0 };
            }
        });
        Ok(())
    }

    /// Whether `len` bytes at `p` are all in memory that a device has, be it one range or several
    /// side by side.
    pub fn is_on_device(&self, mut p: u64, len: usize) -> bool {
        let Some(end) = p.checked_add(len as u64) else {
            return false;
        };
        while p < end {
            match self.find(p) {
                Some(r) if !r.sort.is_page_locked() => p = r.base + r.size,
                _ => return false,
            }
        }
        true
    }

    /// Whether memory at `p` moves by itself.
    pub fn is_managed(&self, p: u64) -> bool {
        self.find(p).is_some_and(|r| r.sort == Sort::Managed)
    }

    /// The same of an end of a copy.
    pub fn is_pinned_end(&self, p: u64, len: usize) -> bool {
        let found = self.find_page_locked(p).filter(|r| r.holds(p, len));
        found.is_some_and(|r| {
            self.note_copied(&r);
            true
        })
    }

    /// Whether `len` bytes of the program's at `p` may be an end of a copy: what begins in
    /// page-locked memory ends there. What begins before such memory is ordinary, all of it.
    pub fn may_be_end(&self, p: u64, len: usize) -> bool {
        self.find_page_locked(p).is_none_or(|r| r.holds(p, len))
    }

    /// Whether ordinary memory goes on into page-locked memory.
    pub fn leads_into_page_locked(&self, p: u64, len: usize) -> bool {
        let all = read(&self.all);
        let mut inside = all.range(p..p.saturating_add(len as u64));
        inside.any(|(base, r)| *base > p && r.sort.is_page_locked())
    }

    /// Whether `len` bytes at `p` are page-locked host memory.
    pub fn is_pinned(&self, p: u64, len: usize) -> bool {
        self.find_page_locked(p).is_some_and(|r| r.holds(p, len))
    }

    /// The context that device memory was made in, and its device.
    pub fn home(&self, p: u64) -> Option<(u32, CUdevice)> {
        let r = self.find(p)?;
        (!r.sort.is_page_locked()).then_some((r.context, r.device))
    }
}

#[derive(Default)]
struct Freed {
    /// Pieces of freed memory that the worker has not answered for.
    left: usize,
    /// What no allocation uses any more and the worker has not unmapped yet.
    empty: Vec<(u64, u64)>,
    /// Bytes that were freed since somebody has waited for that.
    unseen: u64,
}

/// So many bytes are free when the call that frees them returns: another process may be told so,
/// and take them. Less of a device is hardly missed for the moment that it takes.
const MUCH: u64 = 256 << 20;

/// Which addresses are given out.
#[derive(Default)]
pub struct Spaces {
    /// Which of them are this client's to give.
    pub share: Share,
    all: Mutex<BTreeMap<u32, Space>>,
    freed: Mutex<Freed>,
    answered: Condvar,
}

impl Spaces {
    /// None, of a share of those that devices share.
    pub fn of(share: Share) -> Self {
        Self {
            share,
            ..Self::default()
        }
    }

    /// Whether page-locked memory at an address is shared with the worker, on this host.
    #[inline]
    pub fn is_shared(&self, p: u64) -> bool {
        space::is_shared(p) && space::server_of(p, self.share.of) == Some(self.share.server)
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<u32, Space>> {
        lock(&self.all)
    }

    /// Finds room in a range of addresses, and has what is missing there mapped by `map`.
    pub fn place(
        &self,
        range: u32,
        size: u64,
        map: impl FnOnce(u64, u64) -> Result<()>,
    ) -> Result<u64> {
        let found = self
            .all()
            .entry(range)
            .or_insert_with(|| Space::new(range, self.share))
            .alloc(size);
        match found.ok_or(CUDA_ERROR_OUT_OF_MEMORY)? {
            Alloc::Ready(at) => Ok(at),
            Alloc::Map { at, bytes } => {
                let mapped = map(at, bytes);
                let mut s = self.all();
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

    /// Gives room back; what is to be unmapped there, if anything. It is nobody's until
    /// [`Spaces::vacant`] is told that it is.
    pub fn unplace(&self, range: u32, at: u64, size: u64) -> Option<(u64, u64)> {
        match self.all().get_mut(&range).map(|s| s.free(at, size)) {
            Some(Release::Unmap { at, bytes }) => Some((at, bytes)),
            _ => None,
        }
    }

    /// Something that [`Spaces::unplace`] gave is unmapped, or will be before anything else is
    /// mapped there: it may be anybody's.
    pub fn vacant(&self, at: u64, bytes: u64) {
        if let Some(range) = space::number(at)
            && let Some(s) = self.all().get_mut(&range)
        {
            s.vacant(at, bytes);
        }
    }

    /// Takes the granules of a range that nothing lives in, as [`Spaces::unplace`] does.
    pub fn trim(&self, range: u32) -> Vec<(u64, u64)> {
        self.all()
            .get_mut(&range)
            .map_or_else(Vec::new, Space::trim)
    }

    /// Memory was freed that the worker has to answer for: it is not free before.
    pub fn freeing(&self) {
        lock(&self.freed).left += 1;
    }

    /// So many bytes are freed by a call that does not wait for it; whether that is so much by now
    /// that it should.
    pub fn adds_up_to_much(&self, bytes: u64) -> bool {
        let mut f = lock(&self.freed);
        f.unseen = f.unseen.saturating_add(bytes);
        let much = f.unseen >= MUCH;
        if much {
            f.unseen = 0;
        }
        much
    }

    /// The worker has answered, or never will.
    pub fn freed(&self) {
        lock(&self.freed).left -= 1;
        self.answered.notify_all();
    }

    /// Memory that no allocation uses any more, and that the worker has not unmapped.
    pub fn empty(&self, gone: Option<(u64, u64)>) {
        lock(&self.freed).empty.extend(gone);
    }

    /// What [`Spaces::empty`] was told since the last time.
    pub fn take_empty(&self) -> Vec<(u64, u64)> {
        std::mem::take(&mut lock(&self.freed).empty)
    }

    /// Whether freed memory is not free yet.
    pub fn owes(&self) -> bool {
        let f = lock(&self.freed);
        f.left > 0 || !f.empty.is_empty()
    }

    /// Waits until the worker has answered for all that was freed.
    pub fn wait_freed(&self) {
        let mut f = lock(&self.freed);
        while f.left > 0 {
            f = self
                .answered
                .wait(f)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Whether an address that the worker says may be one of device memory, of so many bytes. The
/// program gets the number; nothing here looks behind it. No bytes are at address 0.
pub fn plausible(va: u64, size: u64) -> Result<()> {
    const LOWEST: u64 = 1 << 16;
    if (va, size) == (0, 0) {
        return Ok(());
    }
    let end = va.checked_add(size);
    refuse_if(va < LOWEST, CUDA_ERROR_UNKNOWN)?;
    refuse_if(end.is_none_or(|end| end > 1 << 57), CUDA_ERROR_UNKNOWN)?;
    Ok(())
}

/// The bytes of the mapping that an allocation has for itself, if it has one.
pub fn whole(size: u64) -> Option<u64> {
    (size >= space::LARGE).then(|| size.next_multiple_of(space::GRANULE))
}

/// Bytes of whole pages.
pub fn pages(size: u64) -> u64 {
    size.max(1).next_multiple_of(4096)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    impl Spaces {
        /// Keeps others from taking or giving room.
        pub fn stop(&self) -> impl Drop + '_ {
            self.all()
        }
    }

    impl Ranges {
        /// How many there are.
        pub fn len(&self) -> usize {
            read(&self.all).len()
        }
    }

    #[test]
    fn an_address_that_no_device_gives_is_not_believed() {
        assert!(plausible(0x7000_0000_0000, 4096).is_ok());
        assert!(plausible(0, 0).is_ok(), "no bytes are nowhere");
        for (va, size) in [(0, 1), (4096, 0), (1 << 57, 1), (u64::MAX, 2)] {
            assert!(plausible(va, size).is_err(), "{size} bytes at {va:#x}");
        }
    }

    #[test]
    fn what_a_thread_has_looked_up_is_what_there_is() {
        let naive = |all: &[(u64, u64)], p: u64| {
            let last = all.iter().filter(|(base, _)| *base <= p).max();
            last.filter(|(base, size)| p - base < (*size).max(1))
                .copied()
        };
        let mut state = 7u64;
        let mut below = |n: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005) | 1;
            (state >> 33) % n
        };
        // Two clients' on one thread: what one has is nothing to the other.
        let clients = [Ranges::default(), Ranges::default()];
        let mut known: [Vec<(u64, u64)>; 2] = Default::default();
        for _ in 0..20_000 {
            let which = below(2) as usize;
            let (r, all) = (&clients[which], &mut known[which]);
            let p = below(64) << 8;
            match below(8) {
                0 => {
                    // Any may overlap others, or have no bytes.
                    let size = below(9) << 7;
                    r.add(p, size, Sort::Device, (1, 0), 0);
                    all.retain(|(base, _)| *base != p);
                    all.push((p, size));
                }
                1 => {
                    r.take(p, |_| true);
                    all.retain(|(base, _)| *base != p);
                }
                _ => {
                    let at = p + below(256);
                    let found = r.find(at).map(|r| (r.base, r.size));
                    assert_eq!(found, naive(all, at), "{at:#x} in {all:x?}");
                }
            }
        }
    }

    #[test]
    fn what_another_thread_has_changed_is_seen() {
        let r = Ranges::default();
        let (there, gone) = (Barrier::new(2), Barrier::new(2));
        std::thread::scope(|s| {
            s.spawn(|| {
                for i in 0..100 {
                    r.add(0x1000, 16 + i, Sort::Device, (1, 0), 0);
                    there.wait();
                    gone.wait();
                    r.take(0x1000, |_| true);
                    there.wait();
                    gone.wait();
                }
            });
            for i in 0..100 {
                there.wait();
                assert_eq!(r.find(0x1008).map(|r| r.size), Some(16 + i));
                gone.wait();
                there.wait();
                assert!(r.find(0x1008).is_none());
                gone.wait();
            }
        });
    }

    #[test]
    fn a_range_holds_its_own_bytes_and_no_others() {
        let r = Ranges::default();
        r.add(0x1000, 0x100, Sort::Device, (1, 0), 0);
        r.add(0x1100, 0x100, Sort::Foreign, (1, 0), 0);
        r.add(0x1200, 0x100, Sort::Host, (1, 0), 0);
        assert!(r.find(0xfff).is_none() && r.find(0x1300).is_none());
        assert_eq!(r.find(0x10ff).map(|r| r.base), Some(0x1000));
        assert!(r.is_on_device(0x1000, 0x200), "two side by side");
        assert!(!r.is_on_device(0x1000, 0x201), "the third is the host's");
        assert!(!r.is_on_device(u64::MAX, 2), "no address goes that far");
        assert!(r.is_pinned(0x1280, 0x80) && !r.is_pinned(0x1280, 0x81));
        assert!(
            r.may_be_end(0x1280, 0x80) && !r.may_be_end(0x1280, 0x81),
            "beyond it"
        );
        assert!(r.may_be_end(0x11f0, 0x20) && r.leads_into_page_locked(0x11f0, 0x20));
        assert!(!r.leads_into_page_locked(0x1280, 0x20), "in it");
        assert!(r.may_be_end(0x1300, 0x1000) && r.may_be_end(0xf00, 0x100));
        assert!(
            !r.add_apart(0x12ff, 2, Sort::Registered, (1, 0), 0),
            "known in part"
        );
        assert!(r.add_apart(0x1300, 2, Sort::Registered, (1, 0), 0));
        assert!(!r.may_be_end(0x12ff, 2), "across two");
        assert!(
            r.remove(0x1200, |s| s == Sort::Device).is_none(),
            "of another sort"
        );
        let host = r.find(0x1200).unwrap();
        assert!(r.may_be_for_kernels(&host));
        assert!(!r.was_copied(&host) && !r.is_pinned_end(0x1280, 0x81));
        assert!(!r.was_copied(&host) && r.is_pinned_end(0x1280, 0x80));
        assert!(r.was_copied(&host) && !r.may_be_for_kernels(&host));
        let serials: Vec<_> = [0x1000, 0x1100, 0x1200]
            .map(|p| r.find(p).unwrap().serial)
            .into();
        assert!(serials[0] < serials[1] && serials[1] < serials[2]);
    }

    #[test]
    fn copies_are_synchronous_where_the_program_wants_it() {
        let r = Ranges::default();
        // Those of managed memory are from the beginning, and page-locked memory's never.
        for (sort, first, then) in [
            (Sort::Device, false, [true, false]),
            (Sort::Managed, true, [true, false]),
            (Sort::Host, false, [false, false]),
        ] {
            r.add(0x1000, 0x100, sort, (1, 0), 0);
            let is = || r.find(0x1000).is_some_and(|r| r.is_ordered());
            assert_eq!(is(), first, "{sort:?}");
            for (on, after) in [true, false].into_iter().zip(then) {
                r.order(0x1010, on).unwrap();
                assert_eq!(is(), after, "{sort:?} {on}");
            }
            r.remove(0x1000, |s| s == sort);
        }
        assert!(r.order(0x1010, true).is_err(), "nothing is there");
    }

    #[test]
    fn a_contexts_device_memory_goes_with_it_and_the_programs_stays() {
        let r = Ranges::default();
        r.add(0x1000, 0x100, Sort::Device, (1, 0), 0);
        r.add(0x2000, 0x100, Sort::Device, (2, 0), 0);
        r.add(0x3000, 0x100, Sort::Host, (1, 0), 0);
        let gone: Vec<_> = r.take_context(1).iter().map(|r| r.base).collect();
        assert_eq!(gone, [0x1000]);
        assert!(r.find(0x1000).is_none() && r.len() == 2);
    }

    #[test]
    fn room_that_could_not_be_mapped_is_nobodys_and_given_out_again() {
        let s = Spaces::default();
        let fail = s.place(0, 4096, |_, _| Err(CUDA_ERROR_OUT_OF_MEMORY));
        assert_eq!(fail, Err(CUDA_ERROR_OUT_OF_MEMORY));
        let first = s.place(0, space::GRANULE, |_, _| Ok(())).unwrap();
        let (at, bytes) = s
            .unplace(0, first, space::GRANULE)
            .expect("its own mapping");
        let other = s.place(0, space::GRANULE, |_, _| Ok(())).unwrap();
        assert_ne!(other, first, "it may still be mapped");
        s.vacant(at, bytes);
        assert_eq!(s.place(0, space::GRANULE, |_, _| Ok(())), Ok(first));
    }

    #[test]
    fn freed_memory_is_owed_until_the_worker_has_answered_and_unmapped() {
        let s = Spaces::default();
        assert!(!s.owes());
        s.freeing();
        assert!(s.owes());
        s.empty(Some((0x1000, 0x1000)));
        s.freed();
        s.wait_freed();
        assert!(s.owes(), "not unmapped yet");
        assert_eq!(s.take_empty(), [(0x1000, 0x1000)]);
        assert!(!s.owes());
    }

    #[test]
    fn what_is_freed_at_once_or_bit_by_bit_adds_up() {
        let s = Spaces::default();
        assert!(s.adds_up_to_much(MUCH));
        assert!(!s.adds_up_to_much(MUCH - 1));
        assert!(s.adds_up_to_much(1));
        assert!(!s.adds_up_to_much(MUCH / 2));
        assert!(s.adds_up_to_much(u64::MAX));
        assert!(!s.adds_up_to_much(0));
    }
}
