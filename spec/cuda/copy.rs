//! Copies.

#[unsupported("decompression engines are not offered, as their device attributes say")]
#[get_proc("cuMemBatchDecompressAsync", 12060)] #[per_thread("_ptsz")]
fn cuMemBatchDecompressAsync(
    paramsArray: *mut CUmemDecompressParams,
    count: usize,
    flags: u32,
    errorIndex: *mut usize,
    stream: CUstream,
) -> CUresult;

#[cx] #[is(engine::copy::any(dst, src, ByteCount, cx.stream(null, per_thread)?, false))] #[get_proc("cuMemcpy", 4000)] #[per_thread("_ptds")]
fn cuMemcpy(dst: CUdeviceptr, src: CUdeviceptr, ByteCount: usize) -> CUresult;

#[unsupported("takes 32-bit addresses and sizes; superseded")] #[get_proc("cuMemcpy2D", 2000)]
fn cuMemcpy2D(pCopy: *const CUDA_MEMCPY2D_v1) -> CUresult;

#[unsupported("takes 32-bit addresses and sizes; superseded")] #[get_proc("cuMemcpy2DAsync", 2000)]
fn cuMemcpy2DAsync(pCopy: *const CUDA_MEMCPY2D_v1, hStream: CUstream) -> CUresult;

#[cx(context)] #[is(engine::copy_rows::copy_box(from_2d(pCopy), hStream, false, true))] #[get_proc("cuMemcpy2DAsync", 3020)] #[per_thread("_ptsz")]
fn cuMemcpy2DAsync_v2(
    #[in_ref] pCopy: *const CUDA_MEMCPY2D,
    #[handle] hStream: CUstream,
) -> CUresult;

#[unsupported("takes 32-bit addresses and sizes; superseded")]
#[get_proc("cuMemcpy2DUnaligned", 2000)]
fn cuMemcpy2DUnaligned(pCopy: *const CUDA_MEMCPY2D_v1) -> CUresult;

#[is(cuMemcpy2D_v2)] #[get_proc("cuMemcpy2DUnaligned", 3020)] #[per_thread("_ptds")]
fn cuMemcpy2DUnaligned_v2(pCopy: *const CUDA_MEMCPY2D) -> CUresult;

