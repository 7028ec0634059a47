//! Messages of the driver's log.

/// What the log has from an iterator on, or all of it. `size` bytes of room at most, or no buffer.
#[id(0x8600)] #[message] #[waits] #[family(logs)]
fn LogsDump(from: u32, iterator: u32, buffer: u32, size: u64, flags: u32) -> (next: u32, written: u64, text: Bytes);

/// From now on the driver's lines come as `LogLine` with this number.
#[id(0x8601)] #[message] #[waits] #[family(logs)]
#[creates(Listener)]
fn LogsListen(listener: u32);

/// Ends that.
#[id(0x8602)] #[message] #[waits] #[family(logs)]
#[destroys(Listener)]
fn LogsIgnore(listener: u32);

/// From the worker: the driver has logged something.
#[id(0x8603)] #[message] #[queued] #[family(logs)]
fn LogLine(listener: u32, level: u32, text: Bytes);
