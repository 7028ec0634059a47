//! Messages of contexts after an error, whose result the program waits for.

/// As `PrimaryRetain`, where the driver may well refuse: an error has lost a context before.
#[id(0x8500)] #[message] #[waits] #[family(context)]
fn PrimaryRetainNow(context: u32, device: i32, flags: u32);

/// As `PrimaryRelease`, of a context that an error has lost.
#[id(0x8501)] #[message] #[waits] #[family(context)]
fn PrimaryReleaseNow(context: u32, device: i32, reset: u32);

/// As `ContextDestroy`, of a context that an error has lost.
#[id(0x8502)] #[message] #[waits] #[family(context)]
fn ContextDestroyNow(context: u32);
