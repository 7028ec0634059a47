//! Busbar: relay.
