//! As `cuda_worker`, but all inputs in one thread of one process. Now and then an input is executed
//! twice, and one of the first once more: what a session leaves behind for the next is a finding.
#![no_main]

use busbar_fuzz::{alone, engine, lines::CUDA, sequence, worker};
use libfuzzer_sys::{fuzz_crossover, fuzz_mutator, fuzz_target};

fuzz_target!(init: alone::begin(), |data: &[u8]| {
    let records = sequence::read(data);
    if !records.is_empty() {
        alone::check(records, worker::execute);
    }
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    engine::change(CUDA, data, size, max_size, seed)
});

fuzz_crossover!(|one: &[u8], other: &[u8], out: &mut [u8], seed: u32| {
    engine::cross(CUDA, one, other, out, seed)
});
