//! Library: initialization, versions, error texts and entry points.

#[local] #[get_proc("cuDriverGetVersion", 2020)]
fn cuDriverGetVersion(driverVersion: *mut i32) -> CUresult;

#[local] #[get_proc("cuGetErrorName", 6000)]
fn cuGetErrorName(error: CUresult, pStr: *mut *const c_char) -> CUresult;

#[local] #[get_proc("cuGetErrorString", 6000)]
fn cuGetErrorString(error: CUresult, pStr: *mut *const c_char) -> CUresult;

#[local] #[get_proc("cuGetProcAddress", 11030)]
fn cuGetProcAddress(
    symbol: *const c_char,
    pfn: *mut *mut c_void,
    cudaVersion: i32,
    flags: u64,
) -> CUresult;

#[local] #[get_proc("cuGetProcAddress", 12000)]
fn cuGetProcAddress_v2(
    symbol: *const c_char,
    pfn: *mut *mut c_void,
    cudaVersion: i32,
    flags: u64,
    symbolStatus: *mut CUdriverProcAddressQueryResult,
) -> CUresult;

#[local] #[get_proc("cuInit", 2000)]
fn cuInit(Flags: u32) -> CUresult;
