//! The C functions that are answered, a file per family as in `spec/nvml`.

pub mod affinity;
pub mod device;
pub mod event;
pub mod pair;
pub mod process;
pub mod setting;
pub mod system;
