//! Settings of a device.

#[cx] #[is(anywhere(device))]
#[family(affinity)]
fn nvmlDeviceClearCpuAffinity(#[handle] device: nvmlDevice_t) -> nvmlReturn_t;

#[forbidden("a GPU that others may share is set by its server alone")]
fn nvmlDeviceClearEccErrorCounts(
    #[handle] device: nvmlDevice_t,
    counterType: nvmlEccCounterType_t,
) -> nvmlReturn_t;

#[local] #[cx]
fn nvmlDeviceClearFieldValues(
    #[handle] device: nvmlDevice_t,
    valuesCount: i32,
    values: *mut nvmlFieldValue_t,
) -> nvmlReturn_t;

#[forbidden("a GPU that others may share is set by its server alone")]
fn nvmlDeviceDiscoverGpus(pciInfo: *mut nvmlPciInfo_t) -> nvmlReturn_t;

#[forbidden("a GPU that others may share is set by its server alone")]
fn nvmlDeviceModifyDrainState(
    pciInfo: *mut nvmlPciInfo_t,
    newState: nvmlEnableState_t,
) -> nvmlReturn_t;

#[forbidden("a GPU that others may share is set by its server alone")]
fn nvmlDevicePowerSmoothingActivatePresetProfile(
    #[handle] device: nvmlDevice_t,
    profile: *mut nvmlPowerSmoothingProfile_t,
) -> nvmlReturn_t;

#[forbidden("a GPU that others may share is set by its server alone")]
fn nvmlDevicePowerSmoothingSetState(
    #[handle] device: nvmlDevice_t,
    state: *mut nvmlPowerSmoothingState_t,
) -> nvmlReturn_t;

#[forbidden("a GPU that others may share is set by its server alone")]
fn nvmlDevicePowerSmoothingUpdatePresetProfileParam(
    #[handle] device: nvmlDevice_t,
    profile: *mut nvmlPowerSmoothingProfile_t,
) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceQueryDrainState(
    pciInfo: *mut nvmlPciInfo_t,
    currentState: *mut nvmlEnableState_t,
) -> nvmlReturn_t;

#[forbidden("a GPU that others may share is set by its server alone")]
fn nvmlDeviceRemoveGpu(pciInfo: *mut nvmlPciInfo_t) -> nvmlReturn_t;

#[forbidden("a GPU that others may share is set by its server alone")]
fn nvmlDeviceRemoveGpu_v2(
    pciInfo: *mut nvmlPciInfo_t,
    gpuState: nvmlDetachGpuState_t,
    linkState: nvmlPcieLinkState_t,
) -> nvmlReturn_t;

#[forbidden("a GPU that others may share is set by its server alone")]
fn nvmlDeviceResetApplicationsClocks(#[handle] device: nvmlDevice_t) -> nvmlReturn_t;

#[forbidden("a GPU that others may share is set by its server alone")]
fn nvmlDeviceResetGpuLockedClocks(#[handle] device: nvmlDevice_t) -> nvmlReturn_t;

#[forbidden("a GPU that others may share is set by its server alone")]
fn nvmlDeviceResetMemoryLockedClocks(#[handle] device: nvmlDevice_t) -> nvmlReturn_t;

#[forbidden("a GPU that others may share is set by its server alone")]
fn nvmlDeviceSetAPIRestriction(
    #[handle] device: nvmlDevice_t,
    apiType: nvmlRestrictedAPI_t,
    isRestricted: nvmlEnableState_t,
) -> nvmlReturn_t;

#[forbidden("a GPU that others may share is set by its server alone")]
fn nvmlDeviceSetAdaptiveTgpMode_v1(
    #[handle] device: nvmlDevice_t,
    mode: nvmlEnableState_t,
) -> nvmlReturn_t;

#[forbidden("a GPU that others may share is set by its server alone")]
fn nvmlDeviceSetApplicationsClocks(
    #[handle] device: nvmlDevice_t,
    memClockMHz: u32,
    graphicsClockMHz: u32,
) -> nvmlReturn_t;

#[forbidden("a GPU that others may share is set by its server alone")]
fn nvmlDeviceSetAutoBoostedClocksEnabled(
    #[handle] device: nvmlDevice_t,
    enabled: nvmlEnableState_t,
) -> nvmlReturn_t;

#[forbidden("a GPU that others may share is set by its server alone")]
fn nvmlDeviceSetClockOffsets(
    #[handle] device: nvmlDevice_t,
    info: *mut nvmlClockOffset_t,
) -> nvmlReturn_t;

#[forbidden("a GPU that others may share is set by its server alone")]
fn nvmlDeviceSetComputeMode(
    #[handle] device: nvmlDevice_t,
    mode: nvmlComputeMode_t,
) -> nvmlReturn_t;

#[cx] #[is(anywhere(device))]
#[family(affinity)]
fn nvmlDeviceSetCpuAffinity(#[handle] device: nvmlDevice_t) -> nvmlReturn_t;

#[forbidden("a GPU that others may share is set by its server alone")]
fn nvmlDeviceSetDefaultAutoBoostedClocksEnabled(
    #[handle] device: nvmlDevice_t,
    enabled: nvmlEnableState_t,
    flags: u32,
) -> nvmlReturn_t;

#[forbidden("a GPU that others may share is set by its server alone")]
fn nvmlDeviceSetDefaultFanSpeed_v2(#[handle] device: nvmlDevice_t, fan: u32) -> nvmlReturn_t;

#[forbidden("a GPU that others may share is set by its server alone")]
fn nvmlDeviceSetDriverModel(
    #[handle] device: nvmlDevice_t,
    driverModel: nvmlDriverModel_t,
    flags: u32,
) -> nvmlReturn_t;

#[forbidden("a GPU that others may share is set by its server alone")]
fn nvmlDeviceSetEccMode(#[handle] device: nvmlDevice_t, ecc: nvmlEnableState_t) -> nvmlReturn_t;

#[forbidden("a GPU that others may share is set by its server alone")]
fn nvmlDeviceSetFanControlPolicy(
    #[handle] device: nvmlDevice_t,
    fan: u32,
    policy: nvmlFanControlPolicy_t,
) -> nvmlReturn_t;

#[forbidden("a GPU that others may share is set by its server alone")]
fn nvmlDeviceSetFanSpeed_v2(#[handle] device: nvmlDevice_t, fan: u32, speed: u32) -> nvmlReturn_t;

#[forbidden("a GPU that others may share is set by its server alone")]
fn nvmlDeviceSetGpcClkVfOffset(#[handle] device: nvmlDevice_t, offset: i32) -> nvmlReturn_t;

#[forbidden("a GPU that others may share is set by its server alone")]
fn nvmlDeviceSetGpuLockedClocks(
    #[handle] device: nvmlDevice_t,
    minGpuClockMHz: u32,
    maxGpuClockMHz: u32,
) -> nvmlReturn_t;

#[forbidden("a GPU that others may share is set by its server alone")]
fn nvmlDeviceSetGpuOperationMode(
    #[handle] device: nvmlDevice_t,
    mode: nvmlGpuOperationMode_t,
) -> nvmlReturn_t;

#[forbidden("a GPU that others may share is set by its server alone")]
fn nvmlDeviceSetHostname_v1(
    #[handle] device: nvmlDevice_t,
    hostname: *mut nvmlHostname_v1_t,
) -> nvmlReturn_t;

#[forbidden("a GPU that others may share is set by its server alone")]
fn nvmlDeviceSetMemClkVfOffset(#[handle] device: nvmlDevice_t, offset: i32) -> nvmlReturn_t;

#[forbidden("a GPU that others may share is set by its server alone")]
fn nvmlDeviceSetMemoryLimits_v1(
    #[handle] device: nvmlDevice_t,
    limits: *mut nvmlSetMemoryLimits_v1_t,
) -> nvmlReturn_t;

#[forbidden("a GPU that others may share is set by its server alone")]
fn nvmlDeviceSetMemoryLockedClocks(
    #[handle] device: nvmlDevice_t,
    minMemClockMHz: u32,
    maxMemClockMHz: u32,
) -> nvmlReturn_t;

#[forbidden("a GPU that others may share is set by its server alone")]
fn nvmlDeviceSetPersistenceMode(
    #[handle] device: nvmlDevice_t,
    mode: nvmlEnableState_t,
) -> nvmlReturn_t;

#[forbidden("a GPU that others may share is set by its server alone")]
fn nvmlDeviceSetPowerManagementLimit(#[handle] device: nvmlDevice_t, limit: u32) -> nvmlReturn_t;

#[forbidden("a GPU that others may share is set by its server alone")]
fn nvmlDeviceSetPowerManagementLimit_v2(
    #[handle] device: nvmlDevice_t,
    powerValue: *mut nvmlPowerValue_v2_t,
) -> nvmlReturn_t;

#[forbidden("a GPU that others may share is set by its server alone")]
fn nvmlDeviceSetPowerMizerMode_v1(
    #[handle] device: nvmlDevice_t,
    powerMizerMode: *mut nvmlDevicePowerMizerModes_v1_t,
) -> nvmlReturn_t;

#[forbidden("a GPU that others may share is set by its server alone")]
fn nvmlDeviceSetPowerMode(#[handle] device: nvmlDevice_t, powerModeId: u32) -> nvmlReturn_t;

#[forbidden("a GPU that others may share is set by its server alone")]
fn nvmlDeviceSetRusdSettings_v1(
    #[handle] device: nvmlDevice_t,
    settings: *mut nvmlRusdSettings_v1_t,
) -> nvmlReturn_t;

#[forbidden("a GPU that others may share is set by its server alone")]
fn nvmlDeviceSetTemperatureThreshold(
    #[handle] device: nvmlDevice_t,
    thresholdType: nvmlTemperatureThresholds_t,
    temp: *mut i32,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceValidateInforom(#[handle] device: nvmlDevice_t) -> nvmlReturn_t;

#[forbidden("a GPU that others may share is set by its server alone")]
fn nvmlDeviceWorkloadPowerProfileClearRequestedProfiles(
    #[handle] device: nvmlDevice_t,
    requestedProfiles: *mut nvmlWorkloadPowerProfileRequestedProfiles_t,
) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceWorkloadPowerProfileGetCurrentProfiles(
    device: nvmlDevice_t,
    currentProfiles: *mut nvmlWorkloadPowerProfileCurrentProfiles_t,
) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceWorkloadPowerProfileGetProfilesInfo(
    device: nvmlDevice_t,
    profilesInfo: *mut nvmlWorkloadPowerProfileProfilesInfo_t,
) -> nvmlReturn_t;

#[forbidden("a GPU that others may share is set by its server alone")]
fn nvmlDeviceWorkloadPowerProfileSetRequestedProfiles(
    #[handle] device: nvmlDevice_t,
    requestedProfiles: *mut nvmlWorkloadPowerProfileRequestedProfiles_t,
) -> nvmlReturn_t;

#[forbidden("a GPU that others may share is set by its server alone")]
fn nvmlDeviceWorkloadPowerProfileUpdateProfiles_v1(
    #[handle] device: nvmlDevice_t,
    updateProfiles: *mut nvmlWorkloadPowerProfileUpdateProfiles_v1_t,
) -> nvmlReturn_t;
