//! CUDA: executing driver calls.
