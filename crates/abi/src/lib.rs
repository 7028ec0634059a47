//! Busbar: abi.
