//! What the device had of blocks when the program was let in while work went on: a function that
//! runs in stream order must not wait, and what runs beside it may write other bytes of the same
//! block. So of such a block only what has changed since is sent, and it is closed as soon as the
//! program hears of anything.

use busbar_wire::changes::ends;
use std::collections::BTreeMap;
use std::ops::Range;

/// What the program has changed of memory that it was let in to while work went on.
#[derive(Debug)]
pub struct Beside {
    /// The device's address of the first byte.
    pub dst: u64,
    /// The words around what has changed.
    pub bytes: Vec<u8>,
    /// What has, of these bytes.
    pub runs: Vec<Range<usize>>,
}

impl Beside {
    /// Where the first byte that has changed goes, and how far it is to the last.
    pub fn place(&self) -> (u64, usize) {
        let (first, end) = ends(&self.runs);
        (self.dst + first as u64, end - first)
    }
}

/// Bytes by block.
#[derive(Debug, Default)]
pub struct Images(BTreeMap<usize, Vec<u8>>);

impl Images {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn keep(&mut self, block: usize, bytes: Vec<u8>) {
        self.0.insert(block, bytes);
    }

    pub fn has(&self, block: usize) -> bool {
        self.0.contains_key(&block)
    }

    pub fn take(&mut self, block: usize) -> Option<Vec<u8>> {
        self.0.remove(&block)
    }

    /// Blocks have other bytes now, or none.
    pub fn forget(&mut self, blocks: Range<usize>) {
        if !self.0.is_empty() {
            self.0.retain(|b, _| !blocks.contains(b));
        }
    }

    /// How many blocks from `first` on, before `end`, have none.
    pub fn without(&self, first: usize, end: usize) -> usize {
        let next = self.0.range(first..end).next();
        next.map_or(end, |(b, _)| *b) - first
    }
}
