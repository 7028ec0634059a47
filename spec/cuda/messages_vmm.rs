//! Messages of virtual memory management and of occupancy.

/// Makes device memory that is mapped nowhere yet.
#[id(0x8400)] #[message] #[waits] #[family(vmm)]
#[creates(Allocation)]
fn VmmCreate(allocation: u32, size: u64, props: Bytes);

/// Maps it where the client has reserved addresses.
#[id(0x8401)] #[message] #[queued] #[family(vmm)]
#[creates(Mapping, va)]
fn VmmMap(va: u64, size: u64, offset: u64, allocation: u32);

/// Lets devices use mapped memory.
#[id(0x8402)] #[message] #[queued] #[family(vmm)]
#[changes(Mapping, va, "access")]
fn VmmSetAccess(va: u64, size: u64, access: Bytes);

/// Ends a mapping.
#[id(0x8403)] #[message] #[queued] #[family(vmm)]
#[destroys(Mapping | Memory, va)]
fn VmmUnmap(va: u64, size: u64);

/// Lets go of memory; it is freed when its last mapping ends.
#[id(0x8404)] #[message] #[queued] #[family(vmm)]
#[destroys(Allocation)]
fn VmmRelease(allocation: u32);

/// What sizes must be multiples of.
#[id(0x8405)] #[message] #[waits] #[family(vmm)]
fn VmmGranularity(props: Bytes, option: u32) -> (granularity: u64);

/// What a device may do with mapped memory.
#[id(0x8406)] #[message] #[waits] #[family(vmm)]
fn VmmGetAccess(va: u64, location: Bytes) -> (flags: u64);

/// How many clusters of a launch fit the device, or how large a cluster may be. `shape` holds grid,
/// block and shared memory as seven u32.
#[id(0x8410)] #[message] #[waits] #[family(occupancy)]
fn Clusters(function: u32, largest: u32, shape: U32s, attrs: Bytes) -> (value: i32);

/// Offers memory to whoever knows the secret. `tag` names the worker's socket.
#[id(0x8407)] #[message] #[waits] #[family(vmm)]
fn VmmExport(allocation: u32) -> (tag: [u8; 8], secret: [u8; 16]);

/// Takes memory that another worker offers, and says what it is.
#[id(0x8408)] #[message] #[waits] #[family(vmm)]
#[creates(Allocation)]
fn VmmImport(allocation: u32, tag: [u8; 8], secret: [u8; 16]) -> (props: Bytes);

/// Offers a pool to whoever knows the secret, as `VmmExport` does memory.
#[id(0x8409)] #[message] #[waits] #[family(pool)]
fn PoolExport(pool: u32) -> (tag: [u8; 8], secret: [u8; 16]);

/// Takes a pool that another worker offers.
#[id(0x840a)] #[message] #[waits] #[family(pool)]
#[creates(MemoryPool, pool)]
fn PoolImport(pool: u32, tag: [u8; 8], secret: [u8; 16]);

/// Takes memory of such a pool, which another process has exported: where it is, and on which
/// device.
#[id(0x840b)] #[message] #[waits] #[family(pool)]
#[creates(PoolMemory, va)] #[child_of(MemoryPool, pool)]
fn PoolImportPointer(pool: u32, data: Bytes) -> (va: u64, size: u64, device: i32);

/// Gives tiles of arrays memory, or takes it from them: structures of `cuMemMapArrayAsync`, with ids
/// in the place of handles.
#[id(0x840c)] #[message] #[waits] #[family(array)]
fn ArraysMap(stream: u32, list: Bytes);
