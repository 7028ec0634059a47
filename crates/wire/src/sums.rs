//! Sums of blocks of memory: who asks for memory that he has an older state of says which, and gets
//! the blocks that differ.

use crate::limits::BULK_CHUNK;
use std::ops::Range;

/// Bytes of a block.
pub const BLOCK: usize = 64 << 10;
/// Bytes of a sum. No two blocks that differ have the same, for all that anybody knows.
pub const SUM: usize = 16;

// A piece has whole blocks, so that its sums are a part of those of all.
const _: () = assert!(BULK_CHUNK.is_multiple_of(BLOCK));

fn sum(block: &[u8]) -> [u8; SUM] {
    let mut sum = [0; SUM];
    sum.copy_from_slice(&blake3::hash(block).as_bytes()[..SUM]);
    sum
}

/// The sums of the blocks of some bytes, one behind the other.
pub fn sums(bytes: &[u8]) -> Vec<u8> {
    bytes.chunks(BLOCK).flat_map(sum).collect()
}

/// How many bytes the sums of so many bytes take.
pub fn len_of(bytes: u64) -> u64 {
    bytes.div_ceil(BLOCK as u64) * SUM as u64
}

/// Runs of blocks whose sums are others than these; all, where there are no sums.
pub fn differing<'a>(bytes: &'a [u8], known: &'a [u8]) -> impl Iterator<Item = Range<usize>> + 'a {
    let differs = move |block: &usize| {
        let theirs = known.get(block * SUM..(block + 1) * SUM);
        let ours = &bytes[block * BLOCK..bytes.len().min((block + 1) * BLOCK)];
        theirs.is_none_or(|theirs| theirs != sum(ours))
    };
    let (blocks, mut at) = (bytes.len().div_ceil(BLOCK), 0);
    std::iter::from_fn(move || {
        let start = (at..blocks).find(differs)?;
        at = (start + 1..blocks).find(|b| !differs(b)).unwrap_or(blocks);
        Some(start * BLOCK..bytes.len().min(at * BLOCK))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_makes_the_old_bytes_the_new_ones() {
        let old: Vec<u8> = (0..5 * BLOCK + 100).map(|i| (i / 7) as u8).collect();
        for changed in [
            &[][..],
            &[0],
            &[1, 2],
            &[0, 4, 5],
            &[5],
            &[0, 1, 2, 3, 4, 5],
        ] {
            let mut new = old.clone();
            changed
                .iter()
                .for_each(|block| new[block * BLOCK + 50] ^= 1);
            let known = sums(&old);
            assert_eq!(known.len() as u64, len_of(old.len() as u64));
            let (mut both, mut told) = (old.clone(), 0);
            for r in differing(&new, &known) {
                both[r.clone()].copy_from_slice(&new[r.clone()]);
                told += r.len().div_ceil(BLOCK);
            }
            assert!(both == new && told == changed.len(), "{changed:?}");
        }
    }

    #[test]
    fn all_is_told_to_who_knows_nothing() {
        let bytes = vec![1; 2 * BLOCK + 1];
        let all: Vec<_> = differing(&bytes, &[]).collect();
        assert_eq!(all.len(), 1);
        assert_eq!(all[0], 0..bytes.len());
        assert!(differing(&[], &[]).next().is_none());
    }
}
