//! Device memory, page-locked host memory, and pointers.

#[unsupported("takes 32-bit addresses and sizes; superseded")] #[get_proc("cuMemAlloc", 2000)]
fn cuMemAlloc(dptr: *mut CUdeviceptr_v1, bytesize: u32) -> CUresult;

#[unsupported("takes 32-bit addresses and sizes; superseded")] #[get_proc("cuMemAllocHost", 2000)]
fn cuMemAllocHost(pp: *mut *mut c_void, bytesize: u32) -> CUresult;

#[is(cuMemHostAlloc(pp, bytesize, 0))] #[get_proc("cuMemAllocHost", 3020)]
fn cuMemAllocHost_v2(pp: *mut *mut c_void, bytesize: usize) -> CUresult;

#[unsupported("takes 32-bit addresses and sizes; superseded")] #[get_proc("cuMemAllocPitch", 2000)]
fn cuMemAllocPitch(
    dptr: *mut CUdeviceptr_v1,
    pPitch: *mut u32,
    WidthInBytes: u32,
    Height: u32,
    ElementSizeBytes: u32,
) -> CUresult;

#[custom] #[cx] #[disturbs] #[get_proc("cuMemAllocPitch", 3020)]
fn cuMemAllocPitch_v2(
    #[out] dptr: *mut CUdeviceptr,
    pPitch: *mut usize,
    WidthInBytes: usize,
    Height: usize,
    ElementSizeBytes: u32,
) -> CUresult;

#[cx] #[disturbs] #[is(engine::memory::alloc(bytesize))] #[get_proc("cuMemAlloc", 3020)]
fn cuMemAlloc_v2(#[out] dptr: *mut CUdeviceptr, bytesize: usize) -> CUresult;

#[unsupported("takes 32-bit addresses and sizes; superseded")] #[get_proc("cuMemFree", 2000)]
fn cuMemFree(dptr: CUdeviceptr_v1) -> CUresult;

#[custom] #[cx(local)] #[disturbs] #[get_proc("cuMemFreeHost", 2000)]
fn cuMemFreeHost(p: *mut c_void) -> CUresult;

#[custom] #[cx] #[disturbs] #[get_proc("cuMemFree", 3020)]
fn cuMemFree_v2(dptr: CUdeviceptr) -> CUresult;

#[unsupported("takes 32-bit addresses and sizes; superseded")]
#[get_proc("cuMemGetAddressRange", 2000)]
fn cuMemGetAddressRange(
    pbase: *mut CUdeviceptr_v1,
    psize: *mut u32,
    dptr: CUdeviceptr_v1,
) -> CUresult;

#[local] #[cx(local)] #[get_proc("cuMemGetAddressRange", 3020)]
fn cuMemGetAddressRange_v2(
    #[out(optional)] pbase: *mut CUdeviceptr,
    #[out(optional)] psize: *mut usize,
    dptr: CUdeviceptr,
) -> CUresult;

#[unsupported("undocumented and without a public signature")]
fn cuMemGetAttribute() -> CUresult;

#[unsupported("undocumented and without a public signature")]
fn cuMemGetAttribute_v2() -> CUresult;

#[unsupported("a dma-buf file descriptor cannot leave its machine")]
#[get_proc("cuMemGetHandleForAddressRange", 11070)]
fn cuMemGetHandleForAddressRange(
    handle: *mut c_void,
    dptr: CUdeviceptr,
    size: usize,
    handleType: CUmemRangeHandleType,
    flags: u64,
) -> CUresult;

#[unsupported("takes 32-bit addresses and sizes; superseded")] #[get_proc("cuMemGetInfo", 2000)]
fn cuMemGetInfo(free: *mut u32, total: *mut u32) -> CUresult;

#[id(0x0601)] #[waits] #[by_hand(worker)] #[get_proc("cuMemGetInfo", 3020)]
fn cuMemGetInfo_v2(
    #[out(optional)] free: *mut usize,
    #[out(optional)] total: *mut usize,
) -> CUresult;

#[custom] #[cx] #[disturbs] #[get_proc("cuMemHostAlloc", 2020)]
fn cuMemHostAlloc(#[out] pp: *mut *mut c_void, bytesize: usize, Flags: u32) -> CUresult;

#[unsupported("takes 32-bit addresses and sizes; superseded")]
#[get_proc("cuMemHostGetDevicePointer", 2020)]
fn cuMemHostGetDevicePointer(pdptr: *mut CUdeviceptr_v1, p: *mut c_void, Flags: u32) -> CUresult;

#[local] #[cx] #[get_proc("cuMemHostGetDevicePointer", 3020)]
fn cuMemHostGetDevicePointer_v2(pdptr: *mut CUdeviceptr, p: *mut c_void, Flags: u32) -> CUresult;

#[local] #[cx(local)] #[get_proc("cuMemHostGetFlags", 2030)]
fn cuMemHostGetFlags(#[out] pFlags: *mut u32, p: *mut c_void) -> CUresult;

#[is(cuMemHostRegister_v2)] #[get_proc("cuMemHostRegister", 4000)]
fn cuMemHostRegister(p: *mut c_void, bytesize: usize, Flags: u32) -> CUresult;

#[custom] #[cx(context)] #[disturbs] #[get_proc("cuMemHostRegister", 6050)]
fn cuMemHostRegister_v2(p: *mut c_void, bytesize: usize, Flags: u32) -> CUresult;

#[custom] #[cx(local)] #[disturbs] #[get_proc("cuMemHostUnregister", 4000)]
fn cuMemHostUnregister(p: *mut c_void) -> CUresult;

#[local] #[cx(local)] #[get_proc("cuPointerGetAttribute", 4000)]
fn cuPointerGetAttribute(
    data: *mut c_void,
    attribute: CUpointer_attribute,
    ptr: CUdeviceptr,
) -> CUresult;

#[local] #[cx(local)] #[get_proc("cuPointerGetAttributes", 7000)]
fn cuPointerGetAttributes(
    numAttributes: u32,
    attributes: *mut CUpointer_attribute,
    data: *mut *mut c_void,
    ptr: CUdeviceptr,
) -> CUresult;

#[local] #[cx] #[get_proc("cuPointerSetAttribute", 6000)]
fn cuPointerSetAttribute(
    value: *const c_void,
    attribute: CUpointer_attribute,
    ptr: CUdeviceptr,
) -> CUresult;
