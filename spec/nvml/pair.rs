//! Two devices.

#[local]
fn nvmlDeviceGetP2PStatus(
    device1: nvmlDevice_t,
    device2: nvmlDevice_t,
    p2pIndex: nvmlGpuP2PCapsIndex_t,
    p2pStatus: *mut nvmlGpuP2PStatus_t,
) -> nvmlReturn_t;

#[local]
fn nvmlDeviceGetTopologyCommonAncestor(
    device1: nvmlDevice_t,
    device2: nvmlDevice_t,
    pathInfo: *mut nvmlGpuTopologyLevel_t,
) -> nvmlReturn_t;

#[unsupported("the server does not tell this of its devices")]
fn nvmlDeviceGetTopologyNearestGpus(
    device: nvmlDevice_t,
    level: nvmlGpuTopologyLevel_t,
    count: *mut u32,
    deviceArray: *mut nvmlDevice_t,
) -> nvmlReturn_t;

#[local]
fn nvmlDeviceOnSameBoard(
    device1: nvmlDevice_t,
    device2: nvmlDevice_t,
    onSameBoard: *mut i32,
) -> nvmlReturn_t;

#[unsupported("the server does not tell this of its devices")]
fn nvmlSystemGetTopologyGpuSet(
    cpuNumber: u32,
    count: *mut u32,
    deviceArray: *mut nvmlDevice_t,
) -> nvmlReturn_t;
