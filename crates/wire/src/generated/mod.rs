//! Generated messages; see `spec/`.
pub mod opencl;
