//! Files that have host memory for several processes: of a pool, or of `cuMemCreate`.
//!
//! The first page says what the file is; memory begins behind it. Whoever has the file may map it,
//! as whoever has a driver's descriptor may.

use super::prelude::*;
use std::os::fd::OwnedFd;

/// What a file is for: the memory of a pool, or of one allocation.
pub const POOL: [u8; 8] = *b"busbar\0\x04";
pub const MEMORY: [u8; 8] = *b"busbar\0\x05";

/// Where memory begins.
pub const FIRST: u64 = 4096;

/// Bytes of a head.
pub const HEAD: usize = 64;

/// How a file begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    pub what: [u8; 8],
    /// What other files do not have.
    pub tag: [u8; 16],
    /// Of one allocation: its length, and what it was asked for.
    pub size: u64,
    pub props: [u8; 32],
}

impl Head {
    pub fn bytes(&self) -> [u8; HEAD] {
        let mut b = [0; HEAD];
        b[..8].copy_from_slice(&self.what);
        b[8..24].copy_from_slice(&self.tag);
        b[24..32].copy_from_slice(&self.size.to_le_bytes());
        b[32..].copy_from_slice(&self.props);
        b
    }

    /// What the first bytes of a file for such a thing say.
    pub fn parse(b: &[u8; HEAD], what: [u8; 8]) -> Option<Self> {
        let head = Self {
            what,
            tag: b[8..].first_chunk().copied()?,
            size: u64::from_le_bytes(b[24..].first_chunk().copied()?),
            props: b[32..].first_chunk().copied()?,
        };
        (b[..8] == what).then_some(head)
    }
}

/// A file that this process has.
#[derive(Debug)]
pub struct HostFile {
    pub fd: OwnedFd,
    pub head: Head,
    /// It was made here; others' is used, and not given on.
    pub is_own: bool,
    /// Where it ends, and the next piece begins.
    pub end: Mutex<u64>,
}

/// Where memory lies in a file.
#[derive(Debug, Clone)]
pub struct Piece {
    pub file: Arc<HostFile>,
    pub offset: u64,
    pub size: u64,
}

impl Piece {
    /// What a program passes on of memory of a pool.
    pub fn ticket(&self) -> CUmemPoolPtrExportData {
        let mut data = CUmemPoolPtrExportData { reserved: [0; 64] };
        let fields = [self.offset.to_le_bytes(), self.size.to_le_bytes()];
        data.reserved[..16].copy_from_slice(&self.file.head.tag);
        data.reserved[16..32].copy_from_slice(fields.as_flattened());
        data
    }

    /// The memory that such a ticket names, in the file of its pool.
    pub fn of(file: &Arc<HostFile>, data: &CUmemPoolPtrExportData) -> Option<Self> {
        let part = |from: usize| {
            let bytes = data.reserved[from..].first_chunk().copied();
            bytes.map(u64::from_le_bytes)
        };
        let (offset, size) = (part(16)?, part(24)?);
        let right = data.reserved[..16] == file.head.tag
            && offset >= FIRST
            && offset.is_multiple_of(FIRST)
            && size > 0;
        let file = file.clone();
        right.then_some(Self { file, offset, size })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_says_what_was_put_in() {
        let head = Head {
            what: MEMORY,
            tag: [7; 16],
            size: 3 << 20,
            props: [9; 32],
        };
        assert_eq!(Head::parse(&head.bytes(), MEMORY), Some(head));
        assert_eq!(Head::parse(&head.bytes(), POOL), None);
    }

    #[test]
    fn a_ticket_is_good_for_its_own_file() {
        let of = |tag| {
            let head = Head {
                what: POOL,
                tag,
                size: 0,
                props: [0; 32],
            };
            let fd = std::fs::File::open("/dev/null").expect("a file").into();
            let (is_own, end) = (true, Mutex::new(FIRST));
            Arc::new(HostFile {
                fd,
                head,
                is_own,
                end,
            })
        };
        let (file, other) = (of([1; 16]), of([2; 16]));
        let piece = |offset, size| Piece {
            file: file.clone(),
            offset,
            size,
        };
        let there = Piece::of(&file, &piece(2 * FIRST, 100).ticket()).expect("its own");
        assert_eq!((there.offset, there.size), (2 * FIRST, 100));
        assert!(Piece::of(&other, &piece(2 * FIRST, 100).ticket()).is_none());
        for (offset, size) in [(0, 1), (FIRST + 1, 1), (FIRST, 0)] {
            assert!(Piece::of(&file, &piece(offset, size).ticket()).is_none());
        }
    }
}
