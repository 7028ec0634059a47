//! Messages of hand-written functions, whose shape no C signature gives.

/// Opens the session's CUDA side: the driver's version and all there is to know of its devices.
#[id(0x8000)] #[message] #[waits] #[family(device)]
fn OpenCuda() -> (driver: u32, devices: Bytes);

/// Says which of the devices, by position in the list of `OpenCuda`, the program sees, in its order.
#[id(0x8002)] #[message] #[queued] #[family(device)]
fn SelectDevices(devices: U32s);

/// A kernel launch. `params` is the packed parameter buffer, `attrs` an array of CUlaunchAttribute.
// One with attributes that the driver may refuse waits: that takes what is known of the kernel, which
// is not in the message, so `launch::usual` of the client says it.
#[id(0x8001)] #[message] #[queued] #[family(launch)]
fn LaunchKernel(function: u32, stream: u32, grid: [u32; 3], block: [u32; 3], shared: u32, flags: u32, attrs: Bytes, params: Bytes);

/// As `LaunchKernel`, whose parameters are kept in a place, in the stead of what was there.
#[id(0x800a)] #[message] #[queued] #[family(launch)]
fn LaunchKept(place: u32, function: u32, stream: u32, grid: [u32; 3], block: [u32; 3], shared: u32, flags: u32, attrs: Bytes, params: Bytes);

/// A launch with the parameters that are kept in a place.
#[id(0x800b)] #[message] #[queued] #[family(launch)]
fn LaunchAgain(place: u32, function: u32, stream: u32, grid: [u32; 3], block: [u32; 3], shared: u32, flags: u32, attrs: Bytes);

/// As `LaunchAgain`, once some words of four bytes have changed in that place: of each there is which
/// one it is, as `u16`, and the new one, as `u32`.
#[id(0x800c)] #[message] #[queued] #[family(launch)]
fn LaunchChanged(place: u32, function: u32, stream: u32, grid: [u32; 3], block: [u32; 3], shared: u32, flags: u32, attrs: Bytes, changes: Bytes);

/// As `LaunchKernel`, where the driver may well refuse. In a graph, with the attribute that lets
/// other kernels change the node, they know it by `node`, the driver's own name of it; else that is
/// 0.
#[id(0x8006)] #[message] #[waits] #[family(launch)]
fn LaunchNow(function: u32, stream: u32, grid: [u32; 3], block: [u32; 3], shared: u32, flags: u32, attrs: Bytes, params: Bytes) -> (node: u64);

// 0x8003 carried addresses of the program's own.
/// A function of the program's runs in stream order; the stream waits for it. The client knows it by
/// the token. `kind` is one of `wire::promise`.
#[id(0x8008)] #[message] #[queued] #[family(launch)]
fn HostFunction(stream: u32, kind: u32, token: u64);

/// Answers, by itself, once everything is done that the stream holds now.
#[id(0x8007)] #[message] #[waits] #[family(event)]
fn Reached(stream: u32);

/// Answers, by itself, with the time between two events of the stream once everything is done that
/// it holds now.
#[id(0x8009)] #[message] #[waits] #[family(event)]
fn TimeBetween(start: u32, stop: u32, stream: u32) -> (ms: f32);

/// Gives a primary context back; `reset` destroys all that lives in it.
#[id(0x8011)] #[message] #[queued] #[family(context)]
#[destroys(Context)]
fn PrimaryRelease(context: u32, device: i32, reset: u32);

/// Creates a context under the id `context`.
#[id(0x8012)] #[message] #[waits] #[family(context)]
#[creates(Context)]
fn ContextCreate(context: u32, device: i32, flags: u32);

/// Destroys a context and all that lives in it.
#[id(0x8013)] #[message] #[queued] #[family(context)]
#[destroys(Context)]
fn ContextDestroy(context: u32);

/// Waits for all work of a context.
#[id(0x8014)] #[message] #[waits] #[family(context)]
fn ContextSynchronize(context: u32);

/// Device memory at an address that the client chose.
#[id(0x8020)] #[message] #[waits] #[family(memory)]
#[creates(Memory, va)]
fn MemMapAt(va: u64, size: u64, device: i32);

/// Memory that the client has handed over under `number`, or with 0 memory of the worker's own that
/// stands for the program's at `origin`, is mapped at `va`, and made known to the driver as
/// page-locked.
#[id(0x8023)] #[message] #[waits] #[family(shared)]
#[creates(SharedMemory, va)]
fn ShareHost(va: u64, size: u64, number: u64, origin: u64);

/// Ends that, once all work of the context is done.
#[id(0x8024)] #[message] #[queued] #[family(shared)]
#[destroys(SharedMemory, va)]
fn UnshareHost(va: u64, size: u64);

/// A copy between shared memory and the device. Answered when it is done, if an answer is wanted.
#[id(0x8025)] #[message] #[queued] #[family(shared)]
fn CopyShared(dst: u64, src: u64, len: u64, stream: u32);

