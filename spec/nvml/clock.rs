//! Clocks, power and temperature.

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetAdaptiveClockInfoStatus(
    device: nvmlDevice_t,
    adaptiveClockStatus: *mut u32,
) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetAdaptiveTgpModeInfo_v1(
    device: nvmlDevice_t,
    info: *mut nvmlAdaptiveTgpModeInfo_v1_t,
) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetApplicationsClock(
    device: nvmlDevice_t,
    clockType: nvmlClockType_t,
    clockMHz: *mut u32,
) -> nvmlReturn_t;

#[cx] #[is(fixed_two(device, [Number::AutoBoost, Number::AutoBoostDefault]))]
#[family(device)]
fn nvmlDeviceGetAutoBoostedClocksEnabled(
    #[handle] device: nvmlDevice_t,
    #[out] isEnabled: *mut nvmlEnableState_t,
    #[out] defaultIsEnabled: *mut nvmlEnableState_t,
) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetClkMonStatus(device: nvmlDevice_t, status: *mut nvmlClkMonStatus_t) -> nvmlReturn_t;

#[local] #[cx]
#[family(device)]
fn nvmlDeviceGetClock(
    #[handle] device: nvmlDevice_t,
    clockType: nvmlClockType_t,
    clockId: nvmlClockId_t,
    #[out] clockMHz: *mut u32,
) -> nvmlReturn_t;

#[local] #[cx]
#[family(device)]
fn nvmlDeviceGetClockInfo(
    #[handle] device: nvmlDevice_t,
    r#type: nvmlClockType_t,
    #[out] clock: *mut u32,
) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetClockOffsets(device: nvmlDevice_t, info: *mut nvmlClockOffset_t) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetCoolerInfo(device: nvmlDevice_t, coolerInfo: *mut nvmlCoolerInfo_t) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetCurrentClockFreqs(
    device: nvmlDevice_t,
    currentClockFreqs: *mut nvmlDeviceCurrentClockFreqs_t,
) -> nvmlReturn_t;

#[cx] #[is(live(device, Number::ClockReasons))]
#[family(device)]
fn nvmlDeviceGetCurrentClocksEventReasons(
    #[handle] device: nvmlDevice_t,
    #[out] clocksEventReasons: *mut u64,
) -> nvmlReturn_t;

#[cx] #[is(live(device, Number::ClockReasons))]
#[family(device)]
fn nvmlDeviceGetCurrentClocksThrottleReasons(
    #[handle] device: nvmlDevice_t,
    #[out] clocksThrottleReasons: *mut u64,
) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetDefaultApplicationsClock(
    device: nvmlDevice_t,
    clockType: nvmlClockType_t,
    clockMHz: *mut u32,
) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetDynamicPstatesInfo(
    device: nvmlDevice_t,
    pDynamicPstatesInfo: *mut nvmlGpuDynamicPstatesInfo_t,
) -> nvmlReturn_t;

#[cx] #[is(fixed(device, Number::PowerEnforcedLimit))]
#[family(device)]
fn nvmlDeviceGetEnforcedPowerLimit(
    #[handle] device: nvmlDevice_t,
    #[out] limit: *mut u32,
) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetFanControlPolicy_v2(
    device: nvmlDevice_t,
    fan: u32,
    policy: *mut nvmlFanControlPolicy_t,
) -> nvmlReturn_t;

#[cx] #[is(live(device, Number::Fan))]
#[family(device)]
fn nvmlDeviceGetFanSpeed(#[handle] device: nvmlDevice_t, #[out] speed: *mut u32) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetFanSpeedRPM(
    device: nvmlDevice_t,
    fanSpeed: *mut nvmlFanSpeedInfo_t,
) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetFanSpeed_v2(device: nvmlDevice_t, fan: u32, speed: *mut u32) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetGpcClkMinMaxVfOffset(
    device: nvmlDevice_t,
    minOffset: *mut i32,
    maxOffset: *mut i32,
) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetGpcClkVfOffset(device: nvmlDevice_t, offset: *mut i32) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetMarginTemperature(
    device: nvmlDevice_t,
    marginTempInfo: *mut nvmlMarginTemperature_t,
) -> nvmlReturn_t;

#[local] #[cx]
#[family(device)]
fn nvmlDeviceGetMaxClockInfo(
    #[handle] device: nvmlDevice_t,
    r#type: nvmlClockType_t,
    #[out] clock: *mut u32,
) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetMaxCustomerBoostClock(
    device: nvmlDevice_t,
    clockType: nvmlClockType_t,
    clockMHz: *mut u32,
) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetMemClkMinMaxVfOffset(
    device: nvmlDevice_t,
    minOffset: *mut i32,
    maxOffset: *mut i32,
) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetMemClkVfOffset(device: nvmlDevice_t, offset: *mut i32) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetMinMaxClockOfPState(
    device: nvmlDevice_t,
    r#type: nvmlClockType_t,
    pstate: nvmlPstates_t,
    minClockMHz: *mut u32,
    maxClockMHz: *mut u32,
) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetMinMaxFanSpeed(
    device: nvmlDevice_t,
    minSpeed: *mut u32,
    maxSpeed: *mut u32,
) -> nvmlReturn_t;

