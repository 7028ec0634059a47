//! Boxes of bytes in memory, with gaps between their rows and slices. They travel without gaps.

use std::borrow::Cow;

/// Rows and slices of a box of bytes in memory.
#[derive(Clone, Copy)]
pub struct Layout {
    /// Bytes of a row.
    pub row: usize,
    /// Rows of a slice.
    pub rows: usize,
    /// Slices.
    pub slices: usize,
    /// Bytes from row to row.
    pub row_pitch: usize,
    /// Bytes from slice to slice.
    pub slice_pitch: usize,
}

impl Layout {
    /// Bytes without gaps.
    pub fn packed(&self) -> usize {
        self.row * self.rows * self.slices
    }

    /// Whether there are no gaps.
    pub fn tight(&self) -> bool {
        (self.row_pitch == self.row || self.rows * self.slices == 1)
            && (self.slice_pitch == self.row * self.rows || self.slices == 1)
    }

    fn starts(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.slices).flat_map(move |z| {
            (0..self.rows).map(move |y| z * self.slice_pitch + y * self.row_pitch)
        })
    }

    /// Its bytes without gaps: where they are, if there are none.
    ///
    /// # Safety
    /// The box at `from` is readable, for as long as the result is used.
    pub unsafe fn gather<'a>(&self, from: *const u8) -> Cow<'a, [u8]> {
        if self.tight() {
            // SAFETY: passed on to the caller.
            return Cow::Borrowed(unsafe { std::slice::from_raw_parts(from, self.packed()) });
        }
        let mut v = Vec::with_capacity(self.packed());
        for at in self.starts() {
            // SAFETY: passed on to the caller.
            v.extend_from_slice(unsafe { std::slice::from_raw_parts(from.add(at), self.row) });
        }
        Cow::Owned(v)
    }

    /// Puts the gaps in.
    ///
    /// # Safety
    /// The box at `to` is writable.
    pub unsafe fn scatter(&self, packed: &[u8], to: *mut u8) {
        for (row, at) in packed.chunks_exact(self.row.max(1)).zip(self.starts()) {
            // SAFETY: passed on to the caller.
            unsafe { std::ptr::copy_nonoverlapping(row.as_ptr(), to.add(at), row.len()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_with_gaps_is_gathered_and_scattered_and_one_without_is_left_where_it_is() {
        let gaps = Layout {
            row: 2,
            rows: 2,
            slices: 2,
            row_pitch: 3,
            slice_pitch: 8,
        };
        assert!(!gaps.tight());
        assert_eq!(gaps.packed(), 8);
        let from: Vec<u8> = (0..16).collect();
        // SAFETY: the last byte of the box is the 13th.
        let packed = unsafe { gaps.gather(from.as_ptr()) };
        assert_eq!(*packed, [0, 1, 3, 4, 8, 9, 11, 12]);
        let mut to = [99; 16];
        // SAFETY: as above.
        unsafe { gaps.scatter(&packed, to.as_mut_ptr()) };
        let kept = |i: &usize| to[*i] == 99;
        assert_eq!((0..13).filter(kept).collect::<Vec<_>>(), [2, 5, 6, 7, 10]);
        let tight = Layout {
            row_pitch: 2,
            slice_pitch: 4,
            ..gaps
        };
        assert!(tight.tight());
        // SAFETY: eight bytes are there.
        let same = unsafe { tight.gather(from.as_ptr()) };
        assert!(matches!(same, Cow::Borrowed(b) if b.as_ptr() == from.as_ptr()));
    }
}
