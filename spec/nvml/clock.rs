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

#[is(fixed_two(device, [Number::AutoBoost, Number::AutoBoostDefault], isEnabled, defaultIsEnabled))]
#[family(device)]
fn nvmlDeviceGetAutoBoostedClocksEnabled(
    device: nvmlDevice_t,
    isEnabled: *mut nvmlEnableState_t,
    defaultIsEnabled: *mut nvmlEnableState_t,
) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetClkMonStatus(device: nvmlDevice_t, status: *mut nvmlClkMonStatus_t) -> nvmlReturn_t;

#[local]
#[family(device)]
fn nvmlDeviceGetClock(
    device: nvmlDevice_t,
    clockType: nvmlClockType_t,
    clockId: nvmlClockId_t,
    clockMHz: *mut u32,
) -> nvmlReturn_t;

#[local]
#[family(device)]
fn nvmlDeviceGetClockInfo(
    device: nvmlDevice_t,
    r#type: nvmlClockType_t,
    clock: *mut u32,
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

#[is(live(device, Number::ClockReasons, clocksEventReasons))]
#[family(device)]
fn nvmlDeviceGetCurrentClocksEventReasons(
    device: nvmlDevice_t,
    clocksEventReasons: *mut u64,
) -> nvmlReturn_t;

#[is(live(device, Number::ClockReasons, clocksThrottleReasons))]
#[family(device)]
fn nvmlDeviceGetCurrentClocksThrottleReasons(
    device: nvmlDevice_t,
    clocksThrottleReasons: *mut u64,
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

#[is(fixed(device, Number::PowerEnforcedLimit, limit))]
#[family(device)]
fn nvmlDeviceGetEnforcedPowerLimit(device: nvmlDevice_t, limit: *mut u32) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetFanControlPolicy_v2(
    device: nvmlDevice_t,
    fan: u32,
    policy: *mut nvmlFanControlPolicy_t,
) -> nvmlReturn_t;

#[is(live(device, Number::Fan, speed))]
#[family(device)]
fn nvmlDeviceGetFanSpeed(device: nvmlDevice_t, speed: *mut u32) -> nvmlReturn_t;

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

#[local]
#[family(device)]
fn nvmlDeviceGetMaxClockInfo(
    device: nvmlDevice_t,
    r#type: nvmlClockType_t,
    clock: *mut u32,
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

#[is(fixed(device, Number::Fans, numFans))]
#[family(device)]
fn nvmlDeviceGetNumFans(device: nvmlDevice_t, numFans: *mut u32) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetPerformanceModes(
    device: nvmlDevice_t,
    perfModes: *mut nvmlDevicePerfModes_t,
) -> nvmlReturn_t;

#[is(live(device, Number::PerformanceState, pState))]
#[family(device)]
fn nvmlDeviceGetPerformanceState(device: nvmlDevice_t, pState: *mut nvmlPstates_t) -> nvmlReturn_t;

#[is(fixed(device, Number::PowerDefaultLimit, defaultLimit))]
#[family(device)]
fn nvmlDeviceGetPowerManagementDefaultLimit(
    device: nvmlDevice_t,
    defaultLimit: *mut u32,
) -> nvmlReturn_t;

#[is(fixed(device, Number::PowerLimit, limit))]
#[family(device)]
fn nvmlDeviceGetPowerManagementLimit(device: nvmlDevice_t, limit: *mut u32) -> nvmlReturn_t;

#[is(fixed_two(device, [Number::PowerMinLimit, Number::PowerMaxLimit], minLimit, maxLimit))]
#[family(device)]
fn nvmlDeviceGetPowerManagementLimitConstraints(
    device: nvmlDevice_t,
    minLimit: *mut u32,
    maxLimit: *mut u32,
) -> nvmlReturn_t;

#[is(fixed(device, Number::PowerManagement, mode))]
#[family(device)]
fn nvmlDeviceGetPowerManagementMode(
    device: nvmlDevice_t,
    mode: *mut nvmlEnableState_t,
) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetPowerMizerMode_v1(
    device: nvmlDevice_t,
    powerMizerMode: *mut nvmlDevicePowerMizerModes_v1_t,
) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetPowerMode(device: nvmlDevice_t, powerModeId: *mut u32) -> nvmlReturn_t;

#[is(live(device, Number::PowerSource, powerSource))]
#[family(device)]
fn nvmlDeviceGetPowerSource(
    device: nvmlDevice_t,
    powerSource: *mut nvmlPowerSource_t,
) -> nvmlReturn_t;

#[is(live(device, Number::PerformanceState, pState))]
#[family(device)]
fn nvmlDeviceGetPowerState(device: nvmlDevice_t, pState: *mut nvmlPstates_t) -> nvmlReturn_t;

#[is(live(device, Number::Power, power))]
#[family(device)]
fn nvmlDeviceGetPowerUsage(device: nvmlDevice_t, power: *mut u32) -> nvmlReturn_t;

#[is(fixed(device, Number::ClockReasonsKnown, supportedClocksEventReasons))]
#[family(device)]
fn nvmlDeviceGetSupportedClocksEventReasons(
    device: nvmlDevice_t,
    supportedClocksEventReasons: *mut u64,
) -> nvmlReturn_t;

#[is(fixed(device, Number::ClockReasonsKnown, supportedClocksThrottleReasons))]
#[family(device)]
fn nvmlDeviceGetSupportedClocksThrottleReasons(
    device: nvmlDevice_t,
    supportedClocksThrottleReasons: *mut u64,
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

#[local]
#[family(device)]
fn nvmlDeviceGetTemperature(
    device: nvmlDevice_t,
    sensorType: nvmlTemperatureSensors_t,
    temp: *mut u32,
) -> nvmlReturn_t;

#[local]
#[family(device)]
fn nvmlDeviceGetTemperatureThreshold(
    device: nvmlDevice_t,
    thresholdType: nvmlTemperatureThresholds_t,
    temp: *mut u32,
) -> nvmlReturn_t;

#[local]
#[family(device)]
fn nvmlDeviceGetTemperatureV(
    device: nvmlDevice_t,
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
