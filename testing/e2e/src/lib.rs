//! Busbar: e2e.
