//! Messages of the OpenCL client and worker. The API's object model is reference counts and
//! queries, which the client answers alone; what reaches the worker is the work itself. Objects are
//! named by ids that the client chooses; 0 is none.

/// Everything about the platforms and devices of this session.
#[id(0x0101)] #[message] #[waits]
fn Describe() -> (platforms: Bytes);

/// A device query that the description does not hold.
#[id(0x0102)] #[message] #[waits]
fn DeviceInfo(device: u32, param: u32) -> (value: Bytes);

/// Sub-devices get the ids from `first` on.
#[id(0x0103)] #[message] #[waits]
#[creates(Device, first)] #[child_of(Device)]
fn CreateSubDevices(device: u32, first: u32, most: u32, properties: U64s) -> (devices: Bytes);

/// The device's clock and the worker's.
#[id(0x0104)] #[message] #[waits]
fn DeviceTimer(device: u32) -> (device_time: u64, host_time: u64);

/// Drops the client's reference to an object of any kind.
#[id(0x0105)] #[message] #[queued]
#[destroys(Device | Context | Queue | Memory | Sampler | Program | Kernel | Event, object)]
fn Release(object: u32);

/// Whether an object came to be; the status says why not.
#[id(0x0106)] #[message] #[waits]
fn Check(object: u32);

/// A piece of data for a later message, which names it by `blob`.
#[id(0x0107)] #[message] #[queued]
fn Blob(blob: u32, total: u64, offset: u64, data: Rest);

/// Memory of a client on this host, which it has handed over under this number.
#[id(0x0108)] #[message] #[waits]
fn ShareMemory(number: u64, size: u64);

/// The client lets go of shared memory. Commands that use it have it until they have run.
#[id(0x0109)] #[message] #[queued]
fn UnshareMemory(number: u64);

/// A context over devices of one platform. With `notify`, what the library tells the context's error
/// callback comes back as callback notices whose call is the context's id.
#[id(0x0201)] #[message] #[queued]
#[creates(Context)] #[child_of(Device, devices)]
fn CreateContext(context: u32, devices: U32s, notify: u32);

/// Supported formats as pairs of u32.
#[id(0x0202)] #[message] #[waits]
fn ImageFormats(context: u32, flags: u64, kind: u32) -> (formats: Bytes);

/// A queue; `properties` is the zero-ended list of pairs.
#[id(0x0203)] #[message] #[queued]
#[creates(Queue)]
fn CreateQueue(queue: u32, context: u32, device: u32, properties: U64s);

/// Sets the default queue of a device.
#[id(0x0204)] #[message] #[waits]
#[changes(Context, "default queue of a device")]
#[calls(clSetDefaultDeviceCommandQueue(context, device, queue))]
fn SetDefaultQueue(context: u32, device: u32, queue: u32);

/// A buffer, with its contents in `blob` or `data` if the flags say so.
#[id(0x0301)] #[message] #[queued]
#[creates(Memory, buffer)]
fn CreateBuffer(buffer: u32, context: u32, flags: u64, size: u64, svm: u64, blob: u32, data: Rest);

/// A region of a buffer.
#[id(0x0302)] #[message] #[queued]
#[creates(Memory, buffer)] #[child_of(Memory, parent)]
fn CreateSubBuffer(buffer: u32, parent: u32, flags: u64, origin: u64, size: u64);

/// An image. `shape`: width, height, depth, array size, row pitch, slice pitch, levels, samples.
#[id(0x0303)] #[message] #[queued]
#[creates(Memory, image)] #[child_of(Context)] #[child_of(Memory, parent)]
fn CreateImage(image: u32, context: u32, flags: u64, format: [u32; 2], kind: u32, shape: [u64; 8], parent: u32, blob: u32, data: Rest);

/// Answers to the queries about an image.
#[id(0x0304)] #[message] #[waits]
fn ImageInfo(image: u32) -> (table: Bytes);

/// A sampler.
#[id(0x0305)] #[message] #[queued]
#[creates(Sampler)]
#[calls(clCreateSampler(context, normalized, addressing, filter))]
fn CreateSampler(sampler: u32, context: u32, normalized: u32, addressing: u32, filter: u32, properties: U64s);

/// A program from source, in `blob` or `data`.
#[id(0x0401)] #[message] #[queued]
#[creates(Program)]
fn CreateProgramWithSource(program: u32, context: u32, blob: u32, data: Rest);

