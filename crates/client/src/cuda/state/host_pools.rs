//! Pools of memory that the program sees, too: page-locked and managed memory. It is such memory as
//! any other, so these pools are the program's alone: the worker knows nothing of them.

use super::advice::Place;
use super::host_file::HostFile;
use super::prelude::*;

/// What a pool's memory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Of {
    /// Page-locked memory.
    Host,
    /// Managed memory, which is preferred to be somewhere, or nowhere.
    Managed(Option<Place>),
}

/// What there is now, and the most that there was.
#[derive(Debug, Clone, Copy, Default)]
pub struct Amount {
    pub now: u64,
    pub high: u64,
}

impl Amount {
    fn add(&mut self, bytes: u64) {
        self.now += bytes;
        self.high = self.high.max(self.now);
    }
}

/// What changes of a pool.
#[derive(Debug, Default)]
pub struct Inside {
    /// Attributes that were set, by number.
    pub settings: HashMap<u32, u64>,
    /// What devices may do with its memory.
    pub access: HashMap<i32, u32>,
    /// Bytes that the program has.
    pub used: Amount,
    /// Bytes that the pool has, those included.
    pub reserved: Amount,
    /// Memory that is free, by size.
    free: HashMap<u64, Vec<u64>>,
    destroyed: bool,
}

/// A pool.
#[derive(Debug)]
pub struct HostPool {
    /// Its id, for as long as it is not destroyed.
    pub id: u32,
    /// What its memory is.
    pub of: Of,
    /// The most bytes that it may have in use; 0 for any number.
    most: u64,
    /// Of host memory that other processes may have: the file that it lies in.
    pub file: Option<Arc<HostFile>>,
    pub inside: Mutex<Inside>,
}

impl HostPool {
    /// A pool that may have so many bytes in use; 0 for any number.
    pub fn new(id: u32, of: Of, most: u64, file: Option<Arc<HostFile>>) -> Arc<Self> {
        Arc::new(Self {
            id,
            of,
            most,
            file,
            inside: Mutex::default(),
        })
    }

    /// Whether another process has made it: nothing is taken of it here.
    pub fn is_imported(&self) -> bool {
        self.file.as_ref().is_some_and(|file| !file.is_own)
    }

    /// Memory of it has come from another process.
    pub fn has(&self, size: u64) {
        let mut p = lock(&self.inside);
        p.used.add(size);
        p.reserved.add(size);
    }

    /// Takes memory: `None` when that is too much, else memory that is free, if there is some. What
    /// there is none of is to be made, or [`HostPool::not_made`].
    pub fn take(&self, size: u64) -> Option<Option<u64>> {
        let mut p = lock(&self.inside);
        if self.most != 0 && p.used.now.saturating_add(size) > self.most {
            return None;
        }
        p.used.add(size);
        let known = p.free.get_mut(&size).and_then(Vec::pop);
        if known.is_none() {
            p.reserved.add(size);
        }
        Some(known)
    }

    /// Memory that was taken could not be made.
    pub fn not_made(&self, size: u64) {
        let mut p = lock(&self.inside);
        p.used.now -= size;
        p.reserved.now -= size;
    }

    /// Memory is free again. Gives it back where the pool is gone, or another process's.
    pub fn give(&self, at: u64, size: u64) -> Option<u64> {
        let mut p = lock(&self.inside);
        p.used.now -= size;
        if p.destroyed || self.is_imported() {
            p.reserved.now -= size;
            return Some(at);
        }
        p.free.entry(size).or_default().push(at);
        None
    }

    /// Memory has gone with the context that it was made in. Says whether the pool had it, free.
    pub fn lose(&self, at: u64, size: u64) -> bool {
        let mut p = lock(&self.inside);
        let all = p.free.get_mut(&size);
        let place = all.and_then(|all| Some((all.iter().position(|f| *f == at)?, all)));
        let Some((i, all)) = place else {
            return false;
        };
        all.swap_remove(i);
        p.reserved.now -= size;
        true
    }

    /// Takes free memory out, until the pool has no more than `keep` bytes.
    pub fn trim(&self, keep: u64) -> Vec<u64> {
        let mut p = lock(&self.inside);
        let mut out = Vec::new();
        let sizes: Vec<u64> = p.free.keys().copied().collect();
        for size in sizes {
            while p.reserved.now > keep
                && let Some(at) = p.free.get_mut(&size).and_then(Vec::pop)
            {
                p.reserved.now -= size;
                out.push(at);
            }
        }
        out
    }

    /// The pool goes; gives what of its memory is free.
    pub fn destroy(&self) -> Vec<u64> {
        lock(&self.inside).destroyed = true;
        self.trim(0)
    }
}

/// Pools by what their memory is.
#[derive(Debug, Default)]
pub struct Known {
    /// Those that there are without a program's making one.
    pub own: HashMap<Of, u32>,
    /// Those that a program has put in their place.
    pub current: HashMap<Of, u32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_again_and_goes_with_its_pool() {
        let pool = HostPool::new(7, Of::Host, 300, None);
        assert_eq!(pool.take(100), Some(None), "to be made");
        assert_eq!(pool.take(200), Some(None));
        assert_eq!(pool.take(1), None, "too much");
        assert_eq!(pool.give(0x1000, 100), None);
        assert_eq!(pool.take(100), Some(Some(0x1000)));
        pool.not_made(200);
        assert_eq!(pool.take(200), Some(None));
        let of = |f: fn(&Inside) -> Amount| {
            let a = f(&lock(&pool.inside));
            (a.now, a.high)
        };
        assert_eq!(of(|p| p.used), (300, 300));
        assert_eq!(pool.give(0x1000, 100), None);
        assert!(pool.lose(0x1000, 100) && !pool.lose(0x1000, 100));
        assert_eq!(pool.take(100), Some(None), "it is gone");
        assert_eq!(pool.give(0x1000, 100), None);
        assert_eq!(
            (of(|p| p.used), of(|p| p.reserved)),
            ((200, 300), (300, 300))
        );
        assert!(pool.trim(300).is_empty());
        assert_eq!(pool.destroy(), [0x1000]);
        assert_eq!(pool.give(0x2000, 200), Some(0x2000), "nobody wants it");
        assert_eq!(of(|p| p.reserved).0, 0);
    }
}
