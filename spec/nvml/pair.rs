//! Two devices.

#[local] #[cx]
fn nvmlDeviceGetP2PStatus(
    #[handle] device1: nvmlDevice_t,
    #[handle] device2: nvmlDevice_t,
    p2pIndex: nvmlGpuP2PCapsIndex_t,
    #[out] p2pStatus: *mut nvmlGpuP2PStatus_t,
) -> nvmlReturn_t;

#[local] #[cx]
fn nvmlDeviceGetTopologyCommonAncestor(
    #[handle] device1: nvmlDevice_t,
    #[handle] device2: nvmlDevice_t,
    #[out] pathInfo: *mut nvmlGpuTopologyLevel_t,
) -> nvmlReturn_t;

#[local] #[cx]
fn nvmlDeviceGetTopologyNearestGpus(
    #[handle] device: nvmlDevice_t,
    level: nvmlGpuTopologyLevel_t,
    count: *mut u32,
    #[gives] deviceArray: *mut nvmlDevice_t,
) -> nvmlReturn_t;

#[local] #[cx]
fn nvmlDeviceOnSameBoard(
    #[handle] device1: nvmlDevice_t,
    #[handle] device2: nvmlDevice_t,
    #[out] onSameBoard: *mut i32,
) -> nvmlReturn_t;

#[local] #[cx]
fn nvmlSystemGetTopologyGpuSet(
    cpuNumber: u32,
    count: *mut u32,
    #[gives] deviceArray: *mut nvmlDevice_t,
) -> nvmlReturn_t;
