//! Busbar: fakedev.
