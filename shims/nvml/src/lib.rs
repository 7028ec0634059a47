//! `libnvidia-ml.so.1`: NVML's C symbols, each of which calls the client's code.

#![deny(clippy::print_stdout, clippy::print_stderr, clippy::exit)]

mod generated;
