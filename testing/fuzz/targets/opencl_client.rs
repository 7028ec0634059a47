//! The client in a program that uses OpenCL, whose server answers what the input says.
#![no_main]

use busbar_fuzz::programs::{self, opencl};
use busbar_fuzz::{apart, engine, sequence, server};
use libfuzzer_sys::{fuzz_crossover, fuzz_mutator, fuzz_target};
use std::time::Duration;

fuzz_target!(|data: &[u8]| {
    let script = sequence::read(data);
    if !script.is_empty() {
        apart::run(Duration::from_secs(4), || {
            programs::use_server(&server::start(script.into()));
            opencl::run(&opencl::ALL);
        });
    }
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    engine::change(&[], data, size, max_size, seed)
});

fuzz_crossover!(|one: &[u8], other: &[u8], out: &mut [u8], seed: u32| {
    engine::cross(&[], one, other, out, seed)
});
