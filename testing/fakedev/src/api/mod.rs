//! The C functions, by what they are about.

mod array;
mod capture;
mod context;
mod copy;
mod device;
mod device_graph;
mod errors;
mod event;
mod exec;
mod function;
mod graph;
mod graph_memory;
mod launch;
mod logs;
mod memory;
mod module;
mod pool;
mod proc_address;
mod reset;
mod stats;
mod stream;
mod stubs;
mod tables;
mod user_object;
mod vmm;
mod watch;
