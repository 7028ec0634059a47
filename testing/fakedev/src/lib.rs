//! Busbar fakedev: a simulated `libcuda.so.1` that runs on the CPU.
//!
//! It stands where a vendor's driver would: Busbar's worker loads it as the real library, and a
//! program loads it natively, so that the two runs can be compared with no GPU. Streams are
//! threads, device memory is host memory at the device's addresses, kernels are built in, and
//! failures come on command.
//!
//! Settings, from the environment or [`config::fakedev_set`]:
//! - `FAKEDEV_DEVICES` (1): how many devices; `FAKEDEV_MEMORY_MIB` (4096): the memory of each;
//! - `FAKEDEV_MOST_MIB`: more of a device than that in use, for a moment, ends the process;
//! - `FAKEDEV_NAME`: what each is called; `FAKEDEV_FAULTS`: failures on command, see [`faults`];
//! - `FAKEDEV_LOG`: a file that gets the name of each driver call, and counts when the process
//!   ends;
//! - `FAKEDEV_LIVE`: a folder in which each process keeps a file, named by its number, that says
//!   what was live after its last driver call;
//! - `FAKEDEV_FRAIL`: 1 for a driver that loses memory of a graph with its executable graph;
//! - `FAKEDEV_REFUSED`: a file that gets a line for each call that fails;
//! - `FAKEDEV_LAUNCH_NS` (0): how long each launch keeps the calling thread busy;
//! - `FAKEDEV_THREADS` (1): 0 for no threads: work is done by whoever hands it in, in the same
//!   order each time, and what would wait for ever ends as on a device that takes too long. A
//!   program says with `fakedev_work_on` that something may go on.
//!
//! `fakedev_reset` makes the driver forget all but its settings.
//!
//! `state` knows what there is: each kind of object with its table, and no C function. `engine`
//! does what takes several of them: it hands work to streams and runs it, and ends contexts. `api`
//! has the C functions, each under [`entry`].
//!
//! Locking: a context's order lock comes before a stream's queue lock; the memory map's lock and
//! the handle tables' locks are taken last and briefly. None is held while a kernel, a copy or a
//! host function runs.

// The C interface's names are kept as they are.
#![allow(non_camel_case_types, non_snake_case)]

mod api;
mod config;
mod engine;
mod entry;
mod faults;
mod ffi;
mod state;
