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

#[unsupported("the library's parameters are those of the servers")]
fn ncclParamBind(out: *mut ncclParamHandle_t, key: *const c_char) -> ncclResult_t;

#[unsupported("the library's parameters are those of the servers")]
fn ncclParamGet(h: ncclParamHandle_t, out: *mut c_void, maxLen: i32, len: *mut i32) -> ncclResult_t;

#[unsupported("the library's parameters are those of the servers")]
fn ncclParamGetAllParameterKeys(table: *mut *mut *const c_char, tableLen: *mut i32) -> ncclResult_t;

#[unsupported("the library's parameters are those of the servers")]
fn ncclParamGetParameter(key: *const c_char, value: *mut *const c_char, valueLen: *mut i32) -> ncclResult_t;

#[unsupported("the library's parameters are those of the servers")]
fn ncclParamGetStr(h: ncclParamHandle_t, out: *mut *const c_char) -> ncclResult_t;

#[unsupported("the library's parameters are those of the servers")]
fn ncclParamGetI8(h: ncclParamHandle_t, out: *mut i8) -> ncclResult_t;

#[unsupported("the library's parameters are those of the servers")]
fn ncclParamGetU8(h: ncclParamHandle_t, out: *mut u8) -> ncclResult_t;

#[unsupported("the library's parameters are those of the servers")]
fn ncclParamGetI16(h: ncclParamHandle_t, out: *mut i16) -> ncclResult_t;

#[unsupported("the library's parameters are those of the servers")]
fn ncclParamGetU16(h: ncclParamHandle_t, out: *mut u16) -> ncclResult_t;

#[unsupported("the library's parameters are those of the servers")]
fn ncclParamGetI32(h: ncclParamHandle_t, out: *mut i32) -> ncclResult_t;

#[unsupported("the library's parameters are those of the servers")]
fn ncclParamGetU32(h: ncclParamHandle_t, out: *mut u32) -> ncclResult_t;

#[unsupported("the library's parameters are those of the servers")]
fn ncclParamGetI64(h: ncclParamHandle_t, out: *mut i64) -> ncclResult_t;

#[unsupported("the library's parameters are those of the servers")]
fn ncclParamGetU64(h: ncclParamHandle_t, out: *mut u64) -> ncclResult_t;

#[local]
fn ncclParamDumpAll();