#[cx] #[is(fixed(device, Number::Fans))]
#[family(device)]
fn nvmlDeviceGetNumFans(#[handle] device: nvmlDevice_t, #[out] numFans: *mut u32) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetPerformanceModes(
    device: nvmlDevice_t,
    perfModes: *mut nvmlDevicePerfModes_t,
) -> nvmlReturn_t;

#[cx] #[is(live(device, Number::PerformanceState))]
#[family(device)]
fn nvmlDeviceGetPerformanceState(
    #[handle] device: nvmlDevice_t,
    #[out] pState: *mut nvmlPstates_t,
) -> nvmlReturn_t;

#[cx] #[is(fixed(device, Number::PowerDefaultLimit))]
#[family(device)]
fn nvmlDeviceGetPowerManagementDefaultLimit(
    #[handle] device: nvmlDevice_t,
    #[out] defaultLimit: *mut u32,
) -> nvmlReturn_t;

#[cx] #[is(fixed(device, Number::PowerLimit))]
#[family(device)]
fn nvmlDeviceGetPowerManagementLimit(
    #[handle] device: nvmlDevice_t,
    #[out] limit: *mut u32,
) -> nvmlReturn_t;

#[cx] #[is(fixed_two(device, [Number::PowerMinLimit, Number::PowerMaxLimit]))]
#[family(device)]
fn nvmlDeviceGetPowerManagementLimitConstraints(
    #[handle] device: nvmlDevice_t,
    #[out] minLimit: *mut u32,
    #[out] maxLimit: *mut u32,
) -> nvmlReturn_t;

#[cx] #[is(fixed(device, Number::PowerManagement))]
#[family(device)]
fn nvmlDeviceGetPowerManagementMode(
    #[handle] device: nvmlDevice_t,
    #[out] mode: *mut nvmlEnableState_t,
) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetPowerMizerMode_v1(
    device: nvmlDevice_t,
    powerMizerMode: *mut nvmlDevicePowerMizerModes_v1_t,
) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetPowerMode(device: nvmlDevice_t, powerModeId: *mut u32) -> nvmlReturn_t;

#[cx] #[is(live(device, Number::PowerSource))]
#[family(device)]
fn nvmlDeviceGetPowerSource(
    #[handle] device: nvmlDevice_t,
    #[out] powerSource: *mut nvmlPowerSource_t,
) -> nvmlReturn_t;

#[cx] #[is(live(device, Number::PerformanceState))]
#[family(device)]
fn nvmlDeviceGetPowerState(
    #[handle] device: nvmlDevice_t,
    #[out] pState: *mut nvmlPstates_t,
) -> nvmlReturn_t;

#[cx] #[is(live(device, Number::Power))]
#[family(device)]
fn nvmlDeviceGetPowerUsage(#[handle] device: nvmlDevice_t, #[out] power: *mut u32) -> nvmlReturn_t;

#[cx] #[is(fixed(device, Number::ClockReasonsKnown))]
#[family(device)]
fn nvmlDeviceGetSupportedClocksEventReasons(
    #[handle] device: nvmlDevice_t,
    #[out] supportedClocksEventReasons: *mut u64,
) -> nvmlReturn_t;

#[cx] #[is(fixed(device, Number::ClockReasonsKnown))]
#[family(device)]
fn nvmlDeviceGetSupportedClocksThrottleReasons(
    #[handle] device: nvmlDevice_t,
    #[out] supportedClocksThrottleReasons: *mut u64,
) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetSupportedGraphicsClocks(
    device: nvmlDevice_t,
    memoryClockMHz: u32,
    count: *mut u32,
    clocksMHz: *mut u32,
) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetSupportedMemoryClocks(
    device: nvmlDevice_t,
    count: *mut u32,
    clocksMHz: *mut u32,
) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetSupportedPerformanceStates(
    device: nvmlDevice_t,
    pstates: *mut nvmlPstates_t,
    size: u32,
) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetSupportedPowerModes(
    device: nvmlDevice_t,
    supportedPowerModes: *mut u32,
) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetTargetFanSpeed(
    device: nvmlDevice_t,
    fan: u32,
    targetSpeed: *mut u32,
) -> nvmlReturn_t;

#[local] #[cx]
#[family(device)]
fn nvmlDeviceGetTemperature(
    #[handle] device: nvmlDevice_t,
    sensorType: nvmlTemperatureSensors_t,
    #[out] temp: *mut u32,
) -> nvmlReturn_t;

#[local] #[cx]
#[family(device)]
fn nvmlDeviceGetTemperatureThreshold(
    #[handle] device: nvmlDevice_t,
    thresholdType: nvmlTemperatureThresholds_t,
    #[out] temp: *mut u32,
) -> nvmlReturn_t;

#[local] #[cx]
#[family(device)]
fn nvmlDeviceGetTemperatureV(
    #[handle] device: nvmlDevice_t,
    temperature: *mut nvmlTemperature_t,
) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetThermalSettings(
    device: nvmlDevice_t,
    sensorIndex: u32,
    pThermalSettings: *mut nvmlGpuThermalSettings_t,
) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetViolationStatus(
    device: nvmlDevice_t,
    perfPolicyType: nvmlPerfPolicyType_t,
    violTime: *mut nvmlViolationTime_t,
) -> nvmlReturn_t;
