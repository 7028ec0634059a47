//! Memory that reads fill. It is kept for the next read: fresh memory costs a page fault for every
//! page, which is slower than the copy itself. What was not needed for a while goes back.

use crate::prelude::*;
use busbar_abi::opencl::CL_OUT_OF_HOST_MEMORY;
use busbar_wire::limits::BULK_CHUNK;
use std::alloc::Layout;

/// Pieces that are kept in any case.
const KEPT: usize = 48;
/// The most that are kept at all.
const MOST: usize = 1024;
/// Up to this size it is cheaper to take memory that is just as long.
const SMALL: usize = 64 << 10;

#[derive(Default)]
struct Free {
    pieces: Vec<Box<[u8]>>,
    /// The fewest that there were since the last look.
    least: usize,
}

/// Pieces for reuse.
#[derive(Clone, Default)]
pub struct Pool {
    free: Arc<Mutex<Free>>,
}

/// Memory of one read.
pub struct Landing {
    memory: Box<[u8]>,
    len: usize,
    home: Pool,
}

/// Zeros, of which the system makes pages as they are touched.
fn zeros(n: usize) -> Result<Box<[u8]>, i32> {
    let layout = Layout::array::<u8>(n).map_err(|_| CL_OUT_OF_HOST_MEMORY)?;
    if n == 0 {
        return Ok(Box::default());
    }
    // SAFETY: not of size zero; the box frees with the same layout, and zeros are valid bytes.
    unsafe {
        let p = std::alloc::alloc_zeroed(layout);
        match p.is_null() {
            true => Err(CL_OUT_OF_HOST_MEMORY),
            false => Ok(Box::from_raw(std::ptr::slice_from_raw_parts_mut(p, n))),
        }
    }
}

impl Pool {
    fn free(&self) -> MutexGuard<'_, Free> {
        lock(&self.free)
    }

    /// Memory of `n` bytes, of unknown contents: the read fills all of it before anybody looks.
    pub fn take(&self, n: usize) -> Result<Landing, i32> {
        let memory = if (SMALL..=BULK_CHUNK).contains(&n) {
            let mut free = self.free();
            let piece = free.pieces.pop();
            free.least = free.least.min(free.pieces.len());
            drop(free);
            piece.map_or_else(|| zeros(BULK_CHUNK), Ok)?
        } else {
            zeros(n)?
        };
        Ok(Landing {
            memory,
            len: n,
            home: self.clone(),
        })
    }

    /// Gives back what nobody has needed since the last call.
    pub fn trim(&self) {
        let mut free = self.free();
        let spare = free.least.min(free.pieces.len().saturating_sub(KEPT));
        let rest = free.pieces.len() - spare;
        let gone = free.pieces.split_off(rest);
        free.least = rest;
        drop(free);
        drop(gone);
    }
}

impl Landing {
    /// The memory.
    pub fn bytes(&self) -> &[u8] {
        &self.memory[..self.len]
    }

    /// The memory, to be filled.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[..self.len]
    }
}

impl Drop for Landing {
    fn drop(&mut self) {
        if self.memory.len() != BULK_CHUNK {
            return;
        }
        let mut free = self.home.free();
        if free.pieces.len() < MOST {
            free.pieces.push(std::mem::take(&mut self.memory));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_again_and_given_back_when_it_is_not() {
        let pool = Pool::default();
        let take = |n| pool.take(n).unwrap();
        let all: Vec<_> = (0..KEPT + 10).map(|_| take(BULK_CHUNK)).collect();
        let at = all[KEPT + 9].bytes().as_ptr();
        drop(all);
        let again = take(BULK_CHUNK - 5);
        assert_eq!(again.bytes().as_ptr(), at);
        assert_eq!(again.bytes().len(), BULK_CHUNK - 5);
        drop(again);
        pool.trim();
        assert_eq!(pool.free().pieces.len(), KEPT + 10, "one look says nothing");
        pool.trim();
        assert_eq!(pool.free().pieces.len(), KEPT);
        drop(take(SMALL - 1));
        assert_eq!(pool.free().pieces.len(), KEPT);
    }
}
