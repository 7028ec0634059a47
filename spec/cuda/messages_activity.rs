//! Messages of what devices did, for profilers: the records of the server's CUPTI.

/// From now on records of these kinds are kept (bits, by the kind's number); of none of them any
/// more with zero. What was kept stays. `version` is that of the server's CUPTI.
#[id(0x8700)] #[message] #[waits] #[family(activity)]
fn ActivityKeep(kinds: u64) -> (version: u32, why: Bytes);

/// What the server's clock says, in nanoseconds: that by which devices' times are told.
#[id(0x8701)] #[message] #[waits] #[family(activity)]
fn ActivityClock() -> (now: u64);

/// Some of the records that were kept, and the names of kernels that they are the first to have.
/// With `flush` the library is asked for what it has first; `forced` has it give what is not full.
#[id(0x8702)] #[message] #[waits] #[family(activity)]
fn ActivityTake(flush: u32, forced: u32) -> (more: u32, dropped: u64, records: Bytes, names: Bytes);
