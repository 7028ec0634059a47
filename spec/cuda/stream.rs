//! Streams and capture.

#[custom] #[cx(in_functions)] #[get_proc("cuStreamAddCallback", 5000)] #[per_thread("_ptsz")]
fn cuStreamAddCallback(
    hStream: CUstream,
    callback: CUstreamCallback,
    userData: *mut c_void,
    flags: u32,
) -> CUresult;

#[cx(in_functions)] #[is(batch(stream, count, paramArray, flags, NO_BARRIER))] #[family(stream_words)] #[get_proc("cuStreamBatchMemOp", 8000)] #[per_thread("_ptsz")]
fn cuStreamBatchMemOp(
    #[handle] stream: CUstream,
    count: u32,
    paramArray: *mut CUstreamBatchMemOpParams,
    flags: u32,
) -> CUresult;

#[id(0x0c01)] #[queued] #[by_hand(client)] #[cx(in_functions)] #[family(stream_words)] #[get_proc("cuStreamBatchMemOp", 11070)] #[per_thread("_ptsz")]
fn cuStreamBatchMemOp_v2(
    #[handle] stream: CUstream,
    count: u32,
    #[in_array(count)] paramArray: *mut CUstreamBatchMemOpParams,
    flags: u32,
) -> CUresult;

#[is(cuStreamBeginCapture_v2(hStream, CU_STREAM_CAPTURE_MODE_GLOBAL))] #[get_proc("cuStreamBeginCapture", 10000)] #[per_thread("_ptsz")]
fn cuStreamBeginCapture(hStream: CUstream) -> CUresult;

#[custom] #[cx(in_functions)] #[get_proc("cuStreamBeginCaptureToGraph", 12030)] #[per_thread("_ptsz")]
fn cuStreamBeginCaptureToGraph(
    #[handle] hStream: CUstream,
    #[handle] hGraph: CUgraph,
    dependencies: *const CUgraphNode,
    dependencyData: *const CUgraphEdgeData,
    numDependencies: usize,
    mode: CUstreamCaptureMode,
) -> CUresult;

