//! Units: chassis of GPUs.

#[cx] #[is(none())]
#[family(system)]
fn nvmlUnitGetCount(#[out] unitCount: *mut u32) -> nvmlReturn_t;

#[unsupported("the server tells of no units")]
fn nvmlUnitGetDevices(
    unit: nvmlUnit_t,
    deviceCount: *mut u32,
    devices: *mut nvmlDevice_t,
) -> nvmlReturn_t;

#[unsupported("the server tells of no units")]
fn nvmlUnitGetFanSpeedInfo(unit: nvmlUnit_t, fanSpeeds: *mut nvmlUnitFanSpeeds_t) -> nvmlReturn_t;

#[unsupported("the server tells of no units")]
fn nvmlUnitGetHandleByIndex(index: u32, unit: *mut nvmlUnit_t) -> nvmlReturn_t;

#[unsupported("the server tells of no units")]
fn nvmlUnitGetLedState(unit: nvmlUnit_t, state: *mut nvmlLedState_t) -> nvmlReturn_t;

#[unsupported("the server tells of no units")]
fn nvmlUnitGetPsuInfo(unit: nvmlUnit_t, psu: *mut nvmlPSUInfo_t) -> nvmlReturn_t;

#[unsupported("the server tells of no units")]
fn nvmlUnitGetTemperature(unit: nvmlUnit_t, r#type: u32, temp: *mut u32) -> nvmlReturn_t;

#[unsupported("the server tells of no units")]
fn nvmlUnitGetUnitInfo(unit: nvmlUnit_t, info: *mut nvmlUnitInfo_t) -> nvmlReturn_t;

#[unsupported("the server tells of no units")]
fn nvmlUnitSetLedState(unit: nvmlUnit_t, color: nvmlLedColor_t) -> nvmlReturn_t;
