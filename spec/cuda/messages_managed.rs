//! Messages of memory that both the program and kernels touch.

/// Waits, on the worker, until the bytes that went ahead of the queue are on the device, where every
/// stream sees them. 0x8200 was such a fence for a stream.
#[id(0x8201)] #[message] #[queued] #[family(shadow)]
fn MemoryFence();
