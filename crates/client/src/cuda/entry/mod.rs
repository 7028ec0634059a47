//! The C functions of each family that the spec leaves to be written by hand: they check,
//! translate, and hand over. Generated code alone uses them.

pub mod context;
pub mod copy;
pub mod copy_batch;
mod cupti;
pub mod device;
pub mod event;
pub mod graph;
pub mod graph_exec;
pub mod graph_node;
pub mod green;
mod guest;
pub mod init;
pub mod ipc;
pub mod launch;
pub mod launch_old;
pub mod library;
pub mod link;
pub mod logs;
pub mod managed;
pub mod memory;
pub mod memset;
pub mod module;
pub mod occupancy;
pub mod peer;
pub mod pool;
mod prelude;
pub mod stream;
pub mod stream_words;
pub mod tables;
pub mod tensor;
pub mod texture;
pub mod user_object;
pub mod vmm;
pub mod vmm_share;
pub mod watched;