#[cx(context)] #[is(engine::copy_rows::copy_box(from_2d(pCopy), cx.stream(null, per_thread)?, false, false))] #[get_proc("cuMemcpy2D", 3020)] #[per_thread("_ptds")]
fn cuMemcpy2D_v2(#[in_ref] pCopy: *const CUDA_MEMCPY2D) -> CUresult;

#[unsupported("takes 32-bit addresses and sizes; superseded")] #[get_proc("cuMemcpy3D", 2000)]
fn cuMemcpy3D(pCopy: *const CUDA_MEMCPY3D_v1) -> CUresult;

#[unsupported("takes 32-bit addresses and sizes; superseded")] #[get_proc("cuMemcpy3DAsync", 2000)]
fn cuMemcpy3DAsync(pCopy: *const CUDA_MEMCPY3D_v1, hStream: CUstream) -> CUresult;

#[cx(context)] #[is(engine::copy_rows::copy_box(rows_of(pCopy), hStream, false, true))] #[get_proc("cuMemcpy3DAsync", 3020)] #[per_thread("_ptsz")]
fn cuMemcpy3DAsync_v2(
    #[in_ref] pCopy: *const CUDA_MEMCPY3D,
    #[handle] hStream: CUstream,
) -> CUresult;

#[custom] #[cx(context)] #[get_proc("cuMemcpy3DBatchAsync", 12080)] #[per_thread("_ptsz")]
fn cuMemcpy3DBatchAsync(
    numOps: usize,
    opList: *mut CUDA_MEMCPY3D_BATCH_OP,
    failIdx: *mut usize,
    flags: u64,
    #[handle] hStream: CUstream,
) -> CUresult;

#[is(cuMemcpy3DBatchAsync(numOps, opList, null, flags, hStream))] #[get_proc("cuMemcpy3DBatchAsync", 13000)] #[per_thread("_ptsz")]
fn cuMemcpy3DBatchAsync_v2(
    numOps: usize,
    opList: *mut CUDA_MEMCPY3D_BATCH_OP,
    flags: u64,
    hStream: CUstream,
) -> CUresult;

#[cx(context)] #[is(engine::copy_rows::copy_box(from_peer(pCopy), cx.stream(null, per_thread)?, true, false))] #[get_proc("cuMemcpy3DPeer", 4000)] #[per_thread("_ptds")]
fn cuMemcpy3DPeer(#[in_ref] pCopy: *const CUDA_MEMCPY3D_PEER) -> CUresult;

#[cx(context)] #[is(engine::copy_rows::copy_box(from_peer(pCopy), hStream, true, true))] #[get_proc("cuMemcpy3DPeerAsync", 4000)] #[per_thread("_ptsz")]
fn cuMemcpy3DPeerAsync(
    #[in_ref] pCopy: *const CUDA_MEMCPY3D_PEER,
    #[handle] hStream: CUstream,
) -> CUresult;

#[cx(context)] #[is(engine::copy_rows::copy_box(rows_of(pCopy), cx.stream(null, per_thread)?, false, false))] #[get_proc("cuMemcpy3D", 3020)] #[per_thread("_ptds")]
fn cuMemcpy3D_v2(#[in_ref] pCopy: *const CUDA_MEMCPY3D) -> CUresult;

#[cx] #[is(engine::copy::any(dst, src, ByteCount, hStream, true))] #[get_proc("cuMemcpyAsync", 4000)] #[per_thread("_ptsz")]
fn cuMemcpyAsync(
    dst: CUdeviceptr,
    src: CUdeviceptr,
    ByteCount: usize,
    #[handle] hStream: CUstream,
) -> CUresult;

#[unsupported("takes 32-bit addresses and sizes; superseded")] #[get_proc("cuMemcpyAtoA", 2000)]
fn cuMemcpyAtoA(
    dstArray: CUarray,
    dstOffset: u32,
    srcArray: CUarray,
    srcOffset: u32,
    ByteCount: u32,
) -> CUresult;

#[cx(context)] #[is(engine::copy_rows::copy_box(line(in_array(srcArray, srcOffset), in_array(dstArray, dstOffset), ByteCount), cx.stream(null, per_thread)?, false, false))] #[get_proc("cuMemcpyAtoA", 3020)] #[per_thread("_ptds")]
fn cuMemcpyAtoA_v2(
    dstArray: CUarray,
    dstOffset: usize,
    srcArray: CUarray,
    srcOffset: usize,
    ByteCount: usize,
) -> CUresult;

#[unsupported("takes 32-bit addresses and sizes; superseded")] #[get_proc("cuMemcpyAtoD", 2000)]
fn cuMemcpyAtoD(
    dstDevice: CUdeviceptr_v1,
    srcArray: CUarray,
    srcOffset: u32,
    ByteCount: u32,
) -> CUresult;

#[cx(context)] #[is(engine::copy_rows::copy_box(line(in_array(srcArray, srcOffset), device_bytes(dstDevice), ByteCount), cx.stream(null, per_thread)?, false, false))] #[get_proc("cuMemcpyAtoD", 3020)] #[per_thread("_ptds")]
fn cuMemcpyAtoD_v2(
    dstDevice: CUdeviceptr,
    srcArray: CUarray,
    srcOffset: usize,
    ByteCount: usize,
) -> CUresult;

#[unsupported("takes 32-bit addresses and sizes; superseded")] #[get_proc("cuMemcpyAtoH", 2000)]
fn cuMemcpyAtoH(
    dstHost: *mut c_void,
    srcArray: CUarray,
    srcOffset: u32,
    ByteCount: u32,
) -> CUresult;

#[unsupported("takes 32-bit addresses and sizes; superseded")]
#[get_proc("cuMemcpyAtoHAsync", 2000)]
fn cuMemcpyAtoHAsync(
    dstHost: *mut c_void,
    srcArray: CUarray,
    srcOffset: u32,
    ByteCount: u32,
    hStream: CUstream,
) -> CUresult;

#[cx(context)] #[is(engine::copy_rows::copy_box(line(in_array(srcArray, srcOffset), host_bytes(dstHost), ByteCount), hStream, false, true))] #[get_proc("cuMemcpyAtoHAsync", 3020)] #[per_thread("_ptsz")]
fn cuMemcpyAtoHAsync_v2(
    dstHost: *mut c_void,
    srcArray: CUarray,
    srcOffset: usize,
    ByteCount: usize,
    #[handle] hStream: CUstream,
) -> CUresult;

#[cx(context)] #[is(engine::copy_rows::copy_box(line(in_array(srcArray, srcOffset), host_bytes(dstHost), ByteCount), cx.stream(null, per_thread)?, false, false))] #[get_proc("cuMemcpyAtoH", 3020)] #[per_thread("_ptds")]
fn cuMemcpyAtoH_v2(
    dstHost: *mut c_void,
    srcArray: CUarray,
    srcOffset: usize,
    ByteCount: usize,
) -> CUresult;

#[custom] #[cx(context)] #[get_proc("cuMemcpyBatchAsync", 12080)] #[per_thread("_ptsz")]
fn cuMemcpyBatchAsync(
    dsts: *mut CUdeviceptr,
    srcs: *mut CUdeviceptr,
    sizes: *mut usize,
    count: usize,
    attrs: *mut CUmemcpyAttributes,
    attrsIdxs: *mut usize,
    numAttrs: usize,
    failIdx: *mut usize,
    #[handle] hStream: CUstream,
) -> CUresult;

#[is(cuMemcpyBatchAsync(dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, null, hStream))] #[get_proc("cuMemcpyBatchAsync", 13000)] #[per_thread("_ptsz")]
fn cuMemcpyBatchAsync_v2(
    dsts: *mut CUdeviceptr,
    srcs: *mut CUdeviceptr,
    sizes: *mut usize,
    count: usize,
    attrs: *mut CUmemcpyAttributes,
    attrsIdxs: *mut usize,
    numAttrs: usize,
    hStream: CUstream,
) -> CUresult;

#[unsupported("takes 32-bit addresses and sizes; superseded")] #[get_proc("cuMemcpyDtoA", 2000)]
fn cuMemcpyDtoA(
    dstArray: CUarray,
    dstOffset: u32,
    srcDevice: CUdeviceptr_v1,
    ByteCount: u32,
) -> CUresult;

#[cx(context)] #[is(engine::copy_rows::copy_box(line(device_bytes(srcDevice), in_array(dstArray, dstOffset), ByteCount), cx.stream(null, per_thread)?, false, false))] #[get_proc("cuMemcpyDtoA", 3020)] #[per_thread("_ptds")]
fn cuMemcpyDtoA_v2(
    dstArray: CUarray,
    dstOffset: usize,
    srcDevice: CUdeviceptr,
    ByteCount: usize,
) -> CUresult;

#[unsupported("takes 32-bit addresses and sizes; superseded")] #[get_proc("cuMemcpyDtoD", 2000)]
fn cuMemcpyDtoD(dstDevice: CUdeviceptr_v1, srcDevice: CUdeviceptr_v1, ByteCount: u32) -> CUresult;

#[unsupported("takes 32-bit addresses and sizes; superseded")]
#[get_proc("cuMemcpyDtoDAsync", 3000)]
fn cuMemcpyDtoDAsync(
    dstDevice: CUdeviceptr_v1,
    srcDevice: CUdeviceptr_v1,
    ByteCount: u32,
    hStream: CUstream,
) -> CUresult;

#[id(0x0a01)] #[queued] #[by_hand(client, worker)] #[cx(context)] #[get_proc("cuMemcpyDtoDAsync", 3020)] #[per_thread("_ptsz")]
fn cuMemcpyDtoDAsync_v2(
    dstDevice: CUdeviceptr,
    srcDevice: CUdeviceptr,
    ByteCount: usize,
    #[handle] hStream: CUstream,
) -> CUresult;

#[is(cuMemcpyDtoDAsync_v2(dstDevice, srcDevice, ByteCount, null))] #[get_proc("cuMemcpyDtoD", 3020)] #[per_thread("_ptds")]
fn cuMemcpyDtoD_v2(dstDevice: CUdeviceptr, srcDevice: CUdeviceptr, ByteCount: usize) -> CUresult;

#[unsupported("takes 32-bit addresses and sizes; superseded")] #[get_proc("cuMemcpyDtoH", 2000)]
fn cuMemcpyDtoH(dstHost: *mut c_void, srcDevice: CUdeviceptr_v1, ByteCount: u32) -> CUresult;

#[unsupported("takes 32-bit addresses and sizes; superseded")]
#[get_proc("cuMemcpyDtoHAsync", 2000)]
fn cuMemcpyDtoHAsync(
    dstHost: *mut c_void,
    srcDevice: CUdeviceptr_v1,
    ByteCount: u32,
    hStream: CUstream,
) -> CUresult;

#[cx] #[is(engine::copy::to_host(dstHost.cast(), srcDevice, ByteCount, hStream, true))] #[get_proc("cuMemcpyDtoHAsync", 3020)] #[per_thread("_ptsz")]
fn cuMemcpyDtoHAsync_v2(
    dstHost: *mut c_void,
    srcDevice: CUdeviceptr,
    ByteCount: usize,
    #[handle] hStream: CUstream,
) -> CUresult;

#[cx] #[is(engine::copy::to_host(dstHost.cast(), srcDevice, ByteCount, cx.stream(null, per_thread)?, false))] #[get_proc("cuMemcpyDtoH", 3020)] #[per_thread("_ptds")]
fn cuMemcpyDtoH_v2(dstHost: *mut c_void, srcDevice: CUdeviceptr, ByteCount: usize) -> CUresult;

#[unsupported("takes 32-bit addresses and sizes; superseded")] #[get_proc("cuMemcpyHtoA", 2000)]
fn cuMemcpyHtoA(
    dstArray: CUarray,
    dstOffset: u32,
    srcHost: *const c_void,
    ByteCount: u32,
) -> CUresult;

#[unsupported("takes 32-bit addresses and sizes; superseded")]
#[get_proc("cuMemcpyHtoAAsync", 2000)]
fn cuMemcpyHtoAAsync(
    dstArray: CUarray,
    dstOffset: u32,
    srcHost: *const c_void,
    ByteCount: u32,
    hStream: CUstream,
) -> CUresult;

#[cx(context)] #[is(engine::copy_rows::copy_box(line(host_bytes(srcHost), in_array(dstArray, dstOffset), ByteCount), hStream, false, true))] #[get_proc("cuMemcpyHtoAAsync", 3020)] #[per_thread("_ptsz")]
fn cuMemcpyHtoAAsync_v2(
    dstArray: CUarray,
    dstOffset: usize,
    srcHost: *const c_void,
    ByteCount: usize,
    #[handle] hStream: CUstream,
) -> CUresult;

#[cx(context)] #[is(engine::copy_rows::copy_box(line(host_bytes(srcHost), in_array(dstArray, dstOffset), ByteCount), cx.stream(null, per_thread)?, false, false))] #[get_proc("cuMemcpyHtoA", 3020)] #[per_thread("_ptds")]
fn cuMemcpyHtoA_v2(
    dstArray: CUarray,
    dstOffset: usize,
    srcHost: *const c_void,
    ByteCount: usize,
) -> CUresult;

#[unsupported("takes 32-bit addresses and sizes; superseded")] #[get_proc("cuMemcpyHtoD", 2000)]
fn cuMemcpyHtoD(dstDevice: CUdeviceptr_v1, srcHost: *const c_void, ByteCount: u32) -> CUresult;

#[unsupported("takes 32-bit addresses and sizes; superseded")]
#[get_proc("cuMemcpyHtoDAsync", 2000)]
fn cuMemcpyHtoDAsync(
    dstDevice: CUdeviceptr_v1,
    srcHost: *const c_void,
    ByteCount: u32,
    hStream: CUstream,
) -> CUresult;

#[cx] #[is(engine::copy::to_device(dstDevice, srcHost.cast(), ByteCount, hStream, true))] #[get_proc("cuMemcpyHtoDAsync", 3020)] #[per_thread("_ptsz")]
fn cuMemcpyHtoDAsync_v2(
    dstDevice: CUdeviceptr,
    srcHost: *const c_void,
    ByteCount: usize,
    #[handle] hStream: CUstream,
) -> CUresult;

#[cx] #[is(engine::copy::to_device(dstDevice, srcHost.cast(), ByteCount, cx.stream(null, per_thread)?, false))] #[get_proc("cuMemcpyHtoD", 3020)] #[per_thread("_ptds")]
fn cuMemcpyHtoD_v2(dstDevice: CUdeviceptr, srcHost: *const c_void, ByteCount: usize) -> CUresult;

#[custom] #[get_proc("cuMemcpyPeer", 4000)] #[per_thread("_ptds")]
fn cuMemcpyPeer(
    dstDevice: CUdeviceptr,
    dstContext: CUcontext,
    srcDevice: CUdeviceptr,
    srcContext: CUcontext,
    ByteCount: usize,
) -> CUresult;

#[id(0x0a02)] #[queued] #[by_hand(client, worker)] #[get_proc("cuMemcpyPeerAsync", 4000)] #[per_thread("_ptsz")]
fn cuMemcpyPeerAsync(
    dstDevice: CUdeviceptr,
    #[handle(optional)] dstContext: CUcontext,
    srcDevice: CUdeviceptr,
    #[handle(optional)] srcContext: CUcontext,
    ByteCount: usize,
    #[handle] hStream: CUstream,
) -> CUresult;