/// A program from one binary for each device, one after the other in `blob`.
#[id(0x0402)] #[message] #[waits]
#[creates(Program)]
fn CreateProgramWithBinary(program: u32, context: u32, devices: U32s, lengths: U64s, blob: u32) -> (statuses: U32s, info: Bytes);

/// A program of kernels that the devices bring along.
#[id(0x0403)] #[message] #[waits]
#[creates(Program)]
fn CreateProgramWithBuiltInKernels(program: u32, context: u32, devices: U32s, names: Str) -> (info: Bytes);

/// A program from intermediate language.
#[id(0x0404)] #[message] #[waits]
#[creates(Program)]
fn CreateProgramWithIl(program: u32, context: u32, blob: u32) -> (info: Bytes);

/// Compiles and links. `files` are the headers found on the client; see the client's `headers`. In
/// `options` the character 1 stands for the folder that they are put in.
#[id(0x0405)] #[message] #[waits]
#[changes(Program, "build")]
fn BuildProgram(program: u32, devices: U32s, options: Str, files: u32) -> (info: Bytes);

/// Compiles with programs as headers.
#[id(0x0406)] #[message] #[waits]
#[changes(Program, "build")]
fn CompileProgram(program: u32, devices: U32s, options: Str, headers: U32s, names: Bytes, files: u32) -> (info: Bytes);

/// Links compiled programs into a new one.
#[id(0x0407)] #[message] #[waits]
#[creates(Program)]
fn LinkProgram(program: u32, context: u32, devices: U32s, options: Str, inputs: U32s) -> (info: Bytes);

/// The binaries, one after the other, as bulk bytes; asked with `bytes` 0 for their sizes, and for the
/// binaries with them in `data` where they are small.
#[id(0x0408)] #[message] #[waits]
fn ProgramBinaries(program: u32, bytes: u64) -> (sizes: U64s, data: Bytes);

/// As `CreateProgramWithBinary`, of binaries that this session has given out.
#[id(0x040b)] #[message] #[queued]
#[creates(Program)]
fn LoadProgram(program: u32, context: u32, devices: U32s, lengths: U64s, blob: u32);

/// As `BuildProgram`, of a program made by `LoadProgram`.
#[id(0x040c)] #[message] #[queued]
#[changes(Program, "build")]
fn BuildLoaded(program: u32, options: Str);

/// A specialization constant.
#[id(0x0409)] #[message] #[waits]
#[changes(Program, "specialization constant")]
fn SetSpecializationConstant(program: u32, id: u32, value: Bytes);

/// A kernel by name.
#[id(0x0501)] #[message] #[queued]
#[creates(Kernel)]
fn CreateKernel(kernel: u32, program: u32, name: Str);

/// A copy of a kernel with its arguments; `args` are those set since its last launch.
#[id(0x0502)] #[message] #[queued]
#[creates(Kernel)]
fn CloneKernel(kernel: u32, source: u32, args: Bytes);

/// Execution information: pointers as they are.
#[id(0x0504)] #[message] #[waits]
#[changes(Kernel, "execution information")]
fn KernelExecInfo(kernel: u32, param: u32, value: Bytes);

/// A sub-group query.
#[id(0x0505)] #[message] #[waits]
fn SubGroupInfo(kernel: u32, device: u32, param: u32, input: Bytes, most: u32) -> (value: Bytes);

/// The local size that the device would choose.
#[id(0x0506)] #[message] #[waits]
fn SuggestedLocalSize(queue: u32, kernel: u32, dims: u32, offset: [u64; 3], global: [u64; 3], args: Bytes) -> (local: [u64; 3]);

/// A launch. `args` are those set since the kernel's last launch; `dims` above 3 means no local size.
#[id(0x0507)] #[message] #[queued]
#[creates(Event)]
fn LaunchKernel(queue: u32, kernel: u32, event: u32, dims: u32, offset: [u64; 3], global: [u64; 3], local: [u64; 3], args: Bytes, waits: U32s);

/// Bytes to a buffer.
#[id(0x0601)] #[message] #[queued]
#[creates(Event)]
#[calls(clEnqueueWriteBuffer(queue, buffer, 0, offset, len(data), data))]
fn WriteBuffer(queue: u32, buffer: u32, event: u32, waits: U32s, offset: u64, blob: u32, data: Rest);

