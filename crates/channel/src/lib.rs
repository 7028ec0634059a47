//! Busbar: channel.
