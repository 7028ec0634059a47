//! Messages of NCCL. Communicators, operators and registrations are named by ids that the client
//! chooses.

/// Starts the library with the job's variables, each `NAME=value` with a NUL behind it. `said` is
/// what is wrong, if anything is.
#[id(0xe001)] #[message] #[waits]
fn Start(variables: Bytes) -> (version: u32, said: Str);

/// What brings the ranks of a communicator together.
#[id(0xe002)] #[message] #[waits]
fn MakeUniqueId() -> (id: Bytes, said: Str);

/// What lies between the start and the end of a group: whole records of the messages below. With a
/// call number the reply comes when the group has ended.
#[id(0xe003)] #[message] #[waits]
fn Group(records: Rest) -> (said: Str);

/// One of `Kind`. `peer` is a root, or the other rank; `op` an operator of NCCL's own, or an id.
#[id(0xe004)] #[message] #[queued]
fn Collective(kind: u32, comm: u32, send: u64, recv: u64, count: u64, datatype: u32, op: u32, peer: u32, stream: u32);

/// A communicator. `ids` are unique ids, of 128 bytes each. `config` is the structure as the program
/// has it, or nothing; `names` are the texts that it points to, each with a NUL behind it.
#[id(0xe005)] #[message] #[waits]
fn InitRank(comm: u32, ranks: u32, rank: u32, ids: Bytes, config: Bytes, names: Bytes) -> (said: Str);

/// Communicators, one for each of these devices.
#[id(0xe006)] #[message] #[waits]
fn InitAll(comms: U32s, devices: U32s) -> (said: Str);

/// A communicator of those ranks of another that give the same colour.
#[id(0xe007)] #[message] #[waits]
fn Split(comm: u32, parent: u32, color: u32, key: u32, config: Bytes, names: Bytes) -> (said: Str);

/// A communicator without some ranks of another.
#[id(0xe008)] #[message] #[waits]
fn Shrink(comm: u32, parent: u32, without: U32s, flags: u32, config: Bytes, names: Bytes) -> (said: Str);

/// All that was queued is done first.
#[id(0xe009)] #[message] #[waits]
fn Finalize(comm: u32) -> (said: Str);

/// A communicator ends.
#[id(0xe00a)] #[message] #[waits]
fn Destroy(comm: u32) -> (said: Str);

/// A sum of values that were multiplied with `scalar` before; it is an address, or the value.
#[id(0xe00b)] #[message] #[queued]
fn PreMulSum(comm: u32, op: u32, datatype: u32, residence: u32, scalar: Bytes);

/// An operator ends.
#[id(0xe00c)] #[message] #[queued]
fn DestroyOp(comm: u32, op: u32);

/// A buffer that may be used without copies.
#[id(0xe00d)] #[message] #[queued]
fn Register(comm: u32, handle: u32, at: u64, size: u64);

/// No longer.
#[id(0xe00e)] #[message] #[queued]
fn Deregister(comm: u32, handle: u32);

/// Ends a communicator whatever it does, or with `revoke` only what it does. In a record that does
/// not wait in the queue.
#[id(0xe00f)] #[message] #[waits]
fn Abort(comm: u32, revoke: u32, flags: u32) -> (said: Str);

/// From the worker, unasked: what has become of a communicator. `ranks` is 0 if there is none.
#[id(0xe010)] #[message] #[queued]
fn State(comm: u32, code: u32, ranks: u32, rank: u32, said: Str);
