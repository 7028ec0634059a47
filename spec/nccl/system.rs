//! What concerns no communicator.

#[local]
fn ncclGetVersion(version: *mut i32) -> ncclResult_t;

#[local]
fn ncclGetErrorString(result: ncclResult_t) -> *const c_char;

#[local]
fn ncclGetLastError(comm: ncclComm_t) -> *const c_char;

#[local]
fn ncclResetDebugInit();

#[local]
fn ncclResetDebugInitInternal();
