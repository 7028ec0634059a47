//! Events.

#[asked]
fn nvmlDeviceGetSupportedEventTypes(
    #[handle] device: nvmlDevice_t,
    #[out] eventTypes: *mut u64,
) -> nvmlReturn_t;

#[local] #[cx]
fn nvmlDeviceRegisterEvents(
    #[handle] device: nvmlDevice_t,
    eventTypes: u64,
    set: nvmlEventSet_t,
) -> nvmlReturn_t;

#[local] #[cx]
fn nvmlEventSetCreate(#[out] set: *mut nvmlEventSet_t) -> nvmlReturn_t;

#[local] #[cx]
fn nvmlEventSetFree(set: nvmlEventSet_t) -> nvmlReturn_t;

#[unsupported("the server tells events without their context")]
fn nvmlEventSetGetContextCount_v1(
    set: nvmlEventSet_t,
    params: *mut nvmlEventSetGetContextCount_v1_t,
) -> nvmlReturn_t;

#[unsupported("the server tells events without their context")]
fn nvmlEventSetGetContextData_v1(
    set: nvmlEventSet_t,
    params: *mut nvmlEventSetGetContextData_v1_t,
) -> nvmlReturn_t;

#[unsupported("the server tells events without their context")]
fn nvmlEventSetGetContextInfo_v1(
    set: nvmlEventSet_t,
    params: *mut nvmlEventSetGetContextInfo_v1_t,
) -> nvmlReturn_t;

#[unsupported("the server tells events without their context")]
fn nvmlEventSetGetGpuOperationalEventContextLegacyXid_v1(
    set: nvmlEventSet_t,
    params: *mut nvmlEventSetGetGpuOperationalEventContextLegacyXid_v1_t,
) -> nvmlReturn_t;

#[unsupported("the server tells events without their context")]
fn nvmlEventSetRegisterGpuOperationalEvents_v1(
    eventSet: nvmlEventSet_t,
    config: *const nvmlGpuOperationalEventConfig_v1_t,
) -> nvmlReturn_t;

#[local] #[cx]
fn nvmlEventSetWait(
    set: nvmlEventSet_t,
    #[out] data: *mut nvmlEventDataOld_t,
    timeoutms: u32,
) -> nvmlReturn_t;

#[local] #[cx]
fn nvmlEventSetWait_v2(
    set: nvmlEventSet_t,
    #[out] data: *mut nvmlEventData_t,
    timeoutms: u32,
) -> nvmlReturn_t;

#[unsupported("the server tells events without their context")]
fn nvmlEventSetWait_v3(set: nvmlEventSet_t, params: *mut nvmlEventSetWait_v3_t) -> nvmlReturn_t;

#[local] #[cx]
fn nvmlSystemEventSetCreate(request: *mut nvmlSystemEventSetCreateRequest_t) -> nvmlReturn_t;

#[local] #[cx]
fn nvmlSystemEventSetFree(request: *mut nvmlSystemEventSetFreeRequest_t) -> nvmlReturn_t;

#[local] #[cx]
fn nvmlSystemEventSetWait(request: *mut nvmlSystemEventSetWaitRequest_t) -> nvmlReturn_t;

#[local] #[cx]
fn nvmlSystemRegisterEvents(request: *mut nvmlSystemRegisterEventRequest_t) -> nvmlReturn_t;
