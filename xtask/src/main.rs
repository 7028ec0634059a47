//! Busbar: the one front door for repository chores.
fn main() {}
