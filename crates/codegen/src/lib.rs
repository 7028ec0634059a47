//! Busbar: codegen.