/// Bytes from a buffer, as bulk.
#[id(0x0602)] #[message] #[waits]
#[creates(Event)]
#[calls(clEnqueueReadBuffer(queue, buffer, 0, at(offset), len(place), place))]
fn ReadBuffer(queue: u32, buffer: u32, event: u32, waits: U32s, offset: u64, size: u64);

/// Buffer to buffer.
#[id(0x0603)] #[message] #[queued]
#[creates(Event)]
#[calls(clEnqueueCopyBuffer(queue, from, to, from_offset, to_offset, size))]
fn CopyBuffer(queue: u32, from: u32, to: u32, event: u32, waits: U32s, from_offset: u64, to_offset: u64, size: u64);

/// A box of bytes to a buffer, without gaps.
#[id(0x0604)] #[message] #[queued]
#[creates(Event)]
fn WriteBufferRect(queue: u32, buffer: u32, event: u32, waits: U32s, origin: [u64; 3], region: [u64; 3], pitch: [u64; 2], blob: u32, data: Rest);

/// A box of bytes from a buffer, without gaps, as bulk.
#[id(0x0605)] #[message] #[waits]
#[creates(Event)]
fn ReadBufferRect(queue: u32, buffer: u32, event: u32, waits: U32s, origin: [u64; 3], region: [u64; 3], pitch: [u64; 2]);

/// A box of bytes between buffers.
#[id(0x0606)] #[message] #[queued]
#[creates(Event)]
#[calls(clEnqueueCopyBufferRect(queue, from, to, from_origin, to_origin, region, from_pitch[0], from_pitch[1], to_pitch[0], to_pitch[1]))]
fn CopyBufferRect(queue: u32, from: u32, to: u32, event: u32, waits: U32s, from_origin: [u64; 3], to_origin: [u64; 3], region: [u64; 3], from_pitch: [u64; 2], to_pitch: [u64; 2]);

/// A pattern over a range.
#[id(0x0607)] #[message] #[queued]
#[creates(Event)]
fn FillBuffer(queue: u32, buffer: u32, event: u32, waits: U32s, pattern: Bytes, offset: u64, size: u64);

/// Pixels to an image, without gaps.
#[id(0x0608)] #[message] #[queued]
#[creates(Event)]
fn WriteImage(queue: u32, image: u32, event: u32, waits: U32s, origin: [u64; 3], region: [u64; 3], blob: u32, data: Rest);

/// Pixels from an image, without gaps, as bulk.
#[id(0x0609)] #[message] #[waits]
#[creates(Event)]
fn ReadImage(queue: u32, image: u32, event: u32, waits: U32s, origin: [u64; 3], region: [u64; 3], bytes: u64);

/// Image to image.
#[id(0x060a)] #[message] #[queued]
#[creates(Event)]
#[calls(clEnqueueCopyImage(queue, from, to, from_origin, to_origin, region))]
fn CopyImage(queue: u32, from: u32, to: u32, event: u32, waits: U32s, from_origin: [u64; 3], to_origin: [u64; 3], region: [u64; 3]);

/// Image to buffer.
#[id(0x060b)] #[message] #[queued]
#[creates(Event)]
#[calls(clEnqueueCopyImageToBuffer(queue, from, to, origin, region, offset))]
fn CopyImageToBuffer(queue: u32, from: u32, to: u32, event: u32, waits: U32s, origin: [u64; 3], region: [u64; 3], offset: u64);

/// Buffer to image.
#[id(0x060c)] #[message] #[queued]
#[creates(Event)]
#[calls(clEnqueueCopyBufferToImage(queue, from, to, offset, origin, region))]
fn CopyBufferToImage(queue: u32, from: u32, to: u32, event: u32, waits: U32s, offset: u64, origin: [u64; 3], region: [u64; 3]);

/// One colour over a region.
#[id(0x060d)] #[message] #[queued]
#[creates(Event)]
#[calls(clEnqueueFillImage(queue, image, color, origin, region))]
fn FillImage(queue: u32, image: u32, event: u32, waits: U32s, color: [u32; 4], origin: [u64; 3], region: [u64; 3]);

