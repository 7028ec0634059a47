//! Messages of memory that both the program and kernels touch.

/// Waits, on the worker, until a stream is idle: bytes copied on it are then seen by every stream.
#[id(0x8200)] #[message] #[queued] #[family(memory)]
fn ShadowFence(stream: u32);
