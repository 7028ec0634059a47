//! Generated messages; see `spec/`.
