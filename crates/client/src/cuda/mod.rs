//! CUDA: the driver API.
//!
//! `generated/` holds one C function per exported symbol; most do all their work there. What needs
//! thought is here, in a file per family of calls: each function that the spec calls `custom`,
//! `local` or `by_hand` lives in the file of its family's name. [`runtime`] is what all of them go
//! through, [`handles`] what the program's handles mean, [`space`] where device memory lies.

// Functions of the driver API keep their C names.
#![allow(non_snake_case)]

pub mod array;
pub mod callback;
pub mod context;
pub mod copy;
pub mod copy_across;
pub mod copy_batch;
pub mod copy_rows;
pub mod device;
pub mod event;
pub mod fault;
pub mod generated;
pub mod graph;
pub mod graph_exec;
pub mod graph_host;
pub mod graph_node;
pub mod green;
pub mod handles;
pub mod handshake;
pub mod image;
pub mod init;
pub mod ipc;
pub mod launch;
pub mod launch_old;
pub mod library;
pub mod link;
pub mod managed;
pub mod memory;
pub mod memset;
pub mod module;
pub mod occupancy;
pub mod output;
pub mod pool;
pub mod retire;
pub mod ring;
pub mod runtime;
pub mod settled;
pub mod shadow;
pub mod shadow_area;
pub mod shared;
pub mod space;
pub mod stream;
pub mod stream_words;
pub mod tables;
pub mod tensor;
pub mod texture;
pub mod user_object;
pub mod vmm;
pub mod vmm_share;