#[id(0x0c02)] #[waits] #[by_hand(client, worker)] #[cx(in_functions)] #[get_proc("cuStreamBeginCapture", 10010)]
#[per_thread("_ptsz")]
#[changes(Stream, "capture")]
fn cuStreamBeginCapture_v2(#[handle] hStream: CUstream, mode: CUstreamCaptureMode) -> CUresult;

#[id(0x0c03)] #[waits] #[cx(in_functions)] #[get_proc("cuStreamCopyAttributes", 11000)] #[per_thread("_ptsz")]
#[changes(Stream, dstStream, "attribute")]
fn cuStreamCopyAttributes(#[handle] dstStream: CUstream, #[handle] srcStream: CUstream) -> CUresult;

#[id(0x0c04)] #[queued] #[by_hand(client)] #[cx] #[get_proc("cuStreamCreate", 2000)]
fn cuStreamCreate(#[new] phStream: *mut CUstream, Flags: u32) -> CUresult;

#[id(0x0c05)] #[queued] #[by_hand(client)] #[cx] #[get_proc("cuStreamCreateWithPriority", 5050)]
fn cuStreamCreateWithPriority(
    #[new] phStream: *mut CUstream,
    flags: u32,
    priority: i32,
) -> CUresult;

#[is(cuStreamDestroy_v2)] #[get_proc("cuStreamDestroy", 2000)]
fn cuStreamDestroy(hStream: CUstream) -> CUresult;

#[id(0x0c06)] #[queued] #[by_hand(worker)] #[cx(in_functions)] #[get_proc("cuStreamDestroy", 4000)]
fn cuStreamDestroy_v2(#[del] hStream: CUstream) -> CUresult;

#[custom] #[get_proc("cuStreamEndCapture", 10000)] #[per_thread("_ptsz")]
fn cuStreamEndCapture(hStream: CUstream, #[new] phGraph: *mut CUgraph) -> CUresult;

#[id(0x0c08)] #[waits] #[cx(in_functions)] #[get_proc("cuStreamGetAttribute", 11000)] #[per_thread("_ptsz")]
fn cuStreamGetAttribute(
    #[handle] hStream: CUstream,
    attr: CUstreamAttrID,
    #[out] value: *mut CUstreamAttrValue,
) -> CUresult;

#[is(cuStreamGetCaptureInfo_v3(hStream, captureStatus_out, id_out, null, null, null, null))] #[get_proc("cuStreamGetCaptureInfo", 10010)] #[per_thread("_ptsz")]
fn cuStreamGetCaptureInfo(
    hStream: CUstream,
    captureStatus_out: *mut CUstreamCaptureStatus,
    id_out: *mut u64,
) -> CUresult;

#[is(cuStreamGetCaptureInfo_v3(hStream, captureStatus_out, id_out, graph_out, dependencies_out, null, numDependencies_out))] #[get_proc("cuStreamGetCaptureInfo", 11030)] #[per_thread("_ptsz")]
fn cuStreamGetCaptureInfo_v2(
    hStream: CUstream,
    captureStatus_out: *mut CUstreamCaptureStatus,
    id_out: *mut u64,
    #[gives] graph_out: *mut CUgraph,
    dependencies_out: *mut *const CUgraphNode,
    numDependencies_out: *mut usize,
) -> CUresult;

#[custom] #[cx(in_functions)] #[get_proc("cuStreamGetCaptureInfo", 12030)] #[per_thread("_ptsz")]
fn cuStreamGetCaptureInfo_v3(
    #[handle] hStream: CUstream,
    captureStatus_out: *mut CUstreamCaptureStatus,
    id_out: *mut u64,
    #[gives] graph_out: *mut CUgraph,
    dependencies_out: *mut *const CUgraphNode,
    edgeData_out: *mut *const CUgraphEdgeData,
    numDependencies_out: *mut usize,
) -> CUresult;

#[local] #[cx(local_in_functions)] #[get_proc("cuStreamGetCtx", 9020)] #[per_thread("_ptsz")]
fn cuStreamGetCtx(#[handle] hStream: CUstream, #[gives(one)] pctx: *mut CUcontext) -> CUresult;

#[custom] #[cx(in_functions)] #[get_proc("cuStreamGetCtx", 12050)] #[per_thread("_ptsz")]
fn cuStreamGetCtx_v2(
    #[handle] hStream: CUstream,
    #[gives] pCtx: *mut CUcontext,
    #[gives] pGreenCtx: *mut CUgreenCtx,
) -> CUresult;

#[local] #[cx(local_in_functions)] #[get_proc("cuStreamGetDevice", 12080)] #[per_thread("_ptsz")]
fn cuStreamGetDevice(#[handle] hStream: CUstream, #[out] device: *mut CUdevice) -> CUresult;

#[id(0x0c09)] #[cached] #[cx(in_functions)] #[get_proc("cuStreamGetFlags", 5050)] #[per_thread("_ptsz")]
fn cuStreamGetFlags(#[handle] hStream: CUstream, #[out] flags: *mut u32) -> CUresult;

#[id(0x0c0a)] #[cached] #[cx(in_functions)] #[get_proc("cuStreamGetId", 12000)] #[per_thread("_ptsz")]
fn cuStreamGetId(#[handle] hStream: CUstream, #[out] streamId: *mut u64) -> CUresult;

#[id(0x0c0b)] #[cached] #[cx(in_functions)] #[get_proc("cuStreamGetPriority", 5050)] #[per_thread("_ptsz")]
fn cuStreamGetPriority(#[handle] hStream: CUstream, #[out] priority: *mut i32) -> CUresult;

#[local] #[cx(in_functions)] #[get_proc("cuStreamIsCapturing", 10000)] #[per_thread("_ptsz")]
fn cuStreamIsCapturing(
    #[handle] hStream: CUstream,
    #[out] captureStatus: *mut CUstreamCaptureStatus,
) -> CUresult;

#[id(0x0c0c)] #[waits] #[by_hand(client, worker)] #[cx(in_functions)] #[disturbs] #[get_proc("cuStreamQuery", 2000)]
#[per_thread("_ptsz")]
fn cuStreamQuery(#[handle] hStream: CUstream) -> CUresult;

/// The attributes of a stream hold no handle; the members of this union that do are for launches.
// Seldom done, and which values are good is the driver's to say.
#[id(0x0c0d)] #[waits] #[cx(in_functions)] #[get_proc("cuStreamSetAttribute", 11000)]
#[per_thread("_ptsz")]
#[changes(Stream, "attribute")]
fn cuStreamSetAttribute(
    #[handle] hStream: CUstream,
    attr: CUstreamAttrID,
    #[in_ref] param: *const CUstreamAttrValue,
) -> CUresult;

#[id(0x0c0e)] #[waits] #[by_hand(client, worker)] #[cx(in_functions)] #[disturbs] #[get_proc("cuStreamSynchronize", 2000)]
#[per_thread("_ptsz")]
fn cuStreamSynchronize(#[handle] hStream: CUstream) -> CUresult;

#[is(cuStreamUpdateCaptureDependencies_v2(hStream, dependencies, null, numDependencies, flags))] #[get_proc("cuStreamUpdateCaptureDependencies", 11030)] #[per_thread("_ptsz")]
fn cuStreamUpdateCaptureDependencies(
    hStream: CUstream,
    #[takes] dependencies: *mut CUgraphNode,
    numDependencies: usize,
    flags: u32,
) -> CUresult;

#[custom] #[cx(in_functions)] #[get_proc("cuStreamUpdateCaptureDependencies", 12030)] #[per_thread("_ptsz")]
fn cuStreamUpdateCaptureDependencies_v2(
    #[handle] hStream: CUstream,
    #[takes] dependencies: *mut CUgraphNode,
    dependencyData: *const CUgraphEdgeData,
    numDependencies: usize,
    flags: u32,
) -> CUresult;

// Some flags are for captures only.
#[id(0x0c0f)] #[queued_if(Flags == 0)] #[by_hand(client)] #[get_proc("cuStreamWaitEvent", 3020)]
#[per_thread("_ptsz")]
fn cuStreamWaitEvent(
    #[handle] hStream: CUstream,
    #[handle] hEvent: CUevent,
    Flags: u32,
) -> CUresult;

#[is(cuStreamWaitValue32_v2)] #[get_proc("cuStreamWaitValue32", 8000)] #[per_thread("_ptsz")]
fn cuStreamWaitValue32(stream: CUstream, addr: CUdeviceptr, value: u32, flags: u32) -> CUresult;

#[id(0x0c10)] #[queued] #[by_hand(client)] #[cx(in_functions)] #[family(stream_words)] #[get_proc("cuStreamWaitValue32", 11070)] #[per_thread("_ptsz")]
fn cuStreamWaitValue32_v2(
    #[handle] stream: CUstream,
    addr: CUdeviceptr,
    value: u32,
    flags: u32,
) -> CUresult;

#[is(cuStreamWaitValue64_v2)] #[get_proc("cuStreamWaitValue64", 9000)] #[per_thread("_ptsz")]
fn cuStreamWaitValue64(stream: CUstream, addr: CUdeviceptr, value: u64, flags: u32) -> CUresult;

#[id(0x0c11)] #[queued] #[by_hand(client)] #[cx(in_functions)] #[family(stream_words)] #[get_proc("cuStreamWaitValue64", 11070)] #[per_thread("_ptsz")]
fn cuStreamWaitValue64_v2(
    #[handle] stream: CUstream,
    addr: CUdeviceptr,
    value: u64,
    flags: u32,
) -> CUresult;

#[is(cuStreamWriteValue32_v2(stream, addr, value, flags & !CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER))] #[family(stream_words)] #[get_proc("cuStreamWriteValue32", 8000)] #[per_thread("_ptsz")]
fn cuStreamWriteValue32(stream: CUstream, addr: CUdeviceptr, value: u32, flags: u32) -> CUresult;

#[id(0x0c12)] #[queued] #[by_hand(client)] #[cx(in_functions)] #[family(stream_words)] #[get_proc("cuStreamWriteValue32", 11070)] #[per_thread("_ptsz")]
fn cuStreamWriteValue32_v2(
    #[handle] stream: CUstream,
    addr: CUdeviceptr,
    value: u32,
    flags: u32,
) -> CUresult;

#[is(cuStreamWriteValue64_v2(stream, addr, value, flags & !CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER))] #[family(stream_words)] #[get_proc("cuStreamWriteValue64", 9000)] #[per_thread("_ptsz")]
fn cuStreamWriteValue64(stream: CUstream, addr: CUdeviceptr, value: u64, flags: u32) -> CUresult;

#[id(0x0c13)] #[queued] #[by_hand(client)] #[cx(in_functions)] #[family(stream_words)] #[get_proc("cuStreamWriteValue64", 11070)] #[per_thread("_ptsz")]
fn cuStreamWriteValue64_v2(
    #[handle] stream: CUstream,
    addr: CUdeviceptr,
    value: u64,
    flags: u32,
) -> CUresult;

#[local] #[cx(local_in_functions)] #[get_proc("cuThreadExchangeStreamCaptureMode", 10010)]
fn cuThreadExchangeStreamCaptureMode(mode: *mut CUstreamCaptureMode) -> CUresult;
