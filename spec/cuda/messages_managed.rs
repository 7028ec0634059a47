//! Messages of memory that both the program and kernels touch.

/// Waits, on the worker, until the bytes that went ahead of the queue are on the device, where every
/// stream sees them. 0x8200 was such a fence for a stream.
#[id(0x8201)] #[message] #[queued] #[family(shadow)]
fn MemoryFence();

/// From the worker: what devices have changed in memory that is open to the program, at addresses
/// of the program's, with how many bytes each. `heard` counts the client's `OP_MEMORY_IN`,
/// `OP_MEMORY_PARTS` and `OP_MEMORY_OPEN` up to then: what it has sent later is newer.
#[id(0x8202)] #[message] #[queued] #[family(shadow)]
fn MemoryTold(heard: u64, at: U64s, lens: U32s, bytes: Bytes);
