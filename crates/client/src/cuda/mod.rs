//! CUDA: the driver API.
