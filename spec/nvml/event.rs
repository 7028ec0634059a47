//! Events.

#[unsupported("events of a GPU are not told to other machines")]
fn nvmlDeviceGetSupportedEventTypes(device: nvmlDevice_t, eventTypes: *mut u64) -> nvmlReturn_t;

#[unsupported("events of a GPU are not told to other machines")]
fn nvmlDeviceRegisterEvents(
    device: nvmlDevice_t,
    eventTypes: u64,
    set: nvmlEventSet_t,
) -> nvmlReturn_t;

#[unsupported("events of a GPU are not told to other machines")]
fn nvmlEventSetCreate(set: *mut nvmlEventSet_t) -> nvmlReturn_t;

#[unsupported("events of a GPU are not told to other machines")]
fn nvmlEventSetFree(set: nvmlEventSet_t) -> nvmlReturn_t;

#[unsupported("events of a GPU are not told to other machines")]
fn nvmlEventSetGetContextCount_v1(
    set: nvmlEventSet_t,
    params: *mut nvmlEventSetGetContextCount_v1_t,
) -> nvmlReturn_t;

#[unsupported("events of a GPU are not told to other machines")]
fn nvmlEventSetGetContextData_v1(
    set: nvmlEventSet_t,
    params: *mut nvmlEventSetGetContextData_v1_t,
) -> nvmlReturn_t;

#[unsupported("events of a GPU are not told to other machines")]
fn nvmlEventSetGetContextInfo_v1(
    set: nvmlEventSet_t,
    params: *mut nvmlEventSetGetContextInfo_v1_t,
) -> nvmlReturn_t;

#[unsupported("events of a GPU are not told to other machines")]
fn nvmlEventSetGetGpuOperationalEventContextLegacyXid_v1(
    set: nvmlEventSet_t,
    params: *mut nvmlEventSetGetGpuOperationalEventContextLegacyXid_v1_t,
) -> nvmlReturn_t;

#[unsupported("events of a GPU are not told to other machines")]
fn nvmlEventSetRegisterGpuOperationalEvents_v1(
    eventSet: nvmlEventSet_t,
    config: *const nvmlGpuOperationalEventConfig_v1_t,
) -> nvmlReturn_t;

#[unsupported("events of a GPU are not told to other machines")]
fn nvmlEventSetWait(
    set: nvmlEventSet_t,
    data: *mut nvmlEventData_t,
    timeoutms: u32,
) -> nvmlReturn_t;

#[unsupported("events of a GPU are not told to other machines")]
fn nvmlEventSetWait_v2(
    set: nvmlEventSet_t,
    data: *mut nvmlEventData_t,
    timeoutms: u32,
) -> nvmlReturn_t;

#[unsupported("events of a GPU are not told to other machines")]
fn nvmlEventSetWait_v3(set: nvmlEventSet_t, params: *mut nvmlEventSetWait_v3_t) -> nvmlReturn_t;

#[unsupported("events of a GPU are not told to other machines")]
fn nvmlSystemEventSetCreate(request: *mut nvmlSystemEventSetCreateRequest_t) -> nvmlReturn_t;

#[unsupported("events of a GPU are not told to other machines")]
fn nvmlSystemEventSetFree(request: *mut nvmlSystemEventSetFreeRequest_t) -> nvmlReturn_t;

#[unsupported("events of a GPU are not told to other machines")]
fn nvmlSystemEventSetWait(request: *mut nvmlSystemEventSetWaitRequest_t) -> nvmlReturn_t;

#[unsupported("events of a GPU are not told to other machines")]
fn nvmlSystemRegisterEvents(request: *mut nvmlSystemRegisterEventRequest_t) -> nvmlReturn_t;
