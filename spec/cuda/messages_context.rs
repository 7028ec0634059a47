//! Messages of contexts whose result the program waits for, and of memory that is freed while work
//! goes on.

/// Makes a device's primary context ready under the id `context`. The driver may well refuse: others
/// may have taken the device's memory, or an error has lost a context before.
#[id(0x8500)] #[message] #[waits] #[family(context)]
#[creates(Context)]
fn PrimaryRetain(context: u32, device: i32, flags: u32);

/// As `PrimaryRelease`, of a context that an error has lost.
#[id(0x8501)] #[message] #[waits] #[family(context)]
#[destroys(Context)]
fn PrimaryReleaseNow(context: u32, device: i32, reset: u32);

/// As `ContextDestroy`, of a context that an error has lost.
#[id(0x8502)] #[message] #[waits] #[family(context)]
#[destroys(Context)]
fn ContextDestroyNow(context: u32);

/// Answered once all work of the context so far is done; then `size` bytes at `va`, a whole mapping,
/// are unmapped, if it is not 0.
#[id(0x8503)] #[message] #[waits] #[family(memory)]
#[destroys(Memory | Mapping, va)]
fn MemRetire(va: u64, size: u64);
