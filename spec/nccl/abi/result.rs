//! Result codes, with the texts of `ncclGetErrorString`.

pub type ncclResult_t = i32;
/// no error
pub const ncclSuccess: ncclResult_t = 0;
/// unhandled cuda error (run with NCCL_DEBUG=INFO for details)
pub const ncclUnhandledCudaError: ncclResult_t = 1;
/// unhandled system error (run with NCCL_DEBUG=INFO for details)
pub const ncclSystemError: ncclResult_t = 2;
/// internal error - please report this issue to the NCCL developers
pub const ncclInternalError: ncclResult_t = 3;
/// invalid argument (run with NCCL_DEBUG=WARN for details)
pub const ncclInvalidArgument: ncclResult_t = 4;
/// invalid usage (run with NCCL_DEBUG=WARN for details)
pub const ncclInvalidUsage: ncclResult_t = 5;
/// remote process exited or there was a network error
pub const ncclRemoteError: ncclResult_t = 6;
/// NCCL operation in progress
pub const ncclInProgress: ncclResult_t = 7;