/// Bytes of the program's memory go to the device.
#[id(0x8030)] #[message] #[queued] #[family(copy)]
fn CopyIn(dst: u64, stream: u32, pad: u32, data: Rest);

/// As `CopyIn`, whose bytes are kept in a place, in the stead of what was there.
#[id(0x803c)] #[message] #[queued] #[family(copy)]
fn CopyInKept(dst: u64, stream: u32, place: u32, data: Rest);

/// A copy of the bytes that are kept in a place.
#[id(0x803d)] #[message] #[queued] #[family(copy)]
fn CopyInAgain(dst: u64, stream: u32, place: u32);

/// A box of the program's memory goes to the device, or into an array, that work before may still
/// write: when the stream has come so far, it is asked for by this token, and comes packed as
/// `CALLBACK_BYTES`.
#[id(0x8036)] #[message] #[queued] #[family(copy)]
fn CopyInLater(shape: Bytes, array: u32, stream: u32, token: u64);

/// A stream goes no further until the client lets it: when it has come so far, the client hears of
/// it by this token.
#[id(0x8037)] #[message] #[queued] #[family(copy)]
fn StreamGate(stream: u32, token: u64);

/// Bytes of the device's memory come to the program. The bulk answer holds them.
#[id(0x8031)] #[message] #[waits] #[family(copy)]
fn CopyOut(src: u64, len: u64, stream: u32);

/// Rows between host memory (packed, in the record) and an array or pitched device memory. `shape` is
/// a CUDA_MEMCPY3D whose host side is filled in by the worker.
#[id(0x8032)] #[message] #[queued] #[family(copy)]
fn CopyInRows(shape: Bytes, array: u32, stream: u32, data: Rest);

/// As `CopyInRows`, the other way; the bulk answer holds the packed rows.
#[id(0x8033)] #[message] #[waits] #[family(copy)]
fn CopyOutRows(shape: Bytes, array: u32, len: u64, stream: u32);

/// What comes from here on, on whichever stream, comes after the work that `stream` holds now.
#[id(0x8035)] #[message] #[queued] #[family(copy)]
fn Settle(stream: u32);

/// A copy between two places on devices.
#[id(0x8034)] #[message] #[queued] #[family(copy)]
fn CopyRowsOnDevice(shape: Bytes, src_array: u32, dst_array: u32, src_context: u32, dst_context: u32, peer: u32, stream: u32);

/// The bytes of a box go to the session at the other end of a link, as a piece of that number. The
/// answer comes once they are read, or will not be: `read` says which, as `wire::link` numbers it.
#[id(0x8038)] #[message] #[waits] #[family(across)]
fn LinkOut(link: u32, array: u32, piece: u64, shape: Bytes, stream: u32) -> (read: u32);

/// As many bytes are to come over a link as a piece of that number. The answer comes once they have,
/// or will not: `came` says which, as `wire::link` numbers it.
#[id(0x8039)] #[message] #[waits] #[family(across)]
fn LinkIn(link: u32, pad: u32, piece: u64, len: u64) -> (came: u32);

/// The bytes of a piece that has come go where a box does.
#[id(0x803a)] #[message] #[queued] #[family(across)]
fn LinkLand(link: u32, array: u32, piece: u64, shape: Bytes, stream: u32);

/// Ends a link. What has not come over it will not.
#[id(0x803b)] #[message] #[queued] #[family(across)]
fn LinkEnd(link: u32);

/// Loads a library by its content's hash.
#[id(0x8040)] #[message] #[queued] #[family(library)]
#[creates(Library)]
fn LibraryLoad(library: u32, hash: [u8; 32], options: Bytes);

/// Loads a library whose failure the program is waiting to hear of.
#[id(0x8041)] #[message] #[waits] #[family(library)]
#[creates(Library)]
fn LibraryLoadNow(library: u32, hash: [u8; 32], options: Bytes) -> (info_log: Bytes, error_log: Bytes, wall_ms: f32);

/// Finds a kernel and says all there is to know of it.
#[id(0x8042)] #[message] #[waits] #[family(library)]
#[creates(Function)]
fn LibraryKernel(library: u32, name: Str, function: u32, device: i32) -> (params: U32s, attributes: U32s);

/// The function of a kernel in the current context.
#[id(0x8049)] #[message] #[queued] #[family(library)]
#[creates(Function)]
fn KernelFunction(library: u32, kernel: u32, function: u32);

/// The kernels of a library; those without an id get one of the worker's.
#[id(0x8043)] #[message] #[waits] #[family(library)]
fn LibraryKernelNames(library: u32) -> (names: Bytes);

/// A global variable of a library, in the current context.
#[id(0x8044)] #[message] #[waits] #[family(library)]
fn LibraryGlobal(library: u32, name: Str, managed: u32) -> (va: u64, size: u64, is_managed: u32);

