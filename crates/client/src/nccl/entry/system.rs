//! What concerns no communicator.

use crate::nccl::life::{guard, last_error, version};
use busbar_abi::nccl::*;
use std::ffi::{CStr, c_char};

pub unsafe fn ncclGetVersion(to: *mut i32) -> ncclResult_t {
    guard(|| {
        refuse_if(to.is_null(), ncclInvalidArgument)?;
        // SAFETY: the program's pointer.
        unsafe { to.write(version()) };
        Ok(())
    })
}

pub unsafe fn ncclGetErrorString(result: ncclResult_t) -> *const c_char {
    error_description(result).map_or(c"unknown result code".as_ptr(), CStr::as_ptr)
}

pub unsafe fn ncclGetLastError(_comm: ncclComm_t) -> *const c_char {
    last_error()
}

pub unsafe fn ncclResetDebugInit() -> ncclResult_t {
    ncclSuccess
}

pub unsafe fn ncclResetDebugInitInternal() -> ncclResult_t {
    ncclSuccess
}

/// The library's parameters are those of the servers: there are none to show.
pub unsafe fn ncclParamDumpAll() -> ncclResult_t {
    ncclSuccess
}
