//! Virtual GPUs.

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlDeviceGetActiveVgpus(
    device: nvmlDevice_t,
    vgpuCount: *mut u32,
    vgpuInstances: *mut nvmlVgpuInstance_t,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlDeviceGetCreatableVgpus(
    device: nvmlDevice_t,
    vgpuCount: *mut u32,
    vgpuTypeIds: *mut nvmlVgpuTypeId_t,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlDeviceGetEncoderSessions(
    device: nvmlDevice_t,
    sessionCount: *mut u32,
    sessionInfos: *mut nvmlEncoderSessionInfo_t,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlDeviceGetFBCSessions(
    device: nvmlDevice_t,
    sessionCount: *mut u32,
    sessionInfo: *mut nvmlFBCSessionInfo_t,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlDeviceGetGridLicensableFeatures(
    device: nvmlDevice_t,
    pGridLicensableFeatures: *mut nvmlGridLicensableFeatures_t,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlDeviceGetGridLicensableFeatures_v2(
    device: nvmlDevice_t,
    pGridLicensableFeatures: *mut nvmlGridLicensableFeatures_t,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlDeviceGetGridLicensableFeatures_v3(
    device: nvmlDevice_t,
    pGridLicensableFeatures: *mut nvmlGridLicensableFeatures_t,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetGridLicensableFeatures_v4(
    #[handle] device: nvmlDevice_t,
    #[out] pGridLicensableFeatures: *mut nvmlGridLicensableFeatures_t,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlDeviceGetHostVgpuMode(
    device: nvmlDevice_t,
    pHostVgpuMode: *mut nvmlHostVgpuMode_t,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlDeviceGetPgpuMetadataString(
    device: nvmlDevice_t,
    pgpuMetadata: *mut c_char,
    bufferSize: *mut u32,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlDeviceGetSupportedVgpus(
    device: nvmlDevice_t,
    vgpuCount: *mut u32,
    vgpuTypeIds: *mut nvmlVgpuTypeId_t,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlDeviceGetVgpuCapabilities(
    device: nvmlDevice_t,
    capability: nvmlDeviceVgpuCapability_t,
    capResult: *mut u32,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlDeviceGetVgpuHeterogeneousMode(
    device: nvmlDevice_t,
    pHeterogeneousMode: *mut nvmlVgpuHeterogeneousMode_t,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlDeviceGetVgpuInstancesUtilizationInfo(
    device: nvmlDevice_t,
    vgpuUtilInfo: *mut nvmlVgpuInstancesUtilizationInfo_t,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlDeviceGetVgpuMetadata(
    device: nvmlDevice_t,
    pgpuMetadata: *mut nvmlVgpuPgpuMetadata_t,
    bufferSize: *mut u32,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlDeviceGetVgpuProcessUtilization(
    device: nvmlDevice_t,
    lastSeenTimeStamp: u64,
    vgpuProcessSamplesCount: *mut u32,
    utilizationSamples: *mut nvmlVgpuProcessUtilizationSample_t,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlDeviceGetVgpuProcessesUtilizationInfo(
    device: nvmlDevice_t,
    vgpuProcUtilInfo: *mut nvmlVgpuProcessesUtilizationInfo_t,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlDeviceGetVgpuSchedulerCapabilities(
    device: nvmlDevice_t,
    pCapabilities: *mut nvmlVgpuSchedulerCapabilities_t,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlDeviceGetVgpuSchedulerLog(
    device: nvmlDevice_t,
    pSchedulerLog: *mut nvmlVgpuSchedulerLog_t,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlDeviceGetVgpuSchedulerLog_v2(
    device: nvmlDevice_t,
    pSchedulerLogInfo: *mut nvmlVgpuSchedulerLogInfo_v2_t,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlDeviceGetVgpuSchedulerState(
    device: nvmlDevice_t,
    pSchedulerState: *mut nvmlVgpuSchedulerGetState_t,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlDeviceGetVgpuSchedulerState_v2(
    device: nvmlDevice_t,
    pSchedulerStateInfo: *mut nvmlVgpuSchedulerStateInfo_v2_t,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlDeviceGetVgpuTypeCreatablePlacements(
    device: nvmlDevice_t,
    vgpuTypeId: nvmlVgpuTypeId_t,
    pPlacementList: *mut nvmlVgpuPlacementList_t,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlDeviceGetVgpuTypeSupportedPlacements(
    device: nvmlDevice_t,
    vgpuTypeId: nvmlVgpuTypeId_t,
    pPlacementList: *mut nvmlVgpuPlacementList_t,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlDeviceGetVgpuUtilization(
    device: nvmlDevice_t,
    lastSeenTimeStamp: u64,
    sampleValType: *mut nvmlValueType_t,
    vgpuInstanceSamplesCount: *mut u32,
    utilizationSamples: *mut nvmlVgpuInstanceUtilizationSample_t,
) -> nvmlReturn_t;

#[cx] #[is(fixed(device, Number::Virtualization))]
#[family(device)]
fn nvmlDeviceGetVirtualizationMode(
    #[handle] device: nvmlDevice_t,
    #[out] pVirtualMode: *mut nvmlGpuVirtualizationMode_t,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlDeviceSetVgpuCapabilities(
    device: nvmlDevice_t,
    capability: nvmlDeviceVgpuCapability_t,
    state: nvmlEnableState_t,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlDeviceSetVgpuHeterogeneousMode(
    device: nvmlDevice_t,
    pHeterogeneousMode: *const nvmlVgpuHeterogeneousMode_t,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlDeviceSetVgpuSchedulerState(
    device: nvmlDevice_t,
    pSchedulerState: *mut nvmlVgpuSchedulerSetState_t,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlDeviceSetVgpuSchedulerState_v2(
    device: nvmlDevice_t,
    pSchedulerState: *mut nvmlVgpuSchedulerState_v2_t,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlDeviceSetVirtualizationMode(
    device: nvmlDevice_t,
    virtualMode: nvmlGpuVirtualizationMode_t,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlDeviceVgpuForceGspUnload(device: nvmlDevice_t) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlGetVgpuCompatibility(
    vgpuMetadata: *mut nvmlVgpuMetadata_t,
    pgpuMetadata: *mut nvmlVgpuPgpuMetadata_t,
    compatibilityInfo: *mut nvmlVgpuPgpuCompatibility_t,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlGetVgpuDriverCapabilities(
    capability: nvmlVgpuDriverCapability_t,
    capResult: *mut u32,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlGetVgpuVersion(
    supported: *mut nvmlVgpuVersion_t,
    current: *mut nvmlVgpuVersion_t,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlGpuInstanceGetActiveVgpus(
    gpuInstance: nvmlGpuInstance_t,
    pVgpuInstanceInfo: *mut nvmlActiveVgpuInstanceInfo_t,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlGpuInstanceGetCreatableVgpus(
    gpuInstance: nvmlGpuInstance_t,
    pVgpus: *mut nvmlVgpuTypeIdInfo_t,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlGpuInstanceGetVgpuHeterogeneousMode(
    gpuInstance: nvmlGpuInstance_t,
    pHeterogeneousMode: *mut nvmlVgpuHeterogeneousMode_t,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlGpuInstanceGetVgpuSchedulerLog(
    gpuInstance: nvmlGpuInstance_t,
    pSchedulerLogInfo: *mut nvmlVgpuSchedulerLogInfo_t,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlGpuInstanceGetVgpuSchedulerLog_v2(
    gpuInstance: nvmlGpuInstance_t,
    pSchedulerLogInfo: *mut nvmlVgpuSchedulerLogInfo_v2_t,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlGpuInstanceGetVgpuSchedulerState(
    gpuInstance: nvmlGpuInstance_t,
    pSchedulerStateInfo: *mut nvmlVgpuSchedulerStateInfo_t,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlGpuInstanceGetVgpuSchedulerState_v2(
    gpuInstance: nvmlGpuInstance_t,
    pSchedulerStateInfo: *mut nvmlVgpuSchedulerStateInfo_v2_t,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlGpuInstanceGetVgpuTypeCreatablePlacements(
    gpuInstance: nvmlGpuInstance_t,
    pCreatablePlacementInfo: *mut nvmlVgpuCreatablePlacementInfo_t,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlGpuInstanceSetVgpuHeterogeneousMode(
    gpuInstance: nvmlGpuInstance_t,
    pHeterogeneousMode: *const nvmlVgpuHeterogeneousMode_t,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlGpuInstanceSetVgpuSchedulerState(
    gpuInstance: nvmlGpuInstance_t,
    pScheduler: *mut nvmlVgpuSchedulerState_t,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlGpuInstanceSetVgpuSchedulerState_v2(
    gpuInstance: nvmlGpuInstance_t,
    pSchedulerState: *mut nvmlVgpuSchedulerState_v2_t,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlSetVgpuVersion(vgpuVersion: *mut nvmlVgpuVersion_t) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlVgpuInstanceClearAccountingPids(vgpuInstance: nvmlVgpuInstance_t) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlVgpuInstanceGetAccountingMode(
    vgpuInstance: nvmlVgpuInstance_t,
    mode: *mut nvmlEnableState_t,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlVgpuInstanceGetAccountingPids(
    vgpuInstance: nvmlVgpuInstance_t,
    count: *mut u32,
    pids: *mut u32,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlVgpuInstanceGetAccountingStats(
    vgpuInstance: nvmlVgpuInstance_t,
    pid: u32,
    stats: *mut nvmlAccountingStats_t,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlVgpuInstanceGetEccMode(
    vgpuInstance: nvmlVgpuInstance_t,
    eccMode: *mut nvmlEnableState_t,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlVgpuInstanceGetEncoderCapacity(
    vgpuInstance: nvmlVgpuInstance_t,
    encoderCapacity: *mut u32,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlVgpuInstanceGetEncoderSessions(
    vgpuInstance: nvmlVgpuInstance_t,
    sessionCount: *mut u32,
    sessionInfo: *mut nvmlEncoderSessionInfo_t,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlVgpuInstanceGetEncoderStats(
    vgpuInstance: nvmlVgpuInstance_t,
    sessionCount: *mut u32,
    averageFps: *mut u32,
    averageLatency: *mut u32,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlVgpuInstanceGetFBCSessions(
    vgpuInstance: nvmlVgpuInstance_t,
    sessionCount: *mut u32,
    sessionInfo: *mut nvmlFBCSessionInfo_t,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlVgpuInstanceGetFBCStats(
    vgpuInstance: nvmlVgpuInstance_t,
    fbcStats: *mut nvmlFBCStats_t,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlVgpuInstanceGetFbUsage(vgpuInstance: nvmlVgpuInstance_t, fbUsage: *mut u64) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlVgpuInstanceGetFrameRateLimit(
    vgpuInstance: nvmlVgpuInstance_t,
    frameRateLimit: *mut u32,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlVgpuInstanceGetGpuInstanceId(
    vgpuInstance: nvmlVgpuInstance_t,
    gpuInstanceId: *mut u32,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlVgpuInstanceGetGpuPciId(
    vgpuInstance: nvmlVgpuInstance_t,
    vgpuPciId: *mut c_char,
    length: *mut u32,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlVgpuInstanceGetLicenseInfo(
    vgpuInstance: nvmlVgpuInstance_t,
    licenseInfo: *mut nvmlVgpuLicenseInfo_t,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlVgpuInstanceGetLicenseInfo_v2(
    vgpuInstance: nvmlVgpuInstance_t,
    licenseInfo: *mut nvmlVgpuLicenseInfo_t,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlVgpuInstanceGetLicenseStatus(
    vgpuInstance: nvmlVgpuInstance_t,
    licensed: *mut u32,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlVgpuInstanceGetMdevUUID(
    vgpuInstance: nvmlVgpuInstance_t,
    mdevUuid: *mut c_char,
    size: u32,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlVgpuInstanceGetMetadata(
    vgpuInstance: nvmlVgpuInstance_t,
    vgpuMetadata: *mut nvmlVgpuMetadata_t,
    bufferSize: *mut u32,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlVgpuInstanceGetPlacementId(
    vgpuInstance: nvmlVgpuInstance_t,
    pPlacement: *mut nvmlVgpuPlacementId_t,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlVgpuInstanceGetRuntimeStateSize(
    vgpuInstance: nvmlVgpuInstance_t,
    pState: *mut nvmlVgpuRuntimeState_t,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlVgpuInstanceGetType(
    vgpuInstance: nvmlVgpuInstance_t,
    vgpuTypeId: *mut nvmlVgpuTypeId_t,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlVgpuInstanceGetUUID(
    vgpuInstance: nvmlVgpuInstance_t,
    uuid: *mut c_char,
    size: u32,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlVgpuInstanceGetVmDriverVersion(
    vgpuInstance: nvmlVgpuInstance_t,
    version: *mut c_char,
    length: u32,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlVgpuInstanceGetVmID(
    vgpuInstance: nvmlVgpuInstance_t,
    vmId: *mut c_char,
    size: u32,
    vmIdType: *mut nvmlVgpuVmIdType_t,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlVgpuInstanceSetEncoderCapacity(
    vgpuInstance: nvmlVgpuInstance_t,
    encoderCapacity: u32,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlVgpuTypeGetBAR1Info(
    vgpuTypeId: nvmlVgpuTypeId_t,
    bar1Info: *mut nvmlVgpuTypeBar1Info_t,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlVgpuTypeGetCapabilities(
    vgpuTypeId: nvmlVgpuTypeId_t,
    capability: nvmlVgpuCapability_t,
    capResult: *mut u32,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlVgpuTypeGetClass(
    vgpuTypeId: nvmlVgpuTypeId_t,
    vgpuTypeClass: *mut c_char,
    size: *mut u32,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlVgpuTypeGetDeviceID(
    vgpuTypeId: nvmlVgpuTypeId_t,
    deviceID: *mut u64,
    subsystemID: *mut u64,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlVgpuTypeGetFbReservation(
    vgpuTypeId: nvmlVgpuTypeId_t,
    fbReservation: *mut u64,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlVgpuTypeGetFrameRateLimit(
    vgpuTypeId: nvmlVgpuTypeId_t,
    frameRateLimit: *mut u32,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlVgpuTypeGetFramebufferSize(vgpuTypeId: nvmlVgpuTypeId_t, fbSize: *mut u64) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlVgpuTypeGetGpuInstanceProfileId(
    vgpuTypeId: nvmlVgpuTypeId_t,
    gpuInstanceProfileId: *mut u32,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlVgpuTypeGetGspHeapSize(vgpuTypeId: nvmlVgpuTypeId_t, gspHeapSize: *mut u64) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlVgpuTypeGetLicense(
    vgpuTypeId: nvmlVgpuTypeId_t,
    vgpuTypeLicenseString: *mut c_char,
    size: u32,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlVgpuTypeGetMaxInstances(
    device: nvmlDevice_t,
    vgpuTypeId: nvmlVgpuTypeId_t,
    vgpuInstanceCount: *mut u32,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlVgpuTypeGetMaxInstancesPerGpuInstance(
    pMaxInstance: *mut nvmlVgpuTypeMaxInstance_t,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlVgpuTypeGetMaxInstancesPerVm(
    vgpuTypeId: nvmlVgpuTypeId_t,
    vgpuInstanceCountPerVm: *mut u32,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlVgpuTypeGetName(
    vgpuTypeId: nvmlVgpuTypeId_t,
    vgpuTypeName: *mut c_char,
    size: *mut u32,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlVgpuTypeGetNumDisplayHeads(
    vgpuTypeId: nvmlVgpuTypeId_t,
    numDisplayHeads: *mut u32,
) -> nvmlReturn_t;

#[unsupported("virtual GPUs are an affair of the server's host")]
fn nvmlVgpuTypeGetResolution(
    vgpuTypeId: nvmlVgpuTypeId_t,
    displayIndex: u32,
    xdim: *mut u32,
    ydim: *mut u32,
) -> nvmlReturn_t;