// 0x8050 did not tell of functions.
/// Loads a module into the current context. Of one with few functions it tells all there is to know
/// of them: their names, and for each how many parameters, these, and its attributes.
#[id(0x805b)] #[message] #[waits] #[family(module)]
#[creates(Module)]
fn ModuleLoad(module: u32, hash: [u8; 32], options: Bytes) -> (info_log: Bytes, error_log: Bytes, wall_ms: f32, names: Bytes, functions: U32s);

/// Gives an id to a function that the client was told of.
#[id(0x805c)] #[message] #[queued] #[family(module)]
#[creates(Function)]
fn ModuleFunctionKnown(module: u32, name: Str, function: u32);

/// Finds a function of a module and says all there is to know of it.
#[id(0x8051)] #[message] #[waits] #[family(module)]
#[creates(Function)]
fn ModuleFunction(module: u32, name: Str, function: u32) -> (params: U32s, attributes: U32s);

/// A global variable of a module.
#[id(0x8052)] #[message] #[waits] #[family(module)]
fn ModuleGlobal(module: u32, name: Str) -> (va: u64, size: u64, is_managed: u32);

/// The functions of a module.
#[id(0x8053)] #[message] #[waits] #[family(module)]
fn ModuleFunctionNames(module: u32) -> (names: Bytes);

/// Begins to link.
#[id(0x8057)] #[message] #[waits] #[family(module)]
#[creates(Link)]
fn LinkCreate(link: u32, options: Bytes);

/// Adds a piece of code, which may be compiled at once; the logs are those of the whole link so far.
#[id(0x8058)] #[message] #[waits] #[family(module)]
#[changes(Link, "code")]
fn LinkAdd(link: u32, kind: u32, hash: [u8; 32], name: Bytes, options: Bytes) -> (info_log: Bytes, error_log: Bytes, wall_ms: f32);

/// Links what was added into an image.
#[id(0x8059)] #[message] #[waits] #[family(module)]
fn LinkComplete(link: u32) -> (info_log: Bytes, error_log: Bytes, wall_ms: f32, image: Bytes);

/// Ends a link, finished or not.
#[id(0x805a)] #[message] #[queued] #[family(module)]
#[destroys(Link)]
fn LinkDestroy(link: u32);

/// Sets an attribute of a function or kernel.
// The two that programs set before launches. The client has checked the first, and the second is a
// hint within a range.
#[id(0x8055)] #[message] #[family(module)]
#[queued_if(attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    || attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT && matches!(value, -1..=100))]
#[changes(Function, "attribute")]
fn FunctionSetAttribute(function: u32, attribute: i32, value: i32, device: i32);

/// Whether a stream captures, into which graph, and behind which nodes. Unknown nodes get an id here.
#[id(0x8060)] #[message] #[waits] #[family(stream)]
#[names(Graph, graph)] #[names(GraphNode, nodes)]
fn CaptureInfo(stream: u32, detail: u32) -> (status: u32, id: u64, graph: u32, nodes: U32s, edges: Bytes);

/// Unloads a library.
#[id(0x8045)] #[message] #[queued] #[family(library)]
#[destroys(Library)]
fn LibraryUnload(library: u32);

/// The module of a library in the current context.
#[id(0x8046)] #[message] #[waits] #[family(library)]
#[creates(Module)] #[child_of(Library)] #[child_of(Context)]
fn LibraryModule(library: u32, module: u32);

/// Unloads a module.
#[id(0x8056)] #[message] #[queued] #[family(module)]
#[destroys(Module)]
fn ModuleUnload(module: u32);

/// How the chip's processors are grouped: two bytes for each pair of them.
#[id(0x8004)] #[message] #[waits] #[family(device)]
fn ChipLayout(device: i32) -> (index_in_gpc: Bytes, gpc_of_tpc: Bytes);

/// Stream-ordered memory of a pool; 0 for the device's present one.
#[id(0x8070)] #[message] #[waits] #[family(pool)]
#[creates(PoolMemory, va)] #[child_of(MemoryPool, pool)]
fn PoolAlloc(pool: u32, size: u64, stream: u32) -> (va: u64);

/// Frees stream-ordered memory.
#[id(0x8071)] #[message] #[queued] #[family(pool)]
#[destroys(PoolMemory, va)]
fn PoolFree(va: u64, stream: u32);

/// Frees stream-ordered memory at once, outside any stream.
#[id(0x8072)] #[message] #[waits] #[family(pool)]
#[destroys(PoolMemory, va)]
fn PoolFreeNow(va: u64);

/// Makes a pool.
#[id(0x8074)] #[message] #[waits] #[family(pool)]
#[creates(MemoryPool, pool)]
fn PoolCreate(pool: u32, props: Bytes);

/// What the driver calls an error, and its text; empty if it knows none of that number.
#[id(0x8005)] #[message] #[waits] #[family(device)]
fn ErrorText(error: i32) -> (name: Str, text: Str);
