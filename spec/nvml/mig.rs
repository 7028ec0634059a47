//! Parts of GPUs.

#[unsupported("a part of a GPU is shown as a whole device")]
fn nvmlComputeInstanceDestroy(computeInstance: nvmlComputeInstance_t) -> nvmlReturn_t;

#[unsupported("a part of a GPU is shown as a whole device")]
fn nvmlComputeInstanceGetInfo(
    computeInstance: nvmlComputeInstance_t,
    info: *mut nvmlComputeInstanceInfo_t,
) -> nvmlReturn_t;

#[unsupported("a part of a GPU is shown as a whole device")]
fn nvmlComputeInstanceGetInfo_v2(
    computeInstance: nvmlComputeInstance_t,
    info: *mut nvmlComputeInstanceInfo_t,
) -> nvmlReturn_t;

#[unsupported("a part of a GPU is shown as a whole device")]
fn nvmlDeviceCreateGpuInstance(
    device: nvmlDevice_t,
    profileId: u32,
    gpuInstance: *mut nvmlGpuInstance_t,
) -> nvmlReturn_t;

#[unsupported("a part of a GPU is shown as a whole device")]
fn nvmlDeviceCreateGpuInstanceWithPlacement(
    device: nvmlDevice_t,
    profileId: u32,
    placement: *const nvmlGpuInstancePlacement_t,
    gpuInstance: *mut nvmlGpuInstance_t,
) -> nvmlReturn_t;

#[asked(whole)]
fn nvmlDeviceGetAttributes(
    #[handle] device: nvmlDevice_t,
    #[out] attributes: *mut nvmlDeviceAttributes_t,
) -> nvmlReturn_t;

#[asked(whole)]
fn nvmlDeviceGetAttributes_v2(
    #[handle] device: nvmlDevice_t,
    #[out] attributes: *mut nvmlDeviceAttributes_t,
) -> nvmlReturn_t;

#[unsupported("a part of a GPU is shown as a whole device")]
fn nvmlDeviceGetComputeInstanceId(device: nvmlDevice_t, id: *mut u32) -> nvmlReturn_t;

#[unsupported("a part of a GPU is shown as a whole device")]
fn nvmlDeviceGetDeviceHandleFromMigDeviceHandle(
    migDevice: nvmlDevice_t,
    device: *mut nvmlDevice_t,
) -> nvmlReturn_t;

#[unsupported("a part of a GPU is shown as a whole device")]
fn nvmlDeviceGetGpuInstanceById(
    device: nvmlDevice_t,
    id: u32,
    gpuInstance: *mut nvmlGpuInstance_t,
) -> nvmlReturn_t;

#[unsupported("a part of a GPU is shown as a whole device")]
fn nvmlDeviceGetGpuInstanceId(device: nvmlDevice_t, id: *mut u32) -> nvmlReturn_t;

#[unsupported("a part of a GPU is shown as a whole device")]
fn nvmlDeviceGetGpuInstancePossiblePlacements(
    device: nvmlDevice_t,
    profileId: u32,
    placements: *mut nvmlGpuInstancePlacement_t,
    count: *mut u32,
) -> nvmlReturn_t;

#[unsupported("a part of a GPU is shown as a whole device")]
fn nvmlDeviceGetGpuInstancePossiblePlacements_v2(
    device: nvmlDevice_t,
    profileId: u32,
    placements: *mut nvmlGpuInstancePlacement_t,
    count: *mut u32,
) -> nvmlReturn_t;

#[unsupported("a part of a GPU is shown as a whole device")]
fn nvmlDeviceGetGpuInstanceProfileInfo(
    device: nvmlDevice_t,
    profile: u32,
    info: *mut nvmlGpuInstanceProfileInfo_t,
) -> nvmlReturn_t;

#[unsupported("a part of a GPU is shown as a whole device")]
fn nvmlDeviceGetGpuInstanceProfileInfoByIdV(
    device: nvmlDevice_t,
    profileId: u32,
    info: *mut nvmlGpuInstanceProfileInfo_v2_t,
) -> nvmlReturn_t;

#[unsupported("a part of a GPU is shown as a whole device")]
fn nvmlDeviceGetGpuInstanceProfileInfoV(
    device: nvmlDevice_t,
    profile: u32,
    info: *mut nvmlGpuInstanceProfileInfo_v2_t,
) -> nvmlReturn_t;

#[unsupported("a part of a GPU is shown as a whole device")]
fn nvmlDeviceGetGpuInstanceRemainingCapacity(
    device: nvmlDevice_t,
    profileId: u32,
    count: *mut u32,
) -> nvmlReturn_t;

#[unsupported("a part of a GPU is shown as a whole device")]
fn nvmlDeviceGetGpuInstances(
    device: nvmlDevice_t,
    profileId: u32,
    gpuInstances: *mut nvmlGpuInstance_t,
    count: *mut u32,
) -> nvmlReturn_t;

