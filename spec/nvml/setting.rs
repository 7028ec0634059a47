//! Settings of a device.

#[cx] #[is(anywhere(device))]
#[family(affinity)]
fn nvmlDeviceClearCpuAffinity(#[handle] device: nvmlDevice_t) -> nvmlReturn_t;

#[unsupported("a GPU that others may share is set by its server alone")]
fn nvmlDeviceClearEccErrorCounts(
    device: nvmlDevice_t,
    counterType: nvmlEccCounterType_t,
) -> nvmlReturn_t;

#[unsupported("a GPU that others may share is set by its server alone")]
fn nvmlDeviceClearFieldValues(
    device: nvmlDevice_t,
    valuesCount: i32,
    values: *mut nvmlFieldValue_t,
) -> nvmlReturn_t;

#[unsupported("a GPU that others may share is set by its server alone")]
fn nvmlDeviceDiscoverGpus(pciInfo: *mut nvmlPciInfo_t) -> nvmlReturn_t;

#[unsupported("a GPU that others may share is set by its server alone")]
fn nvmlDeviceModifyDrainState(
    pciInfo: *mut nvmlPciInfo_t,
    newState: nvmlEnableState_t,
) -> nvmlReturn_t;

#[unsupported("a GPU that others may share is set by its server alone")]
fn nvmlDevicePowerSmoothingActivatePresetProfile(
    device: nvmlDevice_t,
    profile: *mut nvmlPowerSmoothingProfile_t,
) -> nvmlReturn_t;

#[unsupported("a GPU that others may share is set by its server alone")]
fn nvmlDevicePowerSmoothingSetState(
    device: nvmlDevice_t,
    state: *mut nvmlPowerSmoothingState_t,
) -> nvmlReturn_t;

#[unsupported("a GPU that others may share is set by its server alone")]
fn nvmlDevicePowerSmoothingUpdatePresetProfileParam(
    device: nvmlDevice_t,
    profile: *mut nvmlPowerSmoothingProfile_t,
) -> nvmlReturn_t;

#[unsupported("a GPU that others may share is set by its server alone")]
fn nvmlDeviceQueryDrainState(
    pciInfo: *mut nvmlPciInfo_t,
    currentState: *mut nvmlEnableState_t,
) -> nvmlReturn_t;

#[unsupported("a GPU that others may share is set by its server alone")]
fn nvmlDeviceRemoveGpu(pciInfo: *mut nvmlPciInfo_t) -> nvmlReturn_t;

#[unsupported("a GPU that others may share is set by its server alone")]
fn nvmlDeviceRemoveGpu_v2(
    pciInfo: *mut nvmlPciInfo_t,
    gpuState: nvmlDetachGpuState_t,
    linkState: nvmlPcieLinkState_t,
) -> nvmlReturn_t;

#[unsupported("a GPU that others may share is set by its server alone")]
fn nvmlDeviceResetApplicationsClocks(device: nvmlDevice_t) -> nvmlReturn_t;

#[unsupported("a GPU that others may share is set by its server alone")]
fn nvmlDeviceResetGpuLockedClocks(device: nvmlDevice_t) -> nvmlReturn_t;

#[unsupported("a GPU that others may share is set by its server alone")]
fn nvmlDeviceResetMemoryLockedClocks(device: nvmlDevice_t) -> nvmlReturn_t;

#[unsupported("a GPU that others may share is set by its server alone")]
fn nvmlDeviceSetAPIRestriction(
    device: nvmlDevice_t,
    apiType: nvmlRestrictedAPI_t,
    isRestricted: nvmlEnableState_t,
) -> nvmlReturn_t;

#[unsupported("a GPU that others may share is set by its server alone")]
fn nvmlDeviceSetAdaptiveTgpMode_v1(device: nvmlDevice_t, mode: nvmlEnableState_t) -> nvmlReturn_t;

#[unsupported("a GPU that others may share is set by its server alone")]
fn nvmlDeviceSetApplicationsClocks(
    device: nvmlDevice_t,
    memClockMHz: u32,
    graphicsClockMHz: u32,
) -> nvmlReturn_t;

#[unsupported("a GPU that others may share is set by its server alone")]
fn nvmlDeviceSetAutoBoostedClocksEnabled(
    device: nvmlDevice_t,
    enabled: nvmlEnableState_t,
) -> nvmlReturn_t;

#[unsupported("a GPU that others may share is set by its server alone")]
fn nvmlDeviceSetClockOffsets(device: nvmlDevice_t, info: *mut nvmlClockOffset_t) -> nvmlReturn_t;

#[unsupported("a GPU that others may share is set by its server alone")]
fn nvmlDeviceSetComputeMode(device: nvmlDevice_t, mode: nvmlComputeMode_t) -> nvmlReturn_t;

#[cx] #[is(anywhere(device))]
#[family(affinity)]
fn nvmlDeviceSetCpuAffinity(#[handle] device: nvmlDevice_t) -> nvmlReturn_t;

#[unsupported("a GPU that others may share is set by its server alone")]
fn nvmlDeviceSetDefaultAutoBoostedClocksEnabled(
    device: nvmlDevice_t,
    enabled: nvmlEnableState_t,
    flags: u32,
) -> nvmlReturn_t;

#[unsupported("a GPU that others may share is set by its server alone")]
fn nvmlDeviceSetDefaultFanSpeed_v2(device: nvmlDevice_t, fan: u32) -> nvmlReturn_t;

#[unsupported("a GPU that others may share is set by its server alone")]
fn nvmlDeviceSetDriverModel(
    device: nvmlDevice_t,
    driverModel: nvmlDriverModel_t,
    flags: u32,
) -> nvmlReturn_t;

#[unsupported("a GPU that others may share is set by its server alone")]
fn nvmlDeviceSetEccMode(device: nvmlDevice_t, ecc: nvmlEnableState_t) -> nvmlReturn_t;

#[unsupported("a GPU that others may share is set by its server alone")]
fn nvmlDeviceSetFanControlPolicy(
    device: nvmlDevice_t,
    fan: u32,
    policy: nvmlFanControlPolicy_t,
) -> nvmlReturn_t;

#[unsupported("a GPU that others may share is set by its server alone")]
fn nvmlDeviceSetFanSpeed_v2(device: nvmlDevice_t, fan: u32, speed: u32) -> nvmlReturn_t;

#[unsupported("a GPU that others may share is set by its server alone")]
fn nvmlDeviceSetGpcClkVfOffset(device: nvmlDevice_t, offset: i32) -> nvmlReturn_t;

#[unsupported("a GPU that others may share is set by its server alone")]
fn nvmlDeviceSetGpuLockedClocks(
    device: nvmlDevice_t,
    minGpuClockMHz: u32,
    maxGpuClockMHz: u32,
) -> nvmlReturn_t;

#[unsupported("a GPU that others may share is set by its server alone")]
fn nvmlDeviceSetGpuOperationMode(
    device: nvmlDevice_t,
    mode: nvmlGpuOperationMode_t,
) -> nvmlReturn_t;

#[unsupported("a GPU that others may share is set by its server alone")]
fn nvmlDeviceSetHostname_v1(device: nvmlDevice_t, hostname: *mut nvmlHostname_v1_t) -> nvmlReturn_t;

#[unsupported("a GPU that others may share is set by its server alone")]
fn nvmlDeviceSetMemClkVfOffset(device: nvmlDevice_t, offset: i32) -> nvmlReturn_t;

#[unsupported("a GPU that others may share is set by its server alone")]
fn nvmlDeviceSetMemoryLimits_v1(
    device: nvmlDevice_t,
    limits: *mut nvmlSetMemoryLimits_v1_t,
) -> nvmlReturn_t;

#[unsupported("a GPU that others may share is set by its server alone")]
fn nvmlDeviceSetMemoryLockedClocks(
    device: nvmlDevice_t,
    minMemClockMHz: u32,
    maxMemClockMHz: u32,
) -> nvmlReturn_t;

#[unsupported("a GPU that others may share is set by its server alone")]
fn nvmlDeviceSetPersistenceMode(device: nvmlDevice_t, mode: nvmlEnableState_t) -> nvmlReturn_t;

#[unsupported("a GPU that others may share is set by its server alone")]
fn nvmlDeviceSetPowerManagementLimit(device: nvmlDevice_t, limit: u32) -> nvmlReturn_t;

#[unsupported("a GPU that others may share is set by its server alone")]
fn nvmlDeviceSetPowerManagementLimit_v2(
    device: nvmlDevice_t,
    powerValue: *mut nvmlPowerValue_v2_t,
) -> nvmlReturn_t;

#[unsupported("a GPU that others may share is set by its server alone")]
fn nvmlDeviceSetPowerMizerMode_v1(
    device: nvmlDevice_t,
    powerMizerMode: *mut nvmlDevicePowerMizerModes_v1_t,
) -> nvmlReturn_t;

#[unsupported("a GPU that others may share is set by its server alone")]
fn nvmlDeviceSetPowerMode(device: nvmlDevice_t, powerModeId: u32) -> nvmlReturn_t;

#[unsupported("a GPU that others may share is set by its server alone")]
fn nvmlDeviceSetRusdSettings_v1(
    device: nvmlDevice_t,
    settings: *mut nvmlRusdSettings_v1_t,
) -> nvmlReturn_t;

#[unsupported("a GPU that others may share is set by its server alone")]
fn nvmlDeviceSetTemperatureThreshold(
    device: nvmlDevice_t,
    thresholdType: nvmlTemperatureThresholds_t,
    temp: *mut i32,
) -> nvmlReturn_t;

#[unsupported("a GPU that others may share is set by its server alone")]
fn nvmlDeviceValidateInforom(device: nvmlDevice_t) -> nvmlReturn_t;

#[unsupported("a GPU that others may share is set by its server alone")]
fn nvmlDeviceWorkloadPowerProfileClearRequestedProfiles(
    device: nvmlDevice_t,
    requestedProfiles: *mut nvmlWorkloadPowerProfileRequestedProfiles_t,
) -> nvmlReturn_t;

#[unsupported("a GPU that others may share is set by its server alone")]
fn nvmlDeviceWorkloadPowerProfileGetCurrentProfiles(
    device: nvmlDevice_t,
    currentProfiles: *mut nvmlWorkloadPowerProfileCurrentProfiles_t,
) -> nvmlReturn_t;

#[unsupported("a GPU that others may share is set by its server alone")]
fn nvmlDeviceWorkloadPowerProfileGetProfilesInfo(
    device: nvmlDevice_t,
    profilesInfo: *mut nvmlWorkloadPowerProfileProfilesInfo_t,
) -> nvmlReturn_t;

#[unsupported("a GPU that others may share is set by its server alone")]
fn nvmlDeviceWorkloadPowerProfileSetRequestedProfiles(
    device: nvmlDevice_t,
    requestedProfiles: *mut nvmlWorkloadPowerProfileRequestedProfiles_t,
) -> nvmlReturn_t;

#[unsupported("a GPU that others may share is set by its server alone")]
fn nvmlDeviceWorkloadPowerProfileUpdateProfiles_v1(
    device: nvmlDevice_t,
    updateProfiles: *mut nvmlWorkloadPowerProfileUpdateProfiles_v1_t,
) -> nvmlReturn_t;
