//! The C functions that are answered, a file per family as in `spec/nvml`.

pub mod device;
pub mod pair;
pub mod system;
