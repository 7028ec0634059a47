//! Busbar: the opencl shim.
