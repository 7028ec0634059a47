//! Confidential computing.

#[unsupported("confidential computing is an affair of the server and its GPU")]
fn nvmlDeviceGetConfComputeGpuAttestationReport(
    device: nvmlDevice_t,
    gpuAtstReport: *mut nvmlConfComputeGpuAttestationReport_t,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetConfComputeGpuCertificate(
    #[handle] device: nvmlDevice_t,
    #[out] gpuCert: *mut nvmlConfComputeGpuCertificate_t,
) -> nvmlReturn_t;

#[asked(whole)]
fn nvmlDeviceGetConfComputeMemSizeInfo(
    #[handle] device: nvmlDevice_t,
    #[out] memInfo: *mut nvmlConfComputeMemSizeInfo_t,
) -> nvmlReturn_t;

#[unsupported("confidential computing is an affair of the server and its GPU")]
fn nvmlDeviceGetConfComputeProtectedMemoryUsage(
    device: nvmlDevice_t,
    memory: *mut nvmlMemory_t,
) -> nvmlReturn_t;

#[unsupported("confidential computing is an affair of the server and its GPU")]
fn nvmlDeviceGetDramEncryptionMode(
    device: nvmlDevice_t,
    current: *mut nvmlDramEncryptionInfo_t,
    pending: *mut nvmlDramEncryptionInfo_t,
) -> nvmlReturn_t;

#[unsupported("confidential computing is an affair of the server and its GPU")]
fn nvmlDeviceSetConfComputeUnprotectedMemSize(device: nvmlDevice_t, sizeKiB: u64) -> nvmlReturn_t;

#[unsupported("confidential computing is an affair of the server and its GPU")]
fn nvmlDeviceSetDramEncryptionMode(
    device: nvmlDevice_t,
    dramEncryption: *const nvmlDramEncryptionInfo_t,
) -> nvmlReturn_t;

#[unsupported("confidential computing is an affair of the server and its GPU")]
fn nvmlSystemGetConfComputeCapabilities(
    capabilities: *mut nvmlConfComputeSystemCaps_t,
) -> nvmlReturn_t;

#[unsupported("confidential computing is an affair of the server and its GPU")]
fn nvmlSystemGetConfComputeGpusReadyState(isAcceptingWork: *mut u32) -> nvmlReturn_t;

#[unsupported("confidential computing is an affair of the server and its GPU")]
fn nvmlSystemGetConfComputeKeyRotationThresholdInfo(
    pKeyRotationThrInfo: *mut nvmlConfComputeGetKeyRotationThresholdInfo_t,
) -> nvmlReturn_t;

#[unsupported("confidential computing is an affair of the server and its GPU")]
fn nvmlSystemGetConfComputeSettings(settings: *mut nvmlSystemConfComputeSettings_t) -> nvmlReturn_t;

#[unsupported("confidential computing is an affair of the server and its GPU")]
fn nvmlSystemGetConfComputeSettings_v2(
    settings: *mut nvmlSystemConfComputeSettings_v2_t,
) -> nvmlReturn_t;

#[unsupported("confidential computing is an affair of the server and its GPU")]
fn nvmlSystemGetConfComputeState(state: *mut nvmlConfComputeSystemState_t) -> nvmlReturn_t;

#[unsupported("confidential computing is an affair of the server and its GPU")]
fn nvmlSystemSetConfComputeGpusReadyState(isAcceptingWork: u32) -> nvmlReturn_t;

#[unsupported("confidential computing is an affair of the server and its GPU")]
fn nvmlSystemSetConfComputeKeyRotationThresholdInfo(
    pKeyRotationThrInfo: *mut nvmlConfComputeSetKeyRotationThresholdInfo_t,
) -> nvmlReturn_t;
