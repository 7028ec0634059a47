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

#[unsupported("the server does not tell of memory errors")]
fn nvmlDeviceGetDetailedEccErrors(
    device: nvmlDevice_t,
    errorType: nvmlMemoryErrorType_t,
    counterType: nvmlEccCounterType_t,
    eccCounts: *mut nvmlEccErrorCounts_t,
) -> nvmlReturn_t;

#[cx] #[is(fixed_two(device, [Number::Ecc, Number::EccPending]))]
#[family(device)]
fn nvmlDeviceGetEccMode(
    #[handle] device: nvmlDevice_t,
    #[out] current: *mut nvmlEnableState_t,
    #[out] pending: *mut nvmlEnableState_t,
) -> nvmlReturn_t;

#[unsupported("the server does not tell of memory errors")]
fn nvmlDeviceGetMemoryErrorCounter(
    device: nvmlDevice_t,
    errorType: nvmlMemoryErrorType_t,
    counterType: nvmlEccCounterType_t,
    locationType: nvmlMemoryLocation_t,
    count: *mut u64,
) -> nvmlReturn_t;

#[unsupported("the server does not tell of memory errors")]
fn nvmlDeviceGetRemappedRows(
    device: nvmlDevice_t,
    corrRows: *mut u32,
    uncRows: *mut u32,
    isPending: *mut u32,
    failureOccurred: *mut u32,
) -> nvmlReturn_t;

#[unsupported("the server does not tell of memory errors")]
fn nvmlDeviceGetRemappedRows_v2(
    device: nvmlDevice_t,
    info: *mut nvmlRemappedRowsInfo_v2_t,
) -> nvmlReturn_t;

#[unsupported("the server does not tell of memory errors")]
fn nvmlDeviceGetRepairStatus(
    device: nvmlDevice_t,
    repairStatus: *mut nvmlRepairStatus_t,
) -> nvmlReturn_t;

#[unsupported("the server does not tell of memory errors")]
fn nvmlDeviceGetRetiredPages(
    device: nvmlDevice_t,
    cause: nvmlPageRetirementCause_t,
    pageCount: *mut u32,
    addresses: *mut u64,
) -> nvmlReturn_t;

#[unsupported("the server does not tell of memory errors")]
fn nvmlDeviceGetRetiredPagesPendingStatus(
    device: nvmlDevice_t,
    isPending: *mut nvmlEnableState_t,
) -> nvmlReturn_t;

#[unsupported("the server does not tell of memory errors")]
fn nvmlDeviceGetRetiredPages_v2(
    device: nvmlDevice_t,
    cause: nvmlPageRetirementCause_t,
    pageCount: *mut u32,
    addresses: *mut u64,
    timestamps: *mut u64,
) -> nvmlReturn_t;

#[unsupported("the server does not tell of memory errors")]
fn nvmlDeviceGetRowRemapperHistogram(
    device: nvmlDevice_t,
    values: *mut nvmlRowRemapperHistogramValues_t,
) -> nvmlReturn_t;

#[unsupported("the server does not tell of memory errors")]
fn nvmlDeviceGetSramEccErrorStatus(
    device: nvmlDevice_t,
    status: *mut nvmlEccSramErrorStatus_t,
) -> nvmlReturn_t;

#[unsupported("the server does not tell of memory errors")]
fn nvmlDeviceGetSramUniqueUncorrectedEccErrorCounts(
    device: nvmlDevice_t,
    errorCounts: *mut nvmlEccSramUniqueUncorrectedErrorCounts_t,
) -> nvmlReturn_t;

#[unsupported("the server does not tell of memory errors")]
fn nvmlDeviceGetTotalEccErrors(
    device: nvmlDevice_t,
    errorType: nvmlMemoryErrorType_t,
    counterType: nvmlEccCounterType_t,
    eccCounts: *mut u64,
) -> nvmlReturn_t;

#[unsupported("the server does not tell of memory errors")]
fn nvmlDeviceGetUnrepairableMemoryFlag_v1(
    device: nvmlDevice_t,
    unrepairableMemoryStatus: *mut nvmlUnrepairableMemoryStatus_v1_t,
) -> nvmlReturn_t;
