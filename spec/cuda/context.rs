//! Contexts and primary contexts.

#[local] #[cx(local)] #[get_proc("cuCtxAttach", 2000)]
fn cuCtxAttach(#[gives(one)] pctx: *mut CUcontext, flags: u32) -> CUresult;

#[is(cuCtxCreate_v2)] #[get_proc("cuCtxCreate", 2000)]
fn cuCtxCreate(#[new] pctx: *mut CUcontext, flags: u32, dev: CUdevice) -> CUresult;

#[custom] #[cx(anywhere)] #[get_proc("cuCtxCreate", 3020)]
fn cuCtxCreate_v2(#[new] pctx: *mut CUcontext, flags: u32, dev: CUdevice) -> CUresult;

#[custom] #[cx(anywhere)] #[get_proc("cuCtxCreate", 11040)]
fn cuCtxCreate_v3(
    #[new] pctx: *mut CUcontext,
    paramsArray: *mut CUexecAffinityParam,
    numParams: i32,
    flags: u32,
    dev: CUdevice,
) -> CUresult;

#[custom] #[cx(anywhere)] #[get_proc("cuCtxCreate", 12050)]
fn cuCtxCreate_v4(
    #[new] pctx: *mut CUcontext,
    ctxCreateParams: *mut CUctxCreateParams,
    flags: u32,
    dev: CUdevice,
) -> CUresult;

#[is(cuCtxDestroy_v2)] #[get_proc("cuCtxDestroy", 2000)]
fn cuCtxDestroy(ctx: CUcontext) -> CUresult;

#[custom] #[cx(local)] #[get_proc("cuCtxDestroy", 4000)]
fn cuCtxDestroy_v2(ctx: CUcontext) -> CUresult;

#[is(cuCtxDestroy_v2)] #[get_proc("cuCtxDetach", 2000)]
fn cuCtxDetach(ctx: CUcontext) -> CUresult;

#[local] #[cx(local)] #[get_proc("cuCtxGetApiVersion", 3020)]
fn cuCtxGetApiVersion(ctx: CUcontext, #[out] version: *mut u32) -> CUresult;

#[id(0x0301)] #[waits] #[get_proc("cuCtxGetCacheConfig", 3020)]
fn cuCtxGetCacheConfig(#[out] pconfig: *mut CUfunc_cache) -> CUresult;

#[local] #[cx(local)] #[get_proc("cuCtxGetCurrent", 4000)]
fn cuCtxGetCurrent(#[gives(one)] pctx: *mut CUcontext) -> CUresult;

#[local] #[cx(local)] #[get_proc("cuCtxGetDevice", 2000)]
fn cuCtxGetDevice(#[out] device: *mut CUdevice) -> CUresult;

#[local] #[cx(local)] #[get_proc("cuCtxGetDevice", 13000)]
fn cuCtxGetDevice_v2(#[out] device: *mut CUdevice, ctx: CUcontext) -> CUresult;

#[id(0x0302)] #[cached] #[get_proc("cuCtxGetExecAffinity", 11040)]
fn cuCtxGetExecAffinity(
    #[out] pExecAffinity: *mut CUexecAffinityParam,
    r#type: CUexecAffinityType,
) -> CUresult;

#[local] #[cx(local)] #[get_proc("cuCtxGetFlags", 7000)]
fn cuCtxGetFlags(#[out] flags: *mut u32) -> CUresult;

#[local] #[cx(local)] #[get_proc("cuCtxGetId", 12000)]
fn cuCtxGetId(ctx: CUcontext, #[out] ctxId: *mut u64) -> CUresult;

#[id(0x0303)] #[cached] #[get_proc("cuCtxGetLimit", 3010)]
fn cuCtxGetLimit(#[out] pvalue: *mut usize, limit: CUlimit) -> CUresult;

#[id(0x0304)] #[waits] #[get_proc("cuCtxGetSharedMemConfig", 4020)]
fn cuCtxGetSharedMemConfig(#[out] pConfig: *mut CUsharedconfig) -> CUresult;

#[id(0x0305)] #[cached] #[get_proc("cuCtxGetStreamPriorityRange", 5050)]
fn cuCtxGetStreamPriorityRange(
    #[out(optional)] leastPriority: *mut i32,
    #[out(optional)] greatestPriority: *mut i32,
) -> CUresult;

#[is(cuCtxPopCurrent_v2)] #[get_proc("cuCtxPopCurrent", 2000)]
fn cuCtxPopCurrent(pctx: *mut CUcontext) -> CUresult;

#[local] #[cx(local)] #[get_proc("cuCtxPopCurrent", 4000)]
fn cuCtxPopCurrent_v2(#[gives] pctx: *mut CUcontext) -> CUresult;

#[is(cuCtxPushCurrent_v2)] #[get_proc("cuCtxPushCurrent", 2000)]
fn cuCtxPushCurrent(ctx: CUcontext) -> CUresult;

#[local] #[cx(local)] #[get_proc("cuCtxPushCurrent", 4000)]
fn cuCtxPushCurrent_v2(ctx: CUcontext) -> CUresult;

#[id(0x0306)] #[waits] #[by_hand(client)] #[cx] #[get_proc("cuCtxRecordEvent", 12050)]
#[changes(Event, "what it stands for")]
fn cuCtxRecordEvent(#[handle] hCtx: CUcontext, #[handle] hEvent: CUevent) -> CUresult;

#[id(0x0307)] #[queued] #[cx(context)] #[get_proc("cuCtxResetPersistingL2Cache", 11000)]
fn cuCtxResetPersistingL2Cache() -> CUresult;

#[id(0x0308)] #[waits] #[disturbs] #[get_proc("cuCtxSetCacheConfig", 3020)]
#[changes(Context, "cache preference")]
fn cuCtxSetCacheConfig(config: CUfunc_cache) -> CUresult;

#[local] #[cx(local)] #[get_proc("cuCtxSetCurrent", 4000)]
fn cuCtxSetCurrent(ctx: CUcontext) -> CUresult;

#[local] #[cx] #[get_proc("cuCtxSetFlags", 12010)]
fn cuCtxSetFlags(flags: u32) -> CUresult;

#[id(0x0309)] #[waits] #[by_hand(client, worker)] #[cx(context)] #[disturbs] #[get_proc("cuCtxSetLimit", 3010)]
#[changes(Context, "limit")]
fn cuCtxSetLimit(limit: CUlimit, value: usize) -> CUresult;

#[id(0x030a)] #[waits] #[get_proc("cuCtxSetSharedMemConfig", 4020)]
#[changes(Context, "shared memory banks")]
fn cuCtxSetSharedMemConfig(config: CUsharedconfig) -> CUresult;

#[custom] #[cx(context)] #[get_proc("cuCtxSynchronize", 2000)]
fn cuCtxSynchronize() -> CUresult;

#[custom] #[cx] #[get_proc("cuCtxSynchronize", 13000)]
fn cuCtxSynchronize_v2(ctx: CUcontext) -> CUresult;

#[id(0x030c)] #[waits] #[get_proc("cuCtxWaitEvent", 12050)]
fn cuCtxWaitEvent(#[handle] hCtx: CUcontext, #[handle] hEvent: CUevent) -> CUresult;

#[local] #[cx(local)] #[get_proc("cuDevicePrimaryCtxGetState", 7000)]
fn cuDevicePrimaryCtxGetState(
    dev: CUdevice,
    #[out] flags: *mut u32,
    #[out] active: *mut i32,
) -> CUresult;

#[is(cuDevicePrimaryCtxRelease_v2)] #[get_proc("cuDevicePrimaryCtxRelease", 7000)]
fn cuDevicePrimaryCtxRelease(dev: CUdevice) -> CUresult;

#[cx(local)] #[is(engine::death::release(dev))] #[get_proc("cuDevicePrimaryCtxRelease", 11000)]
fn cuDevicePrimaryCtxRelease_v2(dev: CUdevice) -> CUresult;

#[is(cuDevicePrimaryCtxReset_v2)] #[get_proc("cuDevicePrimaryCtxReset", 7000)]
fn cuDevicePrimaryCtxReset(dev: CUdevice) -> CUresult;

#[cx(local)] #[is(engine::death::reset(dev))] #[get_proc("cuDevicePrimaryCtxReset", 11000)]
fn cuDevicePrimaryCtxReset_v2(dev: CUdevice) -> CUresult;

#[custom] #[cx(local)] #[get_proc("cuDevicePrimaryCtxRetain", 7000)]
fn cuDevicePrimaryCtxRetain(#[new] pctx: *mut CUcontext, dev: CUdevice) -> CUresult;

#[is(cuDevicePrimaryCtxSetFlags_v2)] #[get_proc("cuDevicePrimaryCtxSetFlags", 7000)]
fn cuDevicePrimaryCtxSetFlags(dev: CUdevice, flags: u32) -> CUresult;

#[local] #[cx(local)] #[get_proc("cuDevicePrimaryCtxSetFlags", 11000)]
fn cuDevicePrimaryCtxSetFlags_v2(dev: CUdevice, flags: u32) -> CUresult;
