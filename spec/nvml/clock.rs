//! Clocks, power and temperature.

#[asked]
fn nvmlDeviceGetAdaptiveClockInfoStatus(
    #[handle] device: nvmlDevice_t,
    #[out] adaptiveClockStatus: *mut u32,
) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetAdaptiveTgpModeInfo_v1(
    device: nvmlDevice_t,
    info: *mut nvmlAdaptiveTgpModeInfo_v1_t,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetApplicationsClock(
    #[handle] device: nvmlDevice_t,
    clockType: nvmlClockType_t,
    #[out] clockMHz: *mut u32,
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

#[asked]
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

#[asked]
fn nvmlDeviceGetClockOffsets(
    #[handle] device: nvmlDevice_t,
    #[versioned] info: *mut nvmlClockOffset_t,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetCoolerInfo(
    #[handle] device: nvmlDevice_t,
    #[versioned] coolerInfo: *mut nvmlCoolerInfo_t,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetCurrentClockFreqs(
    #[handle] device: nvmlDevice_t,
    #[versioned] currentClockFreqs: *mut nvmlDeviceCurrentClockFreqs_t,
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

#[asked]
fn nvmlDeviceGetDefaultApplicationsClock(
    #[handle] device: nvmlDevice_t,
    clockType: nvmlClockType_t,
    #[out] clockMHz: *mut u32,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetDynamicPstatesInfo(
    #[handle] device: nvmlDevice_t,
    #[out] pDynamicPstatesInfo: *mut nvmlGpuDynamicPstatesInfo_t,
) -> nvmlReturn_t;

#[cx] #[is(fixed(device, Number::PowerEnforcedLimit))]
#[family(device)]
fn nvmlDeviceGetEnforcedPowerLimit(
    #[handle] device: nvmlDevice_t,
    #[out] limit: *mut u32,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetFanControlPolicy_v2(
    #[handle] device: nvmlDevice_t,
    fan: u32,
    #[out] policy: *mut nvmlFanControlPolicy_t,
) -> nvmlReturn_t;

#[cx] #[is(live(device, Number::Fan))]
#[family(device)]
fn nvmlDeviceGetFanSpeed(#[handle] device: nvmlDevice_t, #[out] speed: *mut u32) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetFanSpeedRPM(
    #[handle] device: nvmlDevice_t,
    #[versioned] fanSpeed: *mut nvmlFanSpeedInfo_t,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetFanSpeed_v2(
    #[handle] device: nvmlDevice_t,
    fan: u32,
    #[out] speed: *mut u32,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetGpcClkMinMaxVfOffset(
    #[handle] device: nvmlDevice_t,
    #[out] minOffset: *mut i32,
    #[out] maxOffset: *mut i32,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetGpcClkVfOffset(
    #[handle] device: nvmlDevice_t,
    #[out] offset: *mut i32,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetMarginTemperature(
    #[handle] device: nvmlDevice_t,
    #[versioned] marginTempInfo: *mut nvmlMarginTemperature_t,
) -> nvmlReturn_t;

#[local] #[cx]
#[family(device)]
fn nvmlDeviceGetMaxClockInfo(
    #[handle] device: nvmlDevice_t,
    r#type: nvmlClockType_t,
    #[out] clock: *mut u32,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetMaxCustomerBoostClock(
    #[handle] device: nvmlDevice_t,
    clockType: nvmlClockType_t,
    #[out] clockMHz: *mut u32,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetMemClkMinMaxVfOffset(
    #[handle] device: nvmlDevice_t,
    #[out] minOffset: *mut i32,
    #[out] maxOffset: *mut i32,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetMemClkVfOffset(
    #[handle] device: nvmlDevice_t,
    #[out] offset: *mut i32,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetMinMaxClockOfPState(
    #[handle] device: nvmlDevice_t,
    r#type: nvmlClockType_t,
    pstate: nvmlPstates_t,
    #[out] minClockMHz: *mut u32,
    #[out] maxClockMHz: *mut u32,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetMinMaxFanSpeed(
    #[handle] device: nvmlDevice_t,
    #[out] minSpeed: *mut u32,
    #[out] maxSpeed: *mut u32,
) -> nvmlReturn_t;

#[cx] #[is(fixed(device, Number::Fans))]
#[family(device)]
fn nvmlDeviceGetNumFans(#[handle] device: nvmlDevice_t, #[out] numFans: *mut u32) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetPerformanceModes(
    #[handle] device: nvmlDevice_t,
    #[versioned] perfModes: *mut nvmlDevicePerfModes_t,
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

#[asked]
fn nvmlDeviceGetSupportedGraphicsClocks(
    #[handle] device: nvmlDevice_t,
    memoryClockMHz: u32,
    #[out] count: *mut u32,
    #[out_array(count)] clocksMHz: *mut u32,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetSupportedMemoryClocks(
    #[handle] device: nvmlDevice_t,
    #[out] count: *mut u32,
    #[out_array(count)] clocksMHz: *mut u32,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetSupportedPerformanceStates(
    #[handle] device: nvmlDevice_t,
    #[out_array(size)] pstates: *mut u8,
    size: u32,
) -> nvmlReturn_t;

#[unsupported("the server does not tell this reading")]
fn nvmlDeviceGetSupportedPowerModes(
    device: nvmlDevice_t,
    supportedPowerModes: *mut u32,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetTargetFanSpeed(
    #[handle] device: nvmlDevice_t,
    fan: u32,
    #[out] targetSpeed: *mut u32,
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

#[asked]
fn nvmlDeviceGetThermalSettings(
    #[handle] device: nvmlDevice_t,
    sensorIndex: u32,
    #[out] pThermalSettings: *mut nvmlGpuThermalSettings_t,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetViolationStatus(
    #[handle] device: nvmlDevice_t,
    perfPolicyType: nvmlPerfPolicyType_t,
    #[out] violTime: *mut nvmlViolationTime_t,
) -> nvmlReturn_t;
