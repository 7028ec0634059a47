//! Virtual memory management: reserve, create, map.

#[local] #[cx] #[get_proc("cuMemAddressFree", 10020)]
fn cuMemAddressFree(ptr: CUdeviceptr, size: usize) -> CUresult;

#[local] #[cx] #[get_proc("cuMemAddressReserve", 10020)]
fn cuMemAddressReserve(
    #[out] ptr: *mut CUdeviceptr,
    size: usize,
    alignment: usize,
    addr: CUdeviceptr,
    flags: u64,
) -> CUresult;

#[custom] #[cx] #[get_proc("cuMemCreate", 10020)]
fn cuMemCreate(
    #[new] handle: *mut CUmemGenericAllocationHandle,
    size: usize,
    #[in_ref] prop: *const CUmemAllocationProp,
    flags: u64,
) -> CUresult;

#[custom] #[cx] #[get_proc("cuMemExportToShareableHandle", 10020)]
fn cuMemExportToShareableHandle(
    shareableHandle: *mut c_void,
    #[handle] handle: CUmemGenericAllocationHandle,
    handleType: CUmemAllocationHandleType,
    flags: u64,
) -> CUresult;

#[custom] #[cx] #[get_proc("cuMemGetAccess", 10020)]
fn cuMemGetAccess(
    flags: *mut u64,
    #[in_ref] location: *const CUmemLocation,
    ptr: CUdeviceptr,
) -> CUresult;

#[custom] #[cx] #[get_proc("cuMemGetAllocationGranularity", 10020)]
fn cuMemGetAllocationGranularity(
    #[out] granularity: *mut usize,
    #[in_ref] prop: *const CUmemAllocationProp,
    option: CUmemAllocationGranularity_flags,
) -> CUresult;

#[local] #[cx] #[get_proc("cuMemGetAllocationPropertiesFromHandle", 10020)]
fn cuMemGetAllocationPropertiesFromHandle(
    #[out] prop: *mut CUmemAllocationProp,
    #[handle] handle: CUmemGenericAllocationHandle,
) -> CUresult;

#[custom] #[cx] #[get_proc("cuMemImportFromShareableHandle", 10020)]
fn cuMemImportFromShareableHandle(
    #[new] handle: *mut CUmemGenericAllocationHandle,
    osHandle: *mut c_void,
    shHandleType: CUmemAllocationHandleType,
) -> CUresult;

#[custom] #[cx] #[get_proc("cuMemMap", 10020)]
fn cuMemMap(
    ptr: CUdeviceptr,
    size: usize,
    offset: usize,
    #[handle] handle: CUmemGenericAllocationHandle,
    flags: u64,
) -> CUresult;

#[custom] #[cx] #[get_proc("cuMemMapArrayAsync", 11010)] #[per_thread("_ptsz")]
fn cuMemMapArrayAsync(
    mapInfoList: *mut CUarrayMapInfo,
    count: u32,
    #[handle] hStream: CUstream,
) -> CUresult;

#[custom] #[cx] #[get_proc("cuMemRelease", 10020)]
fn cuMemRelease(#[handle] handle: CUmemGenericAllocationHandle) -> CUresult;

#[local] #[cx] #[get_proc("cuMemRetainAllocationHandle", 11000)]
fn cuMemRetainAllocationHandle(
    #[gives(one)] handle: *mut CUmemGenericAllocationHandle,
    addr: *mut c_void,
) -> CUresult;

#[custom] #[cx] #[get_proc("cuMemSetAccess", 10020)]
fn cuMemSetAccess(
    ptr: CUdeviceptr,
    size: usize,
    desc: *const CUmemAccessDesc,
    count: usize,
) -> CUresult;

#[custom] #[cx] #[get_proc("cuMemUnmap", 10020)]
fn cuMemUnmap(ptr: CUdeviceptr, size: usize) -> CUresult;

#[unsupported("multicast objects are not offered, as their device attribute says")]
#[get_proc("cuMulticastAddDevice", 12010)]
fn cuMulticastAddDevice(mcHandle: CUmemGenericAllocationHandle, dev: CUdevice) -> CUresult;

#[unsupported("multicast objects are not offered, as their device attribute says")]
#[get_proc("cuMulticastBindAddr", 12010)]
fn cuMulticastBindAddr(
    mcHandle: CUmemGenericAllocationHandle,
    mcOffset: usize,
    memptr: CUdeviceptr,
    size: usize,
    flags: u64,
) -> CUresult;

#[unsupported("multicast objects are not offered, as their device attribute says")]
#[get_proc("cuMulticastBindMem", 12010)]
fn cuMulticastBindMem(
    mcHandle: CUmemGenericAllocationHandle,
    mcOffset: usize,
    memHandle: CUmemGenericAllocationHandle,
    memOffset: usize,
    size: usize,
    flags: u64,
) -> CUresult;

#[unsupported("multicast objects are not offered, as their device attribute says")]
#[get_proc("cuMulticastCreate", 12010)]
fn cuMulticastCreate(
    mcHandle: *mut CUmemGenericAllocationHandle,
    prop: *const CUmulticastObjectProp,
) -> CUresult;

#[unsupported("multicast objects are not offered, as their device attribute says")]
#[get_proc("cuMulticastGetGranularity", 12010)]
fn cuMulticastGetGranularity(
    granularity: *mut usize,
    prop: *const CUmulticastObjectProp,
    option: CUmulticastGranularity_flags,
) -> CUresult;

#[unsupported("multicast objects are not offered, as their device attribute says")]
#[get_proc("cuMulticastUnbind", 12010)]
fn cuMulticastUnbind(
    mcHandle: CUmemGenericAllocationHandle,
    dev: CUdevice,
    mcOffset: usize,
    size: usize,
) -> CUresult;
