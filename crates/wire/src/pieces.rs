//! Boxes of rows and slices, cut into pieces that fit into records.

/// A part of a box.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Where it begins, counted from the box's own beginning.
    pub at: [u64; 3],
    /// Its width, rows and slices.
    pub region: [u64; 3],
    /// Where its bytes begin among the box's, which lie without gaps.
    pub offset: u64,
    /// How many bytes it has.
    pub bytes: u64,
}

/// Cuts a box whose elements have `element` bytes into pieces of at most `most` bytes each, but of
/// one element at least. The bytes of the pieces follow each other without gaps. A box of nothing,
/// and one too large to count, is one piece of no bytes.
pub fn pieces(region: [u64; 3], element: u64, most: u64) -> impl Iterator<Item = Piece> {
    let [width, rows, slices] = region;
    let row = width.checked_mul(element);
    let slice = row.and_then(|n| n.checked_mul(rows));
    let all = slice.and_then(|n| n.checked_mul(slices));
    let (row, slice, all) = (row.unwrap_or(0), slice.unwrap_or(0), all.unwrap_or(0));
    let step = match all {
        n if n <= most => region,
        _ if slice <= most => [width, rows, most / slice],
        _ if row <= most => [width, most / row, 1],
        _ => [(most / element).max(1), 1, 1],
    };
    let mut next = Some([0; 3]);
    std::iter::from_fn(move || {
        let at = next?;
        let mut part = [0; 3];
        for i in 0..3 {
            part[i] = step[i].min(region[i] - at[i]);
        }
        let mut then = at;
        next = None;
        for i in 0..3 {
            then[i] += step[i];
            if then[i] < region[i] {
                next = (all > 0).then_some(then);
                break;
            }
            then[i] = 0;
        }
        let bytes = match all {
            0 => 0,
            _ => part[0] * part[1] * part[2] * element,
        };
        Some(Piece {
            at,
            region: part,
            offset: at[2] * slice + at[1] * row + at[0] * element,
            bytes,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_a_box_once_and_in_order() {
        for region in [
            [1, 1, 1],
            [7, 1, 1],
            [7, 5, 1],
            [7, 5, 3],
            [100, 1, 9],
            [3, 40, 2],
        ] {
            for most in [1, 3, 16, 28, 60, 84, 1000, 1 << 20] {
                let mut end = 0;
                for p in pieces(region, 4, most) {
                    assert_eq!(p.offset, end, "{region:?} in {most}");
                    assert_eq!(p.bytes, p.region.iter().product::<u64>() * 4);
                    assert!(p.bytes > 0 && p.bytes <= most.max(4));
                    let [w, h, _] = region;
                    assert_eq!(p.offset, ((p.at[2] * h + p.at[1]) * w + p.at[0]) * 4);
                    end += p.bytes;
                }
                assert_eq!(end, region.iter().product::<u64>() * 4);
            }
        }
    }

    #[test]
    fn a_box_of_nothing_or_beyond_measure_is_one_piece_of_no_bytes() {
        for region in [
            [0, 1, 1],
            [5, 0, 2],
            [u64::MAX, 2, 1],
            [1 << 32, 1 << 31, 4],
        ] {
            let all: Vec<_> = pieces(region, 4, 1 << 20).collect();
            assert_eq!(all.len(), 1, "{region:?}");
            assert_eq!((all[0].region, all[0].bytes), (region, 0));
        }
    }
}
