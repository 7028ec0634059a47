//! `libcuda.so.1`: the CUDA driver's C symbols, each of which calls the client's code.

mod generated;
