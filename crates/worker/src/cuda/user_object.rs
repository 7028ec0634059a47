//! User objects: what a program ties to the life of a graph. Its destructor runs at the client.

pub use super::graph_host::user_object_create;
