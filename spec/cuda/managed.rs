//! Managed memory: hints, prefetch, attachment.

#[cx(context)] #[is(advise(devPtr, count, advice, || place_of(cx, device)))] #[disturbs] #[get_proc("cuMemAdvise", 8000)]
fn cuMemAdvise(
    devPtr: CUdeviceptr,
    count: usize,
    advice: CUmem_advise,
    device: CUdevice,
) -> CUresult;

#[cx(context)] #[is(advise(devPtr, count, advice, || advised_at(cx, &location)))] #[disturbs] #[get_proc("cuMemAdvise", 12020)]
fn cuMemAdvise_v2(
    devPtr: CUdeviceptr,
    count: usize,
    advice: CUmem_advise,
    location: CUmemLocation,
) -> CUresult;

#[custom] #[cx] #[disturbs] #[get_proc("cuMemAllocManaged", 6000)]
fn cuMemAllocManaged(#[out] dptr: *mut CUdeviceptr, bytesize: usize, flags: u32) -> CUresult;

#[is(cuMemPrefetchBatchAsync)] #[get_proc("cuMemDiscardAndPrefetchBatchAsync", 13000)] #[per_thread("_ptsz")]
fn cuMemDiscardAndPrefetchBatchAsync(
    dptrs: *mut CUdeviceptr,
    sizes: *mut usize,
    count: usize,
    prefetchLocs: *mut CUmemLocation,
    prefetchLocIdxs: *mut usize,
    numPrefetchLocs: usize,
    flags: u64,
    hStream: CUstream,
) -> CUresult;

#[local] #[cx] #[get_proc("cuMemDiscardBatchAsync", 13000)] #[per_thread("_ptsz")]
fn cuMemDiscardBatchAsync(
    dptrs: *mut CUdeviceptr,
    sizes: *mut usize,
    count: usize,
    flags: u64,
    hStream: CUstream,
) -> CUresult;

#[cx] #[is(prefetch(devPtr, count, place_of(cx, dstDevice)?, hStream))] #[get_proc("cuMemPrefetchAsync", 8000)] #[per_thread("_ptsz")]
fn cuMemPrefetchAsync(
    devPtr: CUdeviceptr,
    count: usize,
    dstDevice: CUdevice,
    #[handle] hStream: CUstream,
) -> CUresult;

#[custom] #[cx] #[get_proc("cuMemPrefetchAsync", 12020)] #[per_thread("_ptsz")]
fn cuMemPrefetchAsync_v2(
    devPtr: CUdeviceptr,
    count: usize,
    location: CUmemLocation,
    flags: u32,
    #[handle] hStream: CUstream,
) -> CUresult;

#[custom] #[cx] #[get_proc("cuMemPrefetchBatchAsync", 13000)] #[per_thread("_ptsz")]
fn cuMemPrefetchBatchAsync(
    dptrs: *mut CUdeviceptr,
    sizes: *mut usize,
    count: usize,
    prefetchLocs: *mut CUmemLocation,
    prefetchLocIdxs: *mut usize,
    numPrefetchLocs: usize,
    flags: u64,
    hStream: CUstream,
) -> CUresult;

#[cx(local)] #[is(range_attribute(data, dataSize, attribute, devPtr, count))] #[get_proc("cuMemRangeGetAttribute", 8000)]
fn cuMemRangeGetAttribute(
    data: *mut c_void,
    dataSize: usize,
    attribute: CUmem_range_attribute,
    devPtr: CUdeviceptr,
    count: usize,
) -> CUresult;

#[local] #[cx(local)] #[get_proc("cuMemRangeGetAttributes", 8000)]
fn cuMemRangeGetAttributes(
    data: *mut *mut c_void,
    dataSizes: *mut usize,
    attributes: *mut CUmem_range_attribute,
    numAttributes: usize,
    devPtr: CUdeviceptr,
    count: usize,
) -> CUresult;

#[local] #[cx(in_functions)] #[get_proc("cuStreamAttachMemAsync", 6000)] #[per_thread("_ptsz")]
fn cuStreamAttachMemAsync(
    #[handle] hStream: CUstream,
    dptr: CUdeviceptr,
    length: usize,
    flags: u32,
) -> CUresult;
