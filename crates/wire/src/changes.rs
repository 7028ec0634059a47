//! Where two states of the same memory differ.

use std::ops::Range;

/// Runs of bytes that differ; both have the same length.
pub fn changes(old: &[u8], new: &[u8]) -> impl Iterator<Item = Range<usize>> {
    const STEP: usize = 256;
    let same = |i: usize| old[i] == new[i];
    let mut at = 0;
    std::iter::from_fn(move || {
        // Most of it is the same, as a rule.
        while at + STEP < new.len() && old[at..at + STEP] == new[at..at + STEP] {
            at += STEP;
        }
        let start = (at..new.len()).find(|i| !same(*i))?;
        at = (start..new.len()).find(|i| same(*i)).unwrap_or(new.len());
        Some(start..at)
    })
}

/// The bytes that differ and those between them, if any do.
pub fn changed(old: &[u8], new: &[u8]) -> Option<Range<usize>> {
    let mut runs = changes(old, new);
    let first = runs.next()?;
    Some(first.start..runs.last().map_or(first.end, |last| last.end))
}

/// Runs that lie so close together belong together: bytes of integers change in part.
pub const CLOSE: u64 = 16;

/// Such runs together; none when there is nothing.
pub fn together(runs: impl Iterator<Item = Range<usize>>) -> Vec<Vec<Range<usize>>> {
    let mut all: Vec<Vec<Range<usize>>> = Vec::new();
    for run in runs {
        let last = all.last_mut().filter(|group| {
            let end = group.last().map_or(0, |last| last.end);
            ((run.start - end) as u64) < CLOSE
        });
        match last {
            Some(group) => group.push(run),
            None => all.push(vec![run]),
        }
    }
    all
}

/// Writes where runs of bytes lie, from the first one's beginning: how far they go, and a bit for
/// each byte.
pub fn map(runs: &[Range<usize>], out: &mut Vec<u8>) {
    let (first, end) = ends(runs);
    out.extend_from_slice(&((end - first) as u32).to_le_bytes());
    let at = out.len();
    out.resize(at + (end - first).div_ceil(8), 0);
    for i in runs.iter().cloned().flatten() {
        out[at + (i - first) / 8] |= 1 << ((i - first) % 8);
    }
}

/// Where the first of some runs begins, and the last ends.
pub fn ends(runs: &[Range<usize>]) -> (usize, usize) {
    let first = runs.first().map_or(0, |r| r.start);
    (first, runs.last().map_or(first, |r| r.end))
}

/// Bytes that lie in runs among others.
#[derive(Debug, PartialEq, Eq)]
pub struct Parts<'a> {
    /// How far the runs go.
    pub len: usize,
    /// Where they lie.
    pub runs: Vec<Range<usize>>,
    /// Their bytes, one run's after the other's.
    pub bytes: &'a [u8],
}

/// Reads such a map, of bytes that are behind it and go no further than `most`. None where it is
/// none, or there are more bytes or fewer.
pub fn read_map(payload: &[u8], most: usize) -> Option<Parts<'_>> {
    let (len, rest) = payload.split_first_chunk()?;
    let len = u32::from_le_bytes(*len) as usize;
    if len > most {
        return None;
    }
    let (map, bytes) = rest.split_at_checked(len.div_ceil(8))?;
    let has = |i: usize| map[i / 8] & (1 << (i % 8)) != 0;
    let mut runs: Vec<Range<usize>> = Vec::new();
    let mut count = 0;
    for i in (0..len).filter(|i| has(*i)) {
        count += 1;
        match runs.last_mut().filter(|r| r.end == i) {
            Some(r) => r.end += 1,
            None => runs.push(i..i + 1),
        }
    }
    (count == bytes.len()).then_some(Parts { len, runs, bytes })
}

/// Runs of the same length, each as far from the last: how many of `runs` at its beginning are.
pub fn regular(runs: &[Range<usize>]) -> usize {
    let [a, b, ..] = runs else {
        return runs.len();
    };
    let (len, apart) = (a.len(), b.start - a.start);
    let alike = runs
        .windows(2)
        .take_while(|w| w[1].len() == len && w[1].start - w[0].start == apart);
    alike.count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_of_bytes_that_differ_is_found() {
        let old = [0; 1000];
        let mut new = old;
        for at in [0, 1, 255, 256, 700, 999] {
            new[at] = 1;
        }
        let found: Vec<_> = changes(&old, &new).collect();
        assert_eq!(found, [0..2, 255..257, 700..701, 999..1000]);
        assert_eq!(changes(&new, &new).count(), 0);
    }

    #[test]
    fn a_map_says_where_runs_are() {
        let runs = [5..6, 9..11, 100..101];
        let mut out = Vec::new();
        map(&runs, &mut out);
        assert_eq!(out.len(), 4 + 96_usize.div_ceil(8));
        let had = out.clone();
        out.extend([1, 2, 3, 4]);
        let (len, runs) = (96, vec![0..1, 4..6, 95..96]);
        let bytes = &[1, 2, 3, 4][..];
        assert_eq!(read_map(&out, 96), Some(Parts { len, runs, bytes }));
        // Too far, cut short, and with another number of bytes than it says.
        assert_eq!(read_map(&out, 95), None);
        assert_eq!(read_map(&out[..out.len() - 1], 96), None);
        assert_eq!(read_map(&had[..9], 96), None);
        assert_eq!(read_map(&[1, 0], 96), None);
        out.push(5);
        assert_eq!(read_map(&out, 96), None);
    }

    #[test]
    fn runs_that_are_close_go_together_and_regular_ones_are_counted() {
        let runs = [0..1, 4..5, 8..9, 12..14, 40..41, 55..56];
        let groups = together(runs.iter().cloned());
        assert_eq!(groups, [runs[..4].to_vec(), runs[4..].to_vec()]);
        assert_eq!(regular(&runs), 3);
        assert_eq!(regular(&runs[3..]), 1);
        assert_eq!((regular(&runs[5..]), regular(&[])), (1, 0));
    }
}
