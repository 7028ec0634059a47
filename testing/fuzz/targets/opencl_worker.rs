//! A worker with a session of OpenCL on the CPU, fed with records: objects made, used
//! and destroyed in any order, under any ids.
#![no_main]

use busbar_fuzz::{apart, engine, lines::OPENCL, sequence, worker};
use libfuzzer_sys::{fuzz_crossover, fuzz_mutator, fuzz_target};
use std::time::Duration;

fuzz_target!(init: worker::warm("opencl"), |data: &[u8]| {
    let records = sequence::read(data);
    if !records.is_empty() {
        apart::run(Duration::from_secs(10), || worker::feed("opencl", records));
    }
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    engine::change(OPENCL, data, size, max_size, seed)
});

fuzz_crossover!(|one: &[u8], other: &[u8], out: &mut [u8], seed: u32| {
    engine::cross(OPENCL, one, other, out, seed)
});
