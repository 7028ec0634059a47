//! Programs on a device, and what they used.

#[unsupported("the programs on a device run on several machines, where their process ids mean nothing")]
fn nvmlDeviceClearAccountingPids(device: nvmlDevice_t) -> nvmlReturn_t;

#[unsupported("the programs on a device run on several machines, where their process ids mean nothing")]
fn nvmlDeviceGetAccountingBufferSize(device: nvmlDevice_t, bufferSize: *mut u32) -> nvmlReturn_t;

#[unsupported("the programs on a device run on several machines, where their process ids mean nothing")]
fn nvmlDeviceGetAccountingMode(device: nvmlDevice_t, mode: *mut nvmlEnableState_t) -> nvmlReturn_t;

#[unsupported("the programs on a device run on several machines, where their process ids mean nothing")]
fn nvmlDeviceGetAccountingPids(
    device: nvmlDevice_t,
    count: *mut u32,
    pids: *mut u32,
) -> nvmlReturn_t;

#[unsupported("the programs on a device run on several machines, where their process ids mean nothing")]
fn nvmlDeviceGetAccountingStats(
    device: nvmlDevice_t,
    pid: u32,
    stats: *mut nvmlAccountingStats_t,
) -> nvmlReturn_t;

#[unsupported("the programs on a device run on several machines, where their process ids mean nothing")]
fn nvmlDeviceGetAccountingStats_v2(
    device: nvmlDevice_t,
    stats: *mut nvmlAccountingStats_v2_t,
) -> nvmlReturn_t;

#[cx] #[is(running(device, infoCount, infos.cast::<[u64; 2]>()))]
fn nvmlDeviceGetComputeRunningProcesses(
    #[handle] device: nvmlDevice_t,
    infoCount: *mut u32,
    infos: *mut nvmlProcessInfo_v1_t,
) -> nvmlReturn_t;

#[cx] #[is(running(device, infoCount, infos.cast::<[u64; 3]>()))]
fn nvmlDeviceGetComputeRunningProcesses_v2(
    #[handle] device: nvmlDevice_t,
    infoCount: *mut u32,
    infos: *mut nvmlProcessInfo_v2_t,
) -> nvmlReturn_t;

#[cx] #[is(running(device, infoCount, infos.cast::<[u64; 3]>()))]
fn nvmlDeviceGetComputeRunningProcesses_v3(
    #[handle] device: nvmlDevice_t,
    infoCount: *mut u32,
    infos: *mut nvmlProcessInfo_t,
) -> nvmlReturn_t;

#[cx] #[is(none_of(device))]
#[family(device)]
fn nvmlDeviceGetGraphicsRunningProcesses(
    #[handle] device: nvmlDevice_t,
    #[out] infoCount: *mut u32,
    infos: *mut nvmlProcessInfo_v1_t,
) -> nvmlReturn_t;

#[cx] #[is(none_of(device))]
#[family(device)]
fn nvmlDeviceGetGraphicsRunningProcesses_v2(
    #[handle] device: nvmlDevice_t,
    #[out] infoCount: *mut u32,
    infos: *mut nvmlProcessInfo_v2_t,
) -> nvmlReturn_t;

#[cx] #[is(none_of(device))]
#[family(device)]
fn nvmlDeviceGetGraphicsRunningProcesses_v3(
    #[handle] device: nvmlDevice_t,
    #[out] infoCount: *mut u32,
    infos: *mut nvmlProcessInfo_t,
) -> nvmlReturn_t;

#[cx] #[is(none_of(device))]
#[family(device)]
fn nvmlDeviceGetMPSComputeRunningProcesses(
    #[handle] device: nvmlDevice_t,
    #[out] infoCount: *mut u32,
    infos: *mut nvmlProcessInfo_v1_t,
) -> nvmlReturn_t;

#[cx] #[is(none_of(device))]
#[family(device)]
fn nvmlDeviceGetMPSComputeRunningProcesses_v2(
    #[handle] device: nvmlDevice_t,
    #[out] infoCount: *mut u32,
    infos: *mut nvmlProcessInfo_v2_t,
) -> nvmlReturn_t;

#[cx] #[is(none_of(device))]
#[family(device)]
fn nvmlDeviceGetMPSComputeRunningProcesses_v3(
    #[handle] device: nvmlDevice_t,
    #[out] infoCount: *mut u32,
    infos: *mut nvmlProcessInfo_t,
) -> nvmlReturn_t;

#[unsupported("the programs on a device run on several machines, where their process ids mean nothing")]
fn nvmlDeviceGetProcessUtilization(
    device: nvmlDevice_t,
    utilization: *mut nvmlProcessUtilizationSample_t,
    processSamplesCount: *mut u32,
    lastSeenTimeStamp: u64,
) -> nvmlReturn_t;

#[unsupported("the programs on a device run on several machines, where their process ids mean nothing")]
fn nvmlDeviceGetProcessesUtilizationInfo(
    device: nvmlDevice_t,
    procesesUtilInfo: *mut nvmlProcessesUtilizationInfo_t,
) -> nvmlReturn_t;

#[unsupported("the programs on a device run on several machines, where their process ids mean nothing")]
fn nvmlDeviceGetRunningProcessDetailList(
    device: nvmlDevice_t,
    plist: *mut nvmlProcessDetailList_t,
) -> nvmlReturn_t;

#[unsupported("the programs on a device run on several machines, where their process ids mean nothing")]
fn nvmlDeviceSetAccountingMode(device: nvmlDevice_t, mode: nvmlEnableState_t) -> nvmlReturn_t;

#[local] #[cx]
fn nvmlSystemGetProcessName(pid: u32, name: *mut c_char, length: u32) -> nvmlReturn_t;