#[cx] #[is(fixed(device, Number::MaxMigDevices))]
#[family(device)]
fn nvmlDeviceGetMaxMigDeviceCount(
    #[handle] device: nvmlDevice_t,
    #[out] count: *mut u32,
) -> nvmlReturn_t;

#[unsupported("a part of a GPU is shown as a whole device")]
fn nvmlDeviceGetMigDeviceHandleByIndex(
    device: nvmlDevice_t,
    index: u32,
    migDevice: *mut nvmlDevice_t,
) -> nvmlReturn_t;

#[cx] #[is(fixed_two(device, [Number::Mig, Number::MigPending]))]
#[family(device)]
fn nvmlDeviceGetMigMode(
    #[handle] device: nvmlDevice_t,
    #[out] currentMode: *mut u32,
    #[out] pendingMode: *mut u32,
) -> nvmlReturn_t;

#[cx] #[is(none_of(device))]
#[family(device)]
fn nvmlDeviceIsMigDeviceHandle(
    #[handle] device: nvmlDevice_t,
    #[out] isMigDevice: *mut u32,
) -> nvmlReturn_t;

#[unsupported("a part of a GPU is shown as a whole device")]
fn nvmlDeviceSetMigMode(
    device: nvmlDevice_t,
    mode: u32,
    activationStatus: *mut nvmlReturn_t,
) -> nvmlReturn_t;

#[unsupported("a part of a GPU is shown as a whole device")]
fn nvmlGpmMigSampleGet(
    device: nvmlDevice_t,
    gpuInstanceId: u32,
    gpmSample: nvmlGpmSample_t,
) -> nvmlReturn_t;

#[unsupported("a part of a GPU is shown as a whole device")]
fn nvmlGpuInstanceCreateComputeInstance(
    gpuInstance: nvmlGpuInstance_t,
    profileId: u32,
    computeInstance: *mut nvmlComputeInstance_t,
) -> nvmlReturn_t;

#[unsupported("a part of a GPU is shown as a whole device")]
fn nvmlGpuInstanceCreateComputeInstanceWithPlacement(
    gpuInstance: nvmlGpuInstance_t,
    profileId: u32,
    placement: *const nvmlComputeInstancePlacement_t,
    computeInstance: *mut nvmlComputeInstance_t,
) -> nvmlReturn_t;

#[unsupported("a part of a GPU is shown as a whole device")]
fn nvmlGpuInstanceDestroy(gpuInstance: nvmlGpuInstance_t) -> nvmlReturn_t;

#[unsupported("a part of a GPU is shown as a whole device")]
fn nvmlGpuInstanceGetComputeInstanceById(
    gpuInstance: nvmlGpuInstance_t,
    id: u32,
    computeInstance: *mut nvmlComputeInstance_t,
) -> nvmlReturn_t;

#[unsupported("a part of a GPU is shown as a whole device")]
fn nvmlGpuInstanceGetComputeInstancePossiblePlacements(
    gpuInstance: nvmlGpuInstance_t,
    profileId: u32,
    placements: *mut nvmlComputeInstancePlacement_t,
    count: *mut u32,
) -> nvmlReturn_t;

#[unsupported("a part of a GPU is shown as a whole device")]
fn nvmlGpuInstanceGetComputeInstanceProfileInfo(
    gpuInstance: nvmlGpuInstance_t,
    profile: u32,
    engProfile: u32,
    info: *mut nvmlComputeInstanceProfileInfo_t,
) -> nvmlReturn_t;

#[unsupported("a part of a GPU is shown as a whole device")]
fn nvmlGpuInstanceGetComputeInstanceProfileInfoV(
    gpuInstance: nvmlGpuInstance_t,
    profile: u32,
    engProfile: u32,
    info: *mut nvmlComputeInstanceProfileInfo_v2_t,
) -> nvmlReturn_t;

#[unsupported("a part of a GPU is shown as a whole device")]
fn nvmlGpuInstanceGetComputeInstanceRemainingCapacity(
    gpuInstance: nvmlGpuInstance_t,
    profileId: u32,
    count: *mut u32,
) -> nvmlReturn_t;

#[unsupported("a part of a GPU is shown as a whole device")]
fn nvmlGpuInstanceGetComputeInstances(
    gpuInstance: nvmlGpuInstance_t,
    profileId: u32,
    computeInstances: *mut nvmlComputeInstance_t,
    count: *mut u32,
) -> nvmlReturn_t;

#[unsupported("a part of a GPU is shown as a whole device")]
fn nvmlGpuInstanceGetInfo(
    gpuInstance: nvmlGpuInstance_t,
    info: *mut nvmlGpuInstanceInfo_t,
) -> nvmlReturn_t;
