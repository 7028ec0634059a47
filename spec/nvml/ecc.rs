//! Errors of memory.

#[unsupported("the server does not tell of memory errors")]
fn nvmlDeviceGetBankRemapperStatus_v1(
    device: nvmlDevice_t,
    pBankRemapperStatus: *mut nvmlEccBankRemapperStatus_v1_t,
) -> nvmlReturn_t;

#[cx] #[is(fixed(device, Number::EccDefault))]
#[family(device)]
fn nvmlDeviceGetDefaultEccMode(
    #[handle] device: nvmlDevice_t,
    #[out] defaultMode: *mut nvmlEnableState_t,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetDetailedEccErrors(
    #[handle] device: nvmlDevice_t,
    errorType: nvmlMemoryErrorType_t,
    counterType: nvmlEccCounterType_t,
    #[out] eccCounts: *mut nvmlEccErrorCounts_t,
) -> nvmlReturn_t;

#[cx] #[is(fixed_two(device, [Number::Ecc, Number::EccPending]))]
#[family(device)]
fn nvmlDeviceGetEccMode(
    #[handle] device: nvmlDevice_t,
    #[out] current: *mut nvmlEnableState_t,
    #[out] pending: *mut nvmlEnableState_t,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetMemoryErrorCounter(
    #[handle] device: nvmlDevice_t,
    errorType: nvmlMemoryErrorType_t,
    counterType: nvmlEccCounterType_t,
    locationType: nvmlMemoryLocation_t,
    #[out] count: *mut u64,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetRemappedRows(
    #[handle] device: nvmlDevice_t,
    #[out] corrRows: *mut u32,
    #[out] uncRows: *mut u32,
    #[out] isPending: *mut u32,
    #[out] failureOccurred: *mut u32,
) -> nvmlReturn_t;

#[unsupported("the server does not tell of memory errors")]
fn nvmlDeviceGetRemappedRows_v2(
    device: nvmlDevice_t,
    info: *mut nvmlRemappedRowsInfo_v2_t,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetRepairStatus(
    #[handle] device: nvmlDevice_t,
    #[versioned] repairStatus: *mut nvmlRepairStatus_t,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetRetiredPages(
    #[handle] device: nvmlDevice_t,
    cause: nvmlPageRetirementCause_t,
    #[out] pageCount: *mut u32,
    #[out_array(pageCount)] addresses: *mut u64,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetRetiredPagesPendingStatus(
    #[handle] device: nvmlDevice_t,
    #[out] isPending: *mut nvmlEnableState_t,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetRetiredPages_v2(
    #[handle] device: nvmlDevice_t,
    cause: nvmlPageRetirementCause_t,
    #[out] pageCount: *mut u32,
    #[out_array(pageCount)] addresses: *mut u64,
    #[out_array(pageCount)] timestamps: *mut u64,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetRowRemapperHistogram(
    #[handle] device: nvmlDevice_t,
    #[out] values: *mut nvmlRowRemapperHistogramValues_t,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetSramEccErrorStatus(
    #[handle] device: nvmlDevice_t,
    #[versioned] status: *mut nvmlEccSramErrorStatus_t,
) -> nvmlReturn_t;

#[unsupported("the server does not tell of memory errors")]
fn nvmlDeviceGetSramUniqueUncorrectedEccErrorCounts(
    device: nvmlDevice_t,
    errorCounts: *mut nvmlEccSramUniqueUncorrectedErrorCounts_t,
) -> nvmlReturn_t;

#[asked]
fn nvmlDeviceGetTotalEccErrors(
    #[handle] device: nvmlDevice_t,
    errorType: nvmlMemoryErrorType_t,
    counterType: nvmlEccCounterType_t,
    #[out] eccCounts: *mut u64,
) -> nvmlReturn_t;

#[unsupported("the server does not tell of memory errors")]
fn nvmlDeviceGetUnrepairableMemoryFlag_v1(
    device: nvmlDevice_t,
    unrepairableMemoryStatus: *mut nvmlUnrepairableMemoryStatus_v1_t,
) -> nvmlReturn_t;
