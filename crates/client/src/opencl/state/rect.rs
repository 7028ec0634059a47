//! Boxes of bytes in a buffer or in the program's memory: where they begin and end.
#![forbid(unsafe_code)]

use super::Result;
use super::layout::Layout;
use busbar_abi::opencl::{CL_INVALID_VALUE, CL_MEM_COPY_OVERLAP};

/// One side of a copy.
#[derive(Debug)]
pub struct Side {
    /// Where the box begins.
    pub origin: [u64; 3],
    /// Bytes from row to row and from slice to slice.
    pub pitch: [u64; 2],
    /// The offset of its first byte.
    pub start: usize,
    /// The offset after its last byte.
    pub end: usize,
}

impl Side {
    /// The box of a region, with given pitches (0 for none).
    pub fn new(origin: [u64; 3], region: &[u64; 3], (row, slice): (usize, usize)) -> Result<Self> {
        let row = if row == 0 { region[0] } else { row as u64 };
        let rows = row.checked_mul(region[1]).ok_or(CL_INVALID_VALUE)?;
        let slice = if slice == 0 { rows } else { slice as u64 };
        if row < region[0] || slice < rows || row > 0 && !slice.is_multiple_of(row) {
            return Err(CL_INVALID_VALUE);
        }
        let at = |x: u64, y: u64, z: u64| {
            let sum = y.checked_mul(row)?.checked_add(z.checked_mul(slice)?)?;
            usize::try_from(sum.checked_add(x)?).ok()
        };
        let last = |i: usize| origin[i].checked_add(region[i])?.checked_sub(1);
        let start = at(origin[0], origin[1], origin[2]);
        let end = || at(last(0)? + 1, last(1)?, last(2)?);
        Ok(Self {
            origin,
            pitch: [row, slice],
            start: start.ok_or(CL_INVALID_VALUE)?,
            end: end().ok_or(CL_INVALID_VALUE)?,
        })
    }

    /// The box as rows and slices in the program's memory.
    pub fn layout(&self, region: &[u64; 3]) -> Layout {
        Layout {
            row: region[0] as usize,
            rows: region[1] as usize,
            slices: region[2] as usize,
            row_pitch: self.pitch[0] as usize,
            slice_pitch: self.pitch[1] as usize,
        }
    }
}

/// Whether two areas of one object have anything in common.
pub fn overlap(a: &[u64; 3], b: &[u64; 3], region: &[u64; 3]) -> bool {
    (0..3).all(|i| a[i].abs_diff(b[i]) < region[i])
}

/// Fails when a copy within one buffer cannot be made.
pub fn check_within(from: &Side, to: &Side, region: &[u64; 3]) -> Result<()> {
    if from.pitch != to.pitch {
        return Err(CL_INVALID_VALUE);
    }
    match overlap(&from.origin, &to.origin, region) {
        true => Err(CL_MEM_COPY_OVERLAP),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_box_ends_with_the_last_byte_of_its_last_row() {
        let s = Side::new([1, 2, 3], &[4, 5, 6], (10, 100)).unwrap();
        assert_eq!((s.start, s.end), (321, 1 + 4 + 6 * 10 + 8 * 100));
        let tight = Side::new([0; 3], &[4, 5, 6], (0, 0)).unwrap();
        assert_eq!((tight.pitch, tight.end), ([4, 20], 120));
        assert!(tight.layout(&[4, 5, 6]).tight());
    }

    #[test]
    fn pitches_that_do_not_fit_and_sizes_beyond_measure_are_refused() {
        for (row, slice) in [(3, 0), (4, 19), (6, 31)] {
            assert!(Side::new([0; 3], &[4, 5, 6], (row, slice)).is_err());
        }
        assert!(Side::new([u64::MAX, 0, 0], &[2, 1, 1], (0, 0)).is_err());
        assert!(Side::new([0, 1 << 40, 0], &[1 << 40, 1, 1], (0, 0)).is_err());
    }

    #[test]
    fn a_box_may_not_be_copied_onto_itself() {
        let side = |x| Side::new([x, 0, 0], &[4, 2, 1], (16, 0)).unwrap();
        let within = |x| check_within(&side(0), &side(x), &[4, 2, 1]);
        assert_eq!((within(3), within(4)), (Err(CL_MEM_COPY_OVERLAP), Ok(())));
        let other = Side::new([8, 0, 0], &[4, 2, 1], (32, 0)).unwrap();
        let e = check_within(&side(0), &other, &[4, 2, 1]);
        assert_eq!(e, Err(CL_INVALID_VALUE));
    }
}
