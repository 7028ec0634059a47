//! The C functions: they check, translate, and hand over. Generated code alone uses them.

pub mod collective;
pub mod communicator;
pub mod device;
pub mod system;
