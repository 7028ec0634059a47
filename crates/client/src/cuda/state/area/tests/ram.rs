//! Memory of tests, with the rights that were set last.

use crate::cuda::state::area::{Change, Pages, Result};
use std::cell::{Cell, RefCell};

/// Bytes from an address on.
pub struct Ram {
    /// The first address.
    pub at: u64,
    bytes: Box<[Cell<u8>]>,
    /// What was set, in order.
    pub rights: RefCell<Vec<(u64, u64, i32)>>,
}

impl Ram {
    /// So many zeros.
    pub fn new(at: u64, len: usize) -> Self {
        Self {
            at,
            bytes: vec![Cell::new(0); len].into(),
            rights: RefCell::default(),
        }
    }

    /// Writes as the program does.
    pub fn write(&self, at: u64, bytes: &[u8]) {
        let from = (at - self.at) as usize;
        for (cell, b) in self.bytes[from..].iter().zip(bytes) {
            cell.set(*b);
        }
    }

    /// The byte at an address.
    pub fn get(&self, p: u64) -> u8 {
        self.bytes[(p - self.at) as usize].get()
    }
}

impl Pages for Ram {
    fn protect(&self, at: u64, len: u64, rights: i32) -> Result<()> {
        self.rights.borrow_mut().push((at, len, rights));
        Ok(())
    }
    fn bytes(&self, at: u64, len: usize) -> &[u8] {
        let from = (at - self.at) as usize;
        let copy = self.bytes[from..from + len].iter().map(|b| b.get());
        Box::leak(copy.collect::<Box<[u8]>>())
    }
    fn peek(&self, at: u64, to: &mut [u8]) -> bool {
        to.copy_from_slice(self.bytes(at, to.len()));
        true
    }
    fn merge(&self, change: &Change) {
        self.write(change.at, &change.new);
    }
    fn fill(&self, at: u64, bytes: &[u8]) -> Result<()> {
        self.write(at, bytes);
        Ok(())
    }
    fn watch(&self, _at: u64, _len: u64) -> Result<()> {
        Ok(())
    }
    fn unwatch(&self, _at: u64, _len: u64) {}
}
