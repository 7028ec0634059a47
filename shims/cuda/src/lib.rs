//! Busbar: the cuda shim.