/// Moves objects to the queue's device.
#[id(0x060e)] #[message] #[queued]
#[creates(Event)]
#[calls(clEnqueueMigrateMemObjects(queue, len(objects), objects, flags))]
fn Migrate(queue: u32, objects: U32s, flags: u64, event: u32, waits: U32s);

/// A marker, or with `barrier` a barrier.
#[id(0x060f)] #[message] #[queued]
#[creates(Event)]
fn Marker(queue: u32, event: u32, waits: U32s, barrier: u32);

/// Waits for everything in a queue. The answer brings the times of those of these events that are
/// complete, five each; it is empty when none were named.
#[id(0x0610)] #[message] #[waits]
fn Finish(queue: u32, profile: U32s) -> (timed: U32s, times: U64s);

/// Hands a queue's commands to the device.
#[id(0x0611)] #[message] #[queued]
#[calls(clFlush(queue))]
fn Flush(queue: u32);

/// Bytes between a buffer and shared memory, `to_buffer` or from it; answered once they are there.
#[id(0x0612)] #[message] #[waits]
fn CopyShared(queue: u32, buffer: u32, event: u32, waits: U32s, offset: u64, memory: u64, at: u64, size: u64, to_buffer: u32);

/// A user event.
#[id(0x0701)] #[message] #[queued]
#[creates(Event)]
#[calls(clCreateUserEvent(context))]
fn CreateUserEvent(event: u32, context: u32);

/// Ends a user event.
#[id(0x0702)] #[message] #[queued]
#[changes(Event, "status")]
#[calls(clSetUserEventStatus(event, status))]
fn SetUserEventStatus(event: u32, status: i32);

/// Waits for events. The answer is as that of `Finish`.
#[id(0x0703)] #[message] #[waits]
fn WaitForEvents(events: U32s, profile: U32s) -> (timed: U32s, times: U64s);

/// How far an event has come.
#[id(0x0704)] #[message] #[waits]
fn EventStatus(event: u32) -> (status: i32);

/// Queued, submitted, started, ended and all complete, in the device's time.
#[id(0x0705)] #[message] #[waits]
fn EventProfile(event: u32) -> (status: i32, times: [u64; 5]);

/// Asks for a callback notice with `token`.
#[id(0x0706)] #[message] #[queued]
fn EventCallback(event: u32, trigger: i32, token: u64);

/// Shared virtual memory. The pointer is valid at the worker, and at the client if it can be had.
#[id(0x0801)] #[message] #[waits]
#[creates(Svm, pointer)]
fn SvmAlloc(context: u32, flags: u64, size: u64, align: u32) -> (pointer: u64);

/// Frees it at once.
#[id(0x0802)] #[message] #[queued]
#[destroys(Svm, pointer)]
fn SvmFree(context: u32, pointer: u64);

/// Bytes to it.
#[id(0x0803)] #[message] #[queued]
#[creates(Event)]
#[calls(clEnqueueSVMMemcpy(queue, 0, svm(pointer, len(data)), data, len(data)))]
fn SvmWrite(queue: u32, event: u32, waits: U32s, pointer: u64, command: u32, blob: u32, data: Rest);

/// Bytes from it, as bulk.
#[id(0x0804)] #[message] #[waits]
#[creates(Event)]
#[calls(clEnqueueSVMMemcpy(queue, 0, place, at(svm(pointer, size)), len(place)))]
fn SvmRead(queue: u32, event: u32, waits: U32s, pointer: u64, size: u64);

/// From one place in it to another.
#[id(0x0805)] #[message] #[queued]
#[creates(Event)]
#[calls(clEnqueueSVMMemcpy(queue, 0, svm(to, size), svm(from, size), size))]
fn SvmCopy(queue: u32, event: u32, waits: U32s, to: u64, from: u64, size: u64);

/// A pattern over a range of it.
#[id(0x0806)] #[message] #[queued]
#[creates(Event)]
#[calls(clEnqueueSVMMemFill(queue, svm(pointer, size), pattern, len(pattern), size))]
fn SvmFill(queue: u32, event: u32, waits: U32s, pointer: u64, pattern: Bytes, size: u64);

/// Moves ranges of it to the queue's device.
#[id(0x0807)] #[message] #[queued]
#[creates(Event)]
fn SvmMigrate(queue: u32, event: u32, waits: U32s, pointers: U64s, sizes: U64s, flags: u64);
