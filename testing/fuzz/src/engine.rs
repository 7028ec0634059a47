//! How the engine's changes are made: see [`crate::sequence`].

use crate::lines::Line;
use crate::sequence::{Mutator, read, write};
use libfuzzer_sys::fuzzer_mutate;

fn bytes(of: &mut Vec<u8>, _: u64) {
    let (size, most) = (of.len(), of.len() + 64);
    of.resize(most, 0);
    let size = fuzzer_mutate(of, size, most);
    of.truncate(size);
}

/// Puts a sequence into the engine's memory, as much of it as there is room for.
fn put(mut all: Vec<crate::sequence::Record>, to: &mut [u8], most: usize) -> usize {
    let mut out = write(&all);
    while out.len() > most {
        all.pop();
        out = write(&all);
    }
    to[..out.len()].copy_from_slice(&out);
    out.len()
}

/// Changes an input of records of these lines.
pub fn change(
    lines: &'static [Line],
    data: &mut [u8],
    size: usize,
    most: usize,
    seed: u32,
) -> usize {
    let mut all = read(&data[..size]);
    let mut m = Mutator::new(lines, seed, bytes);
    for _ in 0..1 + seed % 5 {
        m.once(&mut all);
    }
    put(all, data, most)
}

/// Makes an input of two.
pub fn cross(lines: &'static [Line], one: &[u8], other: &[u8], to: &mut [u8], seed: u32) -> usize {
    let mut m = Mutator::new(lines, seed, bytes);
    let (all, most) = (m.cross(&read(one), &read(other)), to.len());
    put(all, to, most)
}
