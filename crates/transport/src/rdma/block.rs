//! The memory of a ring's end, and what is written into it in place of bytes that are lent.

use std::io;
use std::sync::atomic::AtomicU64;

/// Bytes of a ring.
pub(super) const RING: usize = 2 << 20;
/// Bytes of the page with the peer's word.
pub(super) const PAGE: usize = 4096;
/// Bytes that are read at once into the ring's own buffer, which has room for [`READS`] times that.
pub(super) const STEP: usize = 256 << 10;
pub(super) const READS: u64 = 2;
pub(super) const BUFFER: usize = READS as usize * STEP;

/// Where bytes lie that are lent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reference {
    pub(super) at: u64,
    pub(super) key: u32,
    pub(super) len: u32,
}

impl Reference {
    /// Bytes of it.
    pub(super) const SIZE: usize = 16;

    pub(super) fn to_bytes(self) -> [u8; Self::SIZE] {
        let mut out = [0; Self::SIZE];
        out[..8].copy_from_slice(&self.at.to_le_bytes());
        out[8..12].copy_from_slice(&self.key.to_le_bytes());
        out[12..].copy_from_slice(&self.len.to_le_bytes());
        out
    }

    pub(super) fn of(bytes: [u8; Self::SIZE]) -> Self {
        let all = u128::from_le_bytes(bytes);
        Self {
            at: all as u64,
            key: (all >> 64) as u32,
            len: (all >> 96) as u32,
        }
    }
}

/// A block of memory that no child of a fork gets, since the adapter writes to these very pages.
pub(super) struct Block {
    pub(super) start: *mut u8,
}

/// Bytes of it.
const BLOCK: usize = PAGE + 2 * RING + BUFFER;

// SAFETY: plain memory; who writes where, and when, is the ring's business.
unsafe impl Send for Block {}
// SAFETY: likewise.
unsafe impl Sync for Block {}

impl Block {
    pub(super) fn new() -> io::Result<Self> {
        let (read_write, how) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
        );
        // SAFETY: a new mapping of our own, and advice for exactly that.
        unsafe {
            let start = libc::mmap(std::ptr::null_mut(), BLOCK, read_write, how, -1, 0);
            if start == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
            libc::madvise(start, BLOCK, libc::MADV_DONTFORK);
            Ok(Self {
                start: start.cast(),
            })
        }
    }

    /// The peer's word: bytes taken, and writes that it was ready for so far.
    pub(super) fn word(&self) -> &[AtomicU64; 2] {
        // SAFETY: the block begins with a page for it, aligned; only the adapter writes there.
        unsafe { &*self.start.cast() }
    }

    pub(super) fn incoming(&self) -> *mut u8 {
        self.start.wrapping_add(PAGE)
    }

    pub(super) fn outgoing(&self) -> *mut u8 {
        self.start.wrapping_add(PAGE + RING)
    }

    /// Where bytes are read to that cannot be read to their place.
    pub(super) fn buffer(&self) -> *mut u8 {
        self.start.wrapping_add(PAGE + 2 * RING)
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: our own mapping, which nobody refers to any more.
        unsafe { libc::munmap(self.start.cast(), BLOCK) };
    }
}
