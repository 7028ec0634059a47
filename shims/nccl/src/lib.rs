//! `libnccl.so.2`: NCCL's C symbols, each of which calls the client's code.

#![deny(clippy::print_stdout, clippy::print_stderr, clippy::exit)]

mod generated;
