//! Busbar: transport.
