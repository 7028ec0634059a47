//! The library, the machine, and which devices there are.

#[local] #[cx]
fn nvmlDeviceGetCount(#[out] deviceCount: *mut u32) -> nvmlReturn_t;

#[is(nvmlDeviceGetCount)]
fn nvmlDeviceGetCount_v2(deviceCount: *mut u32) -> nvmlReturn_t;

#[local] #[cx]
fn nvmlDeviceGetHandleByIndex(index: u32, #[gives(one)] device: *mut nvmlDevice_t) -> nvmlReturn_t;

#[is(nvmlDeviceGetHandleByIndex)]
fn nvmlDeviceGetHandleByIndex_v2(index: u32, device: *mut nvmlDevice_t) -> nvmlReturn_t;

#[local] #[cx]
fn nvmlDeviceGetHandleByPciBusId(
    pciBusId: *const c_char,
    #[gives(one)] device: *mut nvmlDevice_t,
) -> nvmlReturn_t;

#[is(nvmlDeviceGetHandleByPciBusId)]
fn nvmlDeviceGetHandleByPciBusId_v2(
    pciBusId: *const c_char,
    device: *mut nvmlDevice_t,
) -> nvmlReturn_t;

#[local] #[cx]
fn nvmlDeviceGetHandleBySerial(
    serial: *const c_char,
    #[gives(one)] device: *mut nvmlDevice_t,
) -> nvmlReturn_t;

#[local] #[cx]
fn nvmlDeviceGetHandleByUUID(
    uuid: *const c_char,
    #[gives(one)] device: *mut nvmlDevice_t,
) -> nvmlReturn_t;

#[local] #[cx]
fn nvmlDeviceGetHandleByUUIDV(
    uuid: *const nvmlUUID_t,
    #[gives(one)] device: *mut nvmlDevice_t,
) -> nvmlReturn_t;

#[local]
fn nvmlErrorString(result: nvmlReturn_t) -> *const c_char;

#[cx] #[is(none())]
fn nvmlGetBlacklistDeviceCount(#[out] deviceCount: *mut u32) -> nvmlReturn_t;

#[unsupported("the server does not tell this of itself")]
fn nvmlGetBlacklistDeviceInfoByIndex(
    index: u32,
    info: *mut nvmlExcludedDeviceInfo_t,
) -> nvmlReturn_t;

#[cx] #[is(none())]
fn nvmlGetExcludedDeviceCount(#[out] deviceCount: *mut u32) -> nvmlReturn_t;

#[unsupported("the server does not tell this of itself")]
fn nvmlGetExcludedDeviceInfoByIndex(
    index: u32,
    info: *mut nvmlExcludedDeviceInfo_t,
) -> nvmlReturn_t;

#[is(init(0))]
fn nvmlInit() -> nvmlReturn_t;

#[is(init(flags))]
fn nvmlInitWithFlags(flags: u32) -> nvmlReturn_t;

#[is(init(0))]
fn nvmlInit_v2() -> nvmlReturn_t;

#[local]
fn nvmlInternalGetExportTable(
    ppExportTable: *mut *const c_void,
    pExportTableId: *const c_void,
) -> nvmlReturn_t;

#[local]
fn nvmlShutdown() -> nvmlReturn_t;

#[unsupported("the server does not tell this of itself")]
fn nvmlSystemGetCPER_v1(cper: *mut nvmlGetCPER_v1_t) -> nvmlReturn_t;

#[local] #[cx]
fn nvmlSystemGetCudaDriverVersion(#[out] cudaDriverVersion: *mut i32) -> nvmlReturn_t;

#[is(nvmlSystemGetCudaDriverVersion)]
fn nvmlSystemGetCudaDriverVersion_v2(cudaDriverVersion: *mut i32) -> nvmlReturn_t;

#[asked]
fn nvmlSystemGetDriverBranch(
    #[versioned] branchInfo: *mut nvmlSystemDriverBranchInfo_t,
    length: u32,
) -> nvmlReturn_t;

#[local] #[cx]
fn nvmlSystemGetDriverVersion(version: *mut c_char, length: u32) -> nvmlReturn_t;

#[unsupported("the server does not tell this of itself")]
fn nvmlSystemGetHicVersion(hwbcCount: *mut u32, hwbcEntries: *mut nvmlHwbcEntry_t) -> nvmlReturn_t;

#[local]
fn nvmlSystemGetNVMLVersion(version: *mut c_char, length: u32) -> nvmlReturn_t;
