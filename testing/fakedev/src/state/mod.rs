//! What there is: objects of each kind, and the tables that know them.

pub mod advice;
pub mod array;
pub mod capture;
pub mod context;
pub mod device;
pub mod elf;
pub mod errors;
pub mod event;
pub mod exec;
pub mod function;
pub mod graph;
pub mod graph_memory;
pub mod handle;
pub mod image;
pub mod kernels;
pub mod launch;
pub mod live;
pub mod logs;
pub mod memory;
pub mod module;
pub mod mps;
pub mod pool;
pub mod stream;
pub mod user_object;
pub mod vmm;
pub mod work;
