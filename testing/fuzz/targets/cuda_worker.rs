//! A worker with a session of CUDA on the simulated driver, fed with records: objects made, used
//! and destroyed in any order, under any ids.
#![no_main]

use busbar_fuzz::{apart, engine, lines::CUDA, sequence, worker};
use libfuzzer_sys::{fuzz_crossover, fuzz_mutator, fuzz_target};
use std::time::Duration;

fuzz_target!(init: worker::warm("cuda"), |data: &[u8]| {
    let records = sequence::read(data);
    if !records.is_empty() {
        apart::run(Duration::from_secs(4), || worker::feed("cuda", records));
    }
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    engine::change(CUDA, data, size, max_size, seed)
});

fuzz_crossover!(|one: &[u8], other: &[u8], out: &mut [u8], seed: u32| {
    engine::cross(CUDA, one, other, out, seed)
});
