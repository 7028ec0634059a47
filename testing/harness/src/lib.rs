//! Busbar: harness.
