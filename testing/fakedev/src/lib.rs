//! Busbar fakedev: a simulated `libcuda.so.1` that runs on the CPU.
//!
//! It stands where a vendor's driver would: Busbar's worker loads it as the real library, and a
//! program loads it natively, so that the two runs can be compared with no GPU. Streams are
//! threads, device memory is host memory at the device's addresses, kernels are built in, and
//! failures come on command.
//!
//! Settings, from the environment or [`config::fakedev_set`]:
//! - `FAKEDEV_DEVICES` (1): how many devices; `FAKEDEV_MEMORY_MIB` (4096): the memory of each;
//! - `FAKEDEV_FAULTS`: failures on command, see [`faults`];
//! - `FAKEDEV_LOG`: a file that gets the name of each driver call, and counts when the process
//!   ends;
//! - `FAKEDEV_LAUNCH_NS` (0): how long each launch keeps the calling thread busy.
//!
//! Locking: a context's order lock comes before a stream's queue lock; the memory map's lock and
//! the handle tables' locks are taken last and briefly. None is held while a kernel, a copy or a
//! host function runs.

// The C interface's names are kept as they are.
#![allow(non_camel_case_types, non_snake_case)]

mod array;
mod capture;
mod config;
mod context;
mod context_api;
mod copy_api;
mod device;
mod device_graph;
mod elf;
mod entry;
mod errors;
mod event;
mod faults;
mod ffi;
mod function;
mod graph;
mod graph_api;
mod graph_exec;
mod graph_memory;
mod handle;
mod image;
mod kernels;
mod launch;
mod logs;
mod memory;
mod memory_api;
mod module;
mod pool;
mod proc_address;
mod stats;
mod stream;
mod stream_api;
mod stubs;
mod tables;
mod user_object;
mod vmm;
mod work;
