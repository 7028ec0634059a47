//! Busbar: pool.
