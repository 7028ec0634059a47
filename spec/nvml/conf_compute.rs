//! Confidential computing.

#[asked]
fn nvmlDeviceGetConfComputeGpuAttestationReport(
    #[handle] device: nvmlDevice_t,
    #[out] gpuAtstReport: *mut nvmlConfComputeGpuAttestationReport_t,
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

#[asked(whole)]
fn nvmlDeviceGetConfComputeProtectedMemoryUsage(
    #[handle] device: nvmlDevice_t,
    #[out] memory: *mut nvmlMemory_t,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetDramEncryptionMode(
    #[handle] device: nvmlDevice_t,
    #[versioned] current: *mut nvmlDramEncryptionInfo_t,
    #[versioned] pending: *mut nvmlDramEncryptionInfo_t,
) -> nvmlReturn_t;

#[unsupported("confidential computing is an affair of the server and its GPU")]
fn nvmlDeviceSetConfComputeUnprotectedMemSize(device: nvmlDevice_t, sizeKiB: u64) -> nvmlReturn_t;

#[unsupported("confidential computing is an affair of the server and its GPU")]
fn nvmlDeviceSetDramEncryptionMode(
    device: nvmlDevice_t,
    dramEncryption: *const nvmlDramEncryptionInfo_t,
) -> nvmlReturn_t;

#[asked]
fn nvmlSystemGetConfComputeCapabilities(
    #[out] capabilities: *mut nvmlConfComputeSystemCaps_t,
) -> nvmlReturn_t;

#[asked]
fn nvmlSystemGetConfComputeGpusReadyState(#[out] isAcceptingWork: *mut u32) -> nvmlReturn_t;

#[asked]
fn nvmlSystemGetConfComputeKeyRotationThresholdInfo(
    #[versioned] pKeyRotationThrInfo: *mut nvmlConfComputeGetKeyRotationThresholdInfo_t,
) -> nvmlReturn_t;

#[asked]
fn nvmlSystemGetConfComputeSettings(
    #[versioned] settings: *mut nvmlSystemConfComputeSettings_t,
) -> nvmlReturn_t;

#[asked]
fn nvmlSystemGetConfComputeSettings_v2(
    #[versioned] settings: *mut nvmlSystemConfComputeSettings_v2_t,
) -> nvmlReturn_t;

#[asked]
fn nvmlSystemGetConfComputeState(#[out] state: *mut nvmlConfComputeSystemState_t) -> nvmlReturn_t;

#[unsupported("confidential computing is an affair of the server and its GPU")]
fn nvmlSystemSetConfComputeGpusReadyState(isAcceptingWork: u32) -> nvmlReturn_t;

#[unsupported("confidential computing is an affair of the server and its GPU")]
fn nvmlSystemSetConfComputeKeyRotationThresholdInfo(
    pKeyRotationThrInfo: *mut nvmlConfComputeSetKeyRotationThresholdInfo_t,
) -> nvmlReturn_t;
