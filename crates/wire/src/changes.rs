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
}
