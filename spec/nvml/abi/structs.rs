//! Structures of functions that are answered.

/// Memory in the first form: the driver's share counts as used.
#[layout(size = 24, align = 8, offsets = [0, 8, 16])]
#[repr(C)]
pub struct nvmlMemory_t {
    pub total: u64,
    pub free: u64,
    pub used: u64,
}

/// Memory in the second form.
#[layout(size = 40, align = 8, offsets = [0, 8, 16, 24, 32])]
#[repr(C)]
pub struct nvmlMemory_v2_t {
    pub version: u32,
    pub total: u64,
    pub reserved: u64,
    pub free: u64,
    pub used: u64,
}

/// The BAR1 aperture, in bytes.
#[layout(size = 24, align = 8, offsets = [0, 8, 16])]
#[repr(C)]
pub struct nvmlBAR1Memory_t {
    pub bar1Total: u64,
    pub bar1Free: u64,
    pub bar1Used: u64,
}

/// Percent of the last moments.
#[layout(size = 8, align = 4, offsets = [0, 4])]
#[repr(C)]
pub struct nvmlUtilization_t {
    pub gpu: u32,
    pub memory: u32,
}

/// Captures of the frame buffer.
#[layout(size = 12, align = 4, offsets = [0, 4, 8])]
#[repr(C)]
pub struct nvmlFBCStats_t {
    pub sessionsCount: u32,
    pub averageFPS: u32,
    pub averageLatency: u32,
}

/// Degrees Celsius of a sensor.
#[layout(size = 12, align = 4, offsets = [0, 4, 8])]
#[repr(C)]
pub struct nvmlTemperature_t {
    pub version: u32,
    pub sensorType: nvmlTemperatureSensors_t,
    pub temperature: i32,
}

/// The start that the first two forms of `nvmlPciInfo_t` share; what follows in the second is
/// reserved.
#[layout(size = 36, align = 4, offsets = [0, 16, 20, 24, 28, 32])]
#[repr(C)]
pub struct nvmlPciInfoOld_t {
    pub busIdLegacy: [c_char; 16],
    pub domain: u32,
    pub bus: u32,
    pub device: u32,
    pub pciDeviceId: u32,
    pub pciSubSystemId: u32,
}

/// The third form.
#[layout(size = 68, align = 4, offsets = [0, 36])]
#[repr(C)]
pub struct nvmlPciInfo_t {
    pub old: nvmlPciInfoOld_t,
    pub busId: [c_char; 32],
}

/// The place, and what kind of device it is there.
#[layout(size = 64, align = 4, offsets = [0, 4, 8, 12, 16, 20, 24, 28, 32])]
#[repr(C)]
pub struct nvmlPciInfoExt_t {
    pub version: u32,
    pub domain: u32,
    pub bus: u32,
    pub device: u32,
    pub pciDeviceId: u32,
    pub pciSubSystemId: u32,
    pub baseClass: u32,
    pub subClass: u32,
    pub busId: [c_char; 32],
}

/// The fabric that a device is part of. `pad` is what pads the state, spelt out because some
/// bindings read all of it as the state.
#[layout(size = 28, align = 4, offsets = [0, 16, 20, 24, 25])]
#[repr(C)]
pub struct nvmlGpuFabricInfo_t {
    pub clusterUuid: [u8; 16],
    pub status: nvmlReturn_t,
    pub cliqueId: u32,
    pub state: u8,
    pub pad: [u8; 3],
}

/// The second form.
#[layout(size = 36, align = 4, offsets = [0, 4, 20, 24, 28, 29, 32])]
#[repr(C)]
pub struct nvmlGpuFabricInfoV_t {
    pub version: u32,
    pub clusterUuid: [u8; 16],
    pub status: nvmlReturn_t,
    pub cliqueId: u32,
    pub state: u8,
    pub pad: [u8; 3],
    pub healthMask: u32,
}

/// The third form.
#[layout(size = 40, align = 4, offsets = [0, 36])]
#[repr(C)]
pub struct nvmlGpuFabricInfo_v3_t {
    pub v2: nvmlGpuFabricInfoV_t,
    pub healthSummary: u8,
}

/// A value by its number; `value` is the bytes of a union.
#[layout(size = 40, align = 8, offsets = [0, 4, 8, 16, 24, 28, 32])]
#[repr(C)]
pub struct nvmlFieldValue_t {
    pub fieldId: u32,
    pub scopeId: u32,
    pub timestamp: i64,
    pub latencyUsec: i64,
    pub valueType: nvmlValueType_t,
    pub nvmlReturn: nvmlReturn_t,
    pub value: u64,
}

/// A UUID, as text with its NUL (type 1) or 16 bytes (type 2).
#[layout(size = 52, align = 4, offsets = [0, 4, 8])]
#[repr(C)]
pub struct nvmlUUID_t {
    pub version: u32,
    pub r#type: u32,
    pub value: [u8; 41],
}

/// Something that happened to a device, in the first form.
#[layout(size = 24, align = 8, offsets = [0, 8, 16])]
#[repr(C)]
pub struct nvmlEventDataOld_t {
    pub device: nvmlDevice_t,
    pub eventType: u64,
    pub eventData: u64,
}

/// The second form: of which parts of the device, too.
#[layout(size = 32, align = 8, offsets = [0, 8, 16, 24, 28])]
#[repr(C)]
pub struct nvmlEventData_t {
    pub device: nvmlDevice_t,
    pub eventType: u64,
    pub eventData: u64,
    pub gpuInstanceId: u32,
    pub computeInstanceId: u32,
}

/// Asks for a set of the machine's events.
#[layout(size = 16, align = 8, offsets = [0, 8])]
#[repr(C)]
pub struct nvmlSystemEventSetCreateRequest_t {
    pub version: u32,
    pub set: nvmlSystemEventSet_t,
}

/// Gives one back.
#[layout(size = 16, align = 8, offsets = [0, 8])]
#[repr(C)]
pub struct nvmlSystemEventSetFreeRequest_t {
    pub version: u32,
    pub set: nvmlSystemEventSet_t,
}

/// Says what it is to tell.
#[layout(size = 24, align = 8, offsets = [0, 8, 16])]
#[repr(C)]
pub struct nvmlSystemRegisterEventRequest_t {
    pub version: u32,
    pub eventTypes: u64,
    pub set: nvmlSystemEventSet_t,
}

/// Waits for what it tells: room for so many events.
#[layout(size = 32, align = 8, offsets = [0, 4, 8, 16, 24, 28])]
#[repr(C)]
pub struct nvmlSystemEventSetWaitRequest_t {
    pub version: u32,
    pub timeoutms: u32,
    pub set: nvmlSystemEventSet_t,
    pub data: *mut c_void,
    pub dataSize: u32,
    pub numEvent: u32,
}

/// Features that need a licence, in the fourth form, and how many there are.
#[layout(size = 860, align = 4, offsets = [0, 4, 8])]
#[repr(C)]
pub struct nvmlGridLicensableFeatures_t {
    pub isGridLicenseSupported: i32,
    pub licensableFeaturesCount: u32,
    /// Three of 284 bytes.
    pub gridLicensableFeatures: [u32; 213],
}

/// The certificates of a GPU for confidential computing, and how long they are.
#[layout(size = 9224, align = 4, offsets = [0, 4, 8, 4104])]
#[repr(C)]
pub struct nvmlConfComputeGpuCertificate_t {
    pub certChainSize: u32,
    pub attestationCertChainSize: u32,
    pub certChain: [u8; 4096],
    pub attestationCertChain: [u8; 5120],
}
