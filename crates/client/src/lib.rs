//! Busbar: client.
