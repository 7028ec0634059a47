//! Busbar: worker.
