//! Communicators.

#[custom]
fn ncclGetUniqueId(uniqueId: *mut ncclUniqueId) -> ncclResult_t;

#[custom]
fn ncclCommInitRank(newcomm: *mut ncclComm_t, nranks: i32, commId: ncclUniqueId, rank: i32) -> ncclResult_t;

#[custom]
fn ncclCommInitRankConfig(newcomm: *mut ncclComm_t, nranks: i32, commId: ncclUniqueId, rank: i32, config: *mut ncclConfig_t) -> ncclResult_t;

#[custom]
fn ncclCommInitRankScalable(newcomm: *mut ncclComm_t, nranks: i32, myrank: i32, nId: i32, commIds: *mut ncclUniqueId, config: *mut ncclConfig_t) -> ncclResult_t;

#[custom]
fn ncclCommInitAll(comms: *mut ncclComm_t, ndev: i32, devlist: *const i32) -> ncclResult_t;

#[custom]
fn ncclCommSplit(comm: ncclComm_t, color: i32, key: i32, newcomm: *mut ncclComm_t, config: *mut ncclConfig_t) -> ncclResult_t;

#[custom]
fn ncclCommShrink(comm: ncclComm_t, excludeRanksList: *mut i32, excludeRanksCount: i32, newcomm: *mut ncclComm_t, config: *mut ncclConfig_t, shrinkFlags: i32) -> ncclResult_t;

#[custom]
fn ncclCommFinalize(comm: ncclComm_t) -> ncclResult_t;

#[custom]
fn ncclCommDestroy(comm: ncclComm_t) -> ncclResult_t;

#[custom]
fn ncclCommAbort(comm: ncclComm_t) -> ncclResult_t;

#[custom]
fn ncclCommRevoke(comm: ncclComm_t, revokeFlags: i32) -> ncclResult_t;

#[local]
fn ncclCommGetAsyncError(comm: ncclComm_t, asyncError: *mut ncclResult_t) -> ncclResult_t;

#[local]
fn ncclCommCount(comm: ncclComm_t, count: *mut i32) -> ncclResult_t;

#[local]
fn ncclCommCuDevice(comm: ncclComm_t, device: *mut i32) -> ncclResult_t;

#[local]
fn ncclCommUserRank(comm: ncclComm_t, rank: *mut i32) -> ncclResult_t;

#[custom]
fn ncclCommRegister(comm: ncclComm_t, buff: *mut c_void, size: usize, handle: *mut *mut c_void) -> ncclResult_t;

#[custom]
fn ncclCommDeregister(comm: ncclComm_t, handle: *mut c_void) -> ncclResult_t;

#[local]
fn ncclMemAlloc(ptr: *mut *mut c_void, size: usize) -> ncclResult_t;

#[local]
fn ncclMemFree(ptr: *mut c_void) -> ncclResult_t;


#[unsupported("the servers' NCCL may be older: what came after version 2.28 is not forwarded")]
fn ncclCommGetUniqueId(comm: ncclComm_t, uniqueId: *mut ncclUniqueId) -> ncclResult_t;

#[unsupported("the servers' NCCL may be older: what came after version 2.28 is not forwarded")]
fn ncclCommGrow(comm: ncclComm_t, nRanks: i32, uniqueId: *const ncclUniqueId, rank: i32, newcomm: *mut ncclComm_t, config: *mut ncclConfig_t) -> ncclResult_t;

#[unsupported("the servers' NCCL may be older: what came after version 2.28 is not forwarded")]
fn ncclCommMemStats(comm: ncclComm_t, stat: i32, value: *mut u64) -> ncclResult_t;

#[unsupported("the servers' NCCL may be older: what came after version 2.28 is not forwarded")]
fn ncclCommQueryProperties(comm: ncclComm_t, props: *mut ncclCommProperties_t) -> ncclResult_t;

#[unsupported("the servers' NCCL may be older: what came after version 2.28 is not forwarded")]
fn ncclCommSuspend(comm: ncclComm_t, flags: i32) -> ncclResult_t;

#[unsupported("the servers' NCCL may be older: what came after version 2.28 is not forwarded")]
fn ncclCommResume(comm: ncclComm_t) -> ncclResult_t;

#[unsupported("the servers' NCCL may be older: what came after version 2.28 is not forwarded")]
fn ncclSetEncryption(config: *const ncclEncryptionConfig_t) -> ncclResult_t;
