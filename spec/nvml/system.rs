//! The library, the machine, and which devices there are.

#[local]
fn nvmlDeviceGetCount(deviceCount: *mut u32) -> nvmlReturn_t;

#[is(nvmlDeviceGetCount)]
fn nvmlDeviceGetCount_v2(deviceCount: *mut u32) -> nvmlReturn_t;

#[local]
fn nvmlDeviceGetHandleByIndex(index: u32, device: *mut nvmlDevice_t) -> nvmlReturn_t;

#[is(nvmlDeviceGetHandleByIndex)]
fn nvmlDeviceGetHandleByIndex_v2(index: u32, device: *mut nvmlDevice_t) -> nvmlReturn_t;

#[local]
fn nvmlDeviceGetHandleByPciBusId(
    pciBusId: *const c_char,
    device: *mut nvmlDevice_t,
) -> nvmlReturn_t;

#[is(nvmlDeviceGetHandleByPciBusId)]
fn nvmlDeviceGetHandleByPciBusId_v2(
    pciBusId: *const c_char,
    device: *mut nvmlDevice_t,
) -> nvmlReturn_t;

#[local]
fn nvmlDeviceGetHandleBySerial(serial: *const c_char, device: *mut nvmlDevice_t) -> nvmlReturn_t;

#[local]
fn nvmlDeviceGetHandleByUUID(uuid: *const c_char, device: *mut nvmlDevice_t) -> nvmlReturn_t;

#[local]
fn nvmlDeviceGetHandleByUUIDV(uuid: *const nvmlUUID_t, device: *mut nvmlDevice_t) -> nvmlReturn_t;

#[local]
fn nvmlErrorString(result: nvmlReturn_t) -> *const c_char;

#[is(none(deviceCount))]
fn nvmlGetBlacklistDeviceCount(deviceCount: *mut u32) -> nvmlReturn_t;

#[unsupported("the server does not tell this of itself")]
fn nvmlGetBlacklistDeviceInfoByIndex(
    index: u32,
    info: *mut nvmlExcludedDeviceInfo_t,
) -> nvmlReturn_t;

#[is(none(deviceCount))]
fn nvmlGetExcludedDeviceCount(deviceCount: *mut u32) -> nvmlReturn_t;

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

#[local]
fn nvmlSystemGetCudaDriverVersion(cudaDriverVersion: *mut i32) -> nvmlReturn_t;

#[is(nvmlSystemGetCudaDriverVersion)]
fn nvmlSystemGetCudaDriverVersion_v2(cudaDriverVersion: *mut i32) -> nvmlReturn_t;

#[unsupported("the server does not tell this of itself")]
fn nvmlSystemGetDriverBranch(
    branchInfo: *mut nvmlSystemDriverBranchInfo_t,
    length: u32,
) -> nvmlReturn_t;

#[local]
fn nvmlSystemGetDriverVersion(version: *mut c_char, length: u32) -> nvmlReturn_t;

#[unsupported("the server does not tell this of itself")]
fn nvmlSystemGetHicVersion(hwbcCount: *mut u32, hwbcEntries: *mut nvmlHwbcEntry_t) -> nvmlReturn_t;

#[local]
fn nvmlSystemGetNVMLVersion(version: *mut c_char, length: u32) -> nvmlReturn_t;
