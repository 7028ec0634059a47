//! C types and constants of the forwarded APIs. No logic.

pub mod opencl;
