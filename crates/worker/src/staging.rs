//! Memory that bulk bytes land in and leave from, without another copy on the host.
//!
//! An arena is one piece of memory, cut into slabs, that lives as long as its session, so that an
//! API can register it with its driver once and copy from and to it asynchronously ever after.

use crate::prelude::*;
use busbar_transport::Memory;

/// Bytes of a slab: a bulk record with its fields.
pub const SLAB: usize = busbar_wire::limits::BULK_CHUNK + 4096;

/// An anonymous mapping.
struct Mapping {
    base: *mut u8,
    len: usize,
}

// SAFETY: plain memory; slabs, each with one owner at a time, are what is read and written.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped in `Arena::new`, and no slab of it is left.
        unsafe { libc::munmap(self.base.cast(), self.len) };
    }
}

struct Shared {
    memory: Mapping,
    /// Numbers of the slabs that are free.
    free: Mutex<Vec<usize>>,
    freed: Condvar,
    registered: AtomicBool,
}

/// A fixed set of slabs. Cheap to clone.
#[derive(Clone)]
pub struct Arena {
    shared: Arc<Shared>,
}

/// A slab in use; it goes back to its arena when dropped.
pub struct Lent {
    number: usize,
    home: Arc<Shared>,
}

impl Lent {
    /// The slab's memory, [`SLAB`] bytes.
    pub fn ptr(&self) -> *mut u8 {
        // SAFETY: the arena has as many slabs as there are numbers.
        unsafe { self.home.memory.base.add(self.number * SLAB) }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        lock(&self.home.free).push(self.number);
        self.home.freed.notify_one();
    }
}

impl Arena {
    /// An arena of `slabs` slabs. Memory that is never used is never taken from the system.
    pub fn new(slabs: usize) -> std::io::Result<Self> {
        let len = slabs * SLAB;
        let (prot, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
        );
        // SAFETY: a new anonymous mapping.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), len, prot, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error());
        }
        let shared = Shared {
            memory: Mapping {
                base: base.cast(),
                len,
            },
            // The lowest number is handed out first, so that little memory is touched.
            free: Mutex::new((0..slabs).rev().collect()),
            freed: Condvar::new(),
            registered: AtomicBool::new(false),
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// All of the arena's memory.
    pub(crate) fn memory(&self) -> Memory {
        let Mapping { base: start, len } = self.shared.memory;
        Memory { start, len }
    }

    /// All of the arena's memory, for an API that registers it; the first caller alone gets it.
    pub fn to_register(&self) -> Option<Memory> {
        let first = !self.shared.registered.swap(true, Ordering::AcqRel);
        first.then_some(self.memory())
    }

    /// Whether somebody has it registered, or is at it.
    pub fn is_registered(&self) -> bool {
        self.shared.registered.load(Ordering::Acquire)
    }

    /// Whoever had it registered is gone: the next may.
    pub fn not_registered(&self) {
        self.shared.registered.store(false, Ordering::Release);
    }

    /// A slab, if one is free.
    pub fn try_take(&self) -> Option<Lent> {
        let number = lock(&self.shared.free).pop()?;
        Some(Lent {
            number,
            home: self.shared.clone(),
        })
    }

    /// A slab, waiting up to `patience` for one to come back.
    pub fn take(&self, patience: Duration) -> Option<Lent> {
        if let Some(l) = self.try_take() {
            return Some(l);
        }
        let free = lock(&self.shared.free);
        if free.is_empty() {
            drop(self.shared.freed.wait_timeout(free, patience));
        } else {
            drop(free);
        }
        self.try_take()
    }
}

/// Lets an API keep the memory that a record came in.
pub struct Hold<'a> {
    pub(crate) slab: &'a mut Option<Lent>,
}

impl Hold<'_> {
    /// Takes the slab that holds the record's payload, if it came in one.
    pub fn take(&mut self) -> Option<Lent> {
        self.slab.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slabs_come_back_when_they_are_dropped() {
        let a = Arena::new(2).unwrap();
        let (x, y) = (a.try_take().unwrap(), a.try_take().unwrap());
        assert_eq!(y.ptr() as usize - x.ptr() as usize, SLAB);
        assert!(a.take(Duration::ZERO).is_none());
        let at = x.ptr();
        drop(x);
        assert_eq!(a.try_take().unwrap().ptr(), at);
        assert!(a.to_register().is_some());
        assert!(a.to_register().is_none());
    }
}
