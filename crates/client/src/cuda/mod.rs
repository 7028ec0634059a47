//! CUDA: the driver API.
//!
//! `generated/` holds one C function per exported symbol; most do all their work there. What needs
//! thought is here, in a file per family of calls: each function that the spec calls `custom`,
//! `local` or `by_hand` lives in the file of its family's name. [`runtime`] is what all of them go
//! through, [`handles`] what the program's handles mean, [`space`] where device memory lies.

// Functions of the driver API keep their C names.
#![allow(non_snake_case)]

mod addresses;
mod array;
mod callback;
mod context;
mod copy;
mod copy_across;
mod copy_batch;
mod copy_rows;
mod device;
mod event;
mod fault;
pub mod generated;
mod graph;
mod graph_exec;
mod graph_host;
mod graph_node;
mod green;
mod handles;
mod handshake;
mod image;
mod init;
mod ipc;
mod launch;
mod launch_old;
mod library;
mod link;
mod logs;
mod managed;
mod memory;
mod memset;
mod module;
mod occupancy;
mod output;
mod pool;
mod retire;
mod ring;
mod runtime;
mod settled;
mod shadow;
mod shadow_area;
mod shared;
mod space;
mod stream;
mod stream_words;
mod tables;
mod tensor;
mod texture;
mod user_object;
mod vmm;
mod vmm_share;
