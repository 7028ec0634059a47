//! Busbar: busbar.
fn main() {}
