//! Memory pools and stream-ordered allocation.

#[cx] #[is(of_device(dev, 1))] #[get_proc("cuDeviceGetDefaultMemPool", 11020)]
fn cuDeviceGetDefaultMemPool(#[gives(one)] pool_out: *mut CUmemoryPool, dev: CUdevice) -> CUresult;

#[cx] #[is(of_device(dev, 0))] #[get_proc("cuDeviceGetMemPool", 11020)]
fn cuDeviceGetMemPool(#[gives(one)] pool: *mut CUmemoryPool, dev: CUdevice) -> CUresult;

#[id(0x0806)] #[waits] #[by_hand(client)] #[cx] #[get_proc("cuDeviceSetMemPool", 11020)]
#[changes(Device, dev, "memory pool")]
fn cuDeviceSetMemPool(dev: CUdevice, #[handle] pool: CUmemoryPool) -> CUresult;

#[cx] #[is(alloc(bytesize, None, hStream))] #[get_proc("cuMemAllocAsync", 11020)] #[per_thread("_ptsz")]
fn cuMemAllocAsync(
    #[out] dptr: *mut CUdeviceptr,
    bytesize: usize,
    #[handle] hStream: CUstream,
) -> CUresult;

#[cx] #[is(alloc(bytesize, Some(pool), hStream))] #[get_proc("cuMemAllocFromPoolAsync", 11020)] #[per_thread("_ptsz")]
fn cuMemAllocFromPoolAsync(
    #[out] dptr: *mut CUdeviceptr,
    bytesize: usize,
    pool: CUmemoryPool,
    #[handle] hStream: CUstream,
) -> CUresult;

#[custom] #[cx] #[get_proc("cuMemFreeAsync", 11020)] #[per_thread("_ptsz")]
fn cuMemFreeAsync(dptr: CUdeviceptr, #[handle] hStream: CUstream) -> CUresult;

#[cx] #[is(of_location(location, r#type, 1))] #[get_proc("cuMemGetDefaultMemPool", 13000)]
fn cuMemGetDefaultMemPool(
    #[gives(one)] pool_out: *mut CUmemoryPool,
    location: *mut CUmemLocation,
    r#type: CUmemAllocationType,
) -> CUresult;

#[cx] #[is(of_location(location, r#type, 0))] #[get_proc("cuMemGetMemPool", 13000)]
fn cuMemGetMemPool(
    #[gives(one)] pool: *mut CUmemoryPool,
    location: *mut CUmemLocation,
    r#type: CUmemAllocationType,
) -> CUresult;

#[custom] #[cx] #[disturbs] #[get_proc("cuMemPoolCreate", 11020)]
fn cuMemPoolCreate(
    #[new] pool: *mut CUmemoryPool,
    #[in_ref] poolProps: *const CUmemPoolProps,
) -> CUresult;

#[id(0x0801)] #[queued] #[by_hand(client)] #[cx] #[disturbs] #[get_proc("cuMemPoolDestroy", 11020)]
fn cuMemPoolDestroy(#[del] pool: CUmemoryPool) -> CUresult;

#[id(0x0807)] #[waits] #[by_hand(client)] #[cx] #[get_proc("cuMemPoolExportPointer", 11020)]
fn cuMemPoolExportPointer(
    #[out] shareData_out: *mut CUmemPoolPtrExportData,
    ptr: CUdeviceptr,
) -> CUresult;

#[custom] #[cx] #[get_proc("cuMemPoolExportToShareableHandle", 11020)]
fn cuMemPoolExportToShareableHandle(
    handle_out: *mut c_void,
    #[handle] pool: CUmemoryPool,
    handleType: CUmemAllocationHandleType,
    flags: u64,
) -> CUresult;

#[id(0x0803)] #[waits] #[by_hand(client)] #[cx] #[get_proc("cuMemPoolGetAccess", 11020)]
fn cuMemPoolGetAccess(
    #[out] flags: *mut CUmemAccess_flags,
    #[handle] memPool: CUmemoryPool,
    #[in_ref] location: *mut CUmemLocation,
) -> CUresult;

#[custom] #[cx] #[get_proc("cuMemPoolGetAttribute", 11020)]
fn cuMemPoolGetAttribute(
    #[handle] pool: CUmemoryPool,
    attr: CUmemPool_attribute,
    value: *mut c_void,
) -> CUresult;

#[custom] #[cx] #[get_proc("cuMemPoolImportFromShareableHandle", 11020)]
fn cuMemPoolImportFromShareableHandle(
    #[new] pool_out: *mut CUmemoryPool,
    handle: *mut c_void,
    handleType: CUmemAllocationHandleType,
    flags: u64,
) -> CUresult;

#[custom] #[cx] #[get_proc("cuMemPoolImportPointer", 11020)]
fn cuMemPoolImportPointer(
    #[out] ptr_out: *mut CUdeviceptr,
    #[handle] pool: CUmemoryPool,
    #[in_ref] shareData: *mut CUmemPoolPtrExportData,
) -> CUresult;

#[id(0x0804)] #[waits] #[by_hand(client)] #[cx] #[get_proc("cuMemPoolSetAccess", 11020)]
#[changes(MemoryPool, "access")]
fn cuMemPoolSetAccess(
    #[handle] pool: CUmemoryPool,
    #[in_array(count)] map: *const CUmemAccessDesc,
    count: usize,
) -> CUresult;

#[custom] #[cx] #[get_proc("cuMemPoolSetAttribute", 11020)]
fn cuMemPoolSetAttribute(
    #[handle] pool: CUmemoryPool,
    attr: CUmemPool_attribute,
    value: *mut c_void,
) -> CUresult;

#[id(0x0805)] #[waits] #[by_hand(client, worker)] #[cx] #[disturbs] #[get_proc("cuMemPoolTrimTo", 11020)]
fn cuMemPoolTrimTo(#[handle] pool: CUmemoryPool, minBytesToKeep: usize) -> CUresult;

#[custom] #[cx] #[get_proc("cuMemSetMemPool", 13000)]
fn cuMemSetMemPool(
    location: *mut CUmemLocation,
    r#type: CUmemAllocationType,
    #[handle] pool: CUmemoryPool,
) -> CUresult;
