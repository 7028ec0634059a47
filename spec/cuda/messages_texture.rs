//! Messages of textures, pools and green contexts.

/// Makes a texture object: a CUDA_RESOURCE_DESC whose array is an id, a CUDA_TEXTURE_DESC, and a
/// CUDA_RESOURCE_VIEW_DESC or nothing. A kernel gets the object by value, so it is the driver's own.
#[id(0x8300)] #[message] #[waits] #[family(texture)]
#[creates(TexObject, object)]
fn TexObject(resource: Bytes, texture: Bytes, view: Bytes) -> (object: u64);

/// Makes a surface object.
#[id(0x8301)] #[message] #[waits] #[family(texture)]
#[creates(SurfObject, object)]
fn SurfObject(resource: Bytes) -> (object: u64);

/// The array (0), mipmapped array (1) of a texture reference, or the array of a surface reference (2).
#[id(0x8302)] #[message] #[waits] #[family(texture)]
fn ArrayOfReference(reference: u32, kind: u32) -> (array: u32);

/// A device's default or present pool.
#[id(0x8308)] #[message] #[waits] #[family(pool)]
#[names(MemoryPool, pool)]
fn PoolOfDevice(device: i32, default: u32) -> (pool: u32);

/// An attribute of a pool, whatever its size.
#[id(0x8309)] #[message] #[waits] #[family(pool)]
fn PoolAttribute(pool: u32, attribute: u32) -> (value: u64);

/// Sets an attribute of a pool.
#[id(0x830a)] #[message] #[waits] #[family(pool)]
#[changes(MemoryPool, pool, "attribute")]
fn PoolSetAttribute(pool: u32, attribute: u32, value: u64);

/// Splits a resource of multiprocessors into `most` groups, or says into how many it can be split.
#[id(0x8310)] #[message] #[waits] #[family(green)]
fn SplitProcessors(input: Bytes, most: u32, count_only: u32, flags: u32, least: u32) -> (groups: u32, result: Bytes, remaining: Bytes);

/// The context of a green context, under the id `context`.
#[id(0x8311)] #[message] #[waits] #[family(green)]
#[creates(Context)] #[child_of(GreenContext, green)]
fn ContextOfGreen(green: u32, context: u32);

/// The green context of a stream; 0 for none.
#[id(0x8312)] #[message] #[waits] #[family(green)]
#[names(GreenContext, green)]
fn GreenOfStream(stream: u32) -> (green: u32);
