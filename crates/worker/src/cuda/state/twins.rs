//! Memory of the worker's own that stands for page-locked memory of a program elsewhere, at the
//! address at which the program has it, or where kernels were told that it is.
//!
//! The driver has registered it, so that kernels and copies use it in place. What goes to it and
//! comes from it goes past the driver, whose calls may wait for one another.

use super::image::{Image, View};
use super::prelude::*;
use std::io;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

#[derive(Debug, Clone, Copy)]
struct Twin {
    view: View,
    /// The context in which the driver registered it.
    context: u32,
}

/// What there is, by address. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Twins {
    all: Arc<Mutex<BTreeMap<u64, Twin>>>,
    image: Image,
}

impl Twins {
    /// Twins that show the program's memory as this image has it.
    pub fn of(image: Image) -> Self {
        let all = Arc::default();
        Self { all, image }
    }

    /// Maps `size` bytes, where nothing is yet, for what the program has at `origin`.
    pub fn map(&self, va: u64, size: u64, origin: u64, context: u32) -> io::Result<()> {
        let view = self.image.show(Some(va), origin, size)?;
        lock(&self.all).insert(va, Twin { view, context });
        Ok(())
    }

    /// The length of what was mapped at an address.
    pub fn size(&self, va: u64) -> Option<u64> {
        lock(&self.all).get(&va).map(|t| t.view.len)
    }

    /// Unmaps what was mapped at an address, which the driver knows no longer; its length.
    pub fn unmap(&self, va: u64) -> Option<u64> {
        let mut all = lock(&self.all);
        let view = all.remove(&va)?.view;
        // SAFETY: mapped by `map`; whoever uses it has the lock.
        unsafe { self.image.hide(view) };
        Some(view.len)
    }

    /// What was registered in a context.
    pub fn of_context(&self, context: u32) -> Vec<u64> {
        let all = lock(&self.all);
        let of_it = all.iter().filter(|(_, t)| t.context == context);
        of_it.map(|(va, _)| *va).collect()
    }

    /// Runs `f` when all of some addresses lie in one piece, which stays meanwhile.
    fn inside<T>(&self, at: u64, len: u64, f: impl FnOnce() -> T) -> Option<T> {
        let all = lock(&self.all);
        let (va, t) = all.range(..=at).next_back()?;
        let offset = at - va;
        (offset < t.view.len && len <= t.view.len - offset).then(f)
    }

    /// Whether an address is of one.
    pub fn has(&self, at: u64) -> bool {
        self.inside(at, 1, || ()).is_some()
    }

    /// Writes bytes, each aligned word of them at once, in the order of their addresses. False when
    /// they are not all in one piece.
    pub fn write(&self, at: u64, bytes: &[u8]) -> bool {
        let write = || {
            words(at, bytes.len(), |p, offset, n| {
                let from = &bytes[offset..offset + n];
                let mut word = [0; 8];
                word[..n].copy_from_slice(from);
                let word = u64::from_le_bytes(word);
                // SAFETY: an aligned word of mapped memory, which devices and nobody else use at
                // the same time.
                unsafe {
                    match n {
                        8 => AtomicU64::from_ptr(p as _).store(word, Ordering::Release),
                        4 => AtomicU32::from_ptr(p as _).store(word as u32, Ordering::Release),
                        2 => AtomicU16::from_ptr(p as _).store(word as u16, Ordering::Release),
                        _ => AtomicU8::from_ptr(p as _).store(word as u8, Ordering::Release),
                    }
                }
            });
        };
        self.inside(at, bytes.len() as u64, write).is_some()
    }

    /// Reads bytes likewise; none when they are not all in one piece.
    pub fn read(&self, at: u64, len: u64) -> Option<Vec<u8>> {
        self.inside(at, len, || {
            let mut bytes = vec![0; len as usize];
            words(at, bytes.len(), |p, offset, n| {
                // SAFETY: as in `write`.
                let word = unsafe {
                    match n {
                        8 => AtomicU64::from_ptr(p as _).load(Ordering::Acquire),
                        4 => AtomicU32::from_ptr(p as _).load(Ordering::Acquire).into(),
                        2 => AtomicU16::from_ptr(p as _).load(Ordering::Acquire).into(),
                        _ => AtomicU8::from_ptr(p as _).load(Ordering::Acquire).into(),
                    }
                };
                bytes[offset..offset + n].copy_from_slice(&word.to_le_bytes()[..n]);
            });
            bytes
        })
    }
}

/// Calls `f` with the address, the offset and the length of each aligned word.
fn words(at: u64, len: usize, mut f: impl FnMut(u64, usize, usize)) {
    let mut offset = 0;
    while offset < len {
        let p = at + offset as u64;
        let aligned = 1 << p.trailing_zeros().min(3);
        let left = len - offset;
        let n = if left >= aligned {
            aligned
        } else {
            1 << left.ilog2()
        };
        f(p, offset, n);
        offset += n;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use busbar_wire::generated::cuda::contract;

    const VA: u64 = contract::span(contract::WINDOW).start + (7 << 30);

    #[test]
    fn words_are_aligned_and_cover_all() {
        for (at, len, wanted) in [
            (0, 17, vec![(0, 8), (8, 8), (16, 1)]),
            (5, 12, vec![(0, 1), (1, 2), (3, 8), (11, 1)]),
            (4, 4, vec![(0, 4)]),
            (2, 7, vec![(0, 2), (2, 4), (6, 1)]),
            (6, 0, vec![]),
        ] {
            let mut got = Vec::new();
            words(at, len, |p, offset, n| {
                assert_eq!((p, p % n as u64), (at + offset as u64, 0));
                got.push((offset, n));
            });
            assert_eq!(got, wanted);
        }
    }

    #[test]
    fn bytes_go_in_and_come_out_where_there_is_memory_and_nowhere_else() {
        let twins = Twins::default();
        twins.map(VA, 8192, 0x1000, 3).unwrap();
        let again = twins.map(VA + 4096, 4096, 0x9000, 3);
        assert!(again.is_err(), "there is something");
        assert!(twins.write(VA + 4090, &[1, 2, 3, 4, 5, 6, 7, 8, 9]));
        let read = twins.read(VA + 4089, 11).unwrap();
        assert_eq!(read, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0]);
        for (at, len) in [
            (VA - 1, 2),
            (VA + 8191, 2),
            (VA + 8192, 0),
            (VA, u64::MAX),
            (0, 1),
        ] {
            assert!(twins.read(at, len).is_none(), "{at:#x} {len}");
        }
        assert_eq!(
            (twins.of_context(3), twins.of_context(4)),
            (vec![VA], vec![])
        );
        assert_eq!((twins.size(VA), twins.unmap(VA)), (Some(8192), Some(8192)));
        assert!(!twins.write(VA, &[1]) && twins.unmap(VA).is_none());
    }
}
