//! Green contexts and device resources.

#[custom] #[cx] #[get_proc("cuCtxFromGreenCtx", 12040)]
fn cuCtxFromGreenCtx(#[new] pContext: *mut CUcontext, #[handle] hCtx: CUgreenCtx) -> CUresult;

#[id(0x1601)] #[waits] #[get_proc("cuCtxGetDevResource", 12040)]
fn cuCtxGetDevResource(
    #[handle] hCtx: CUcontext,
    #[out] resource: *mut CUdevResource,
    r#type: CUdevResourceType,
) -> CUresult;

#[id(0x1602)] #[waits] #[get_proc("cuDeviceGetDevResource", 12040)]
fn cuDeviceGetDevResource(
    device: CUdevice,
    #[out] resource: *mut CUdevResource,
    r#type: CUdevResourceType,
) -> CUresult;

#[id(0x1603)] #[waits] #[get_proc("cuDevResourceGenerateDesc", 12040)]
fn cuDevResourceGenerateDesc(
    #[new] phDesc: *mut CUdevResourceDesc,
    #[in_array(nbResources)] resources: *mut CUdevResource,
    nbResources: u32,
) -> CUresult;

#[custom] #[cx] #[get_proc("cuDevSmResourceSplitByCount", 12040)]
fn cuDevSmResourceSplitByCount(
    result: *mut CUdevResource,
    nbGroups: *mut u32,
    #[in_ref] input: *const CUdevResource,
    remaining: *mut CUdevResource,
    useFlags: u32,
    minCount: u32,
) -> CUresult;

#[id(0x1604)] #[waits] #[by_hand(client, worker)] #[cx] #[get_proc("cuGreenCtxCreate", 12040)]
fn cuGreenCtxCreate(
    #[new] phCtx: *mut CUgreenCtx,
    #[handle] desc: CUdevResourceDesc,
    dev: CUdevice,
    flags: u32,
) -> CUresult;

#[id(0x1605)] #[waits] #[by_hand(client, worker)] #[cx] #[get_proc("cuGreenCtxDestroy", 12040)]
fn cuGreenCtxDestroy(#[del] hCtx: CUgreenCtx) -> CUresult;

#[id(0x1606)] #[waits] #[get_proc("cuGreenCtxGetDevResource", 12040)]
fn cuGreenCtxGetDevResource(
    #[handle] hCtx: CUgreenCtx,
    #[out] resource: *mut CUdevResource,
    r#type: CUdevResourceType,
) -> CUresult;

#[id(0x1607)] #[waits] #[get_proc("cuGreenCtxGetId", 12090)]
fn cuGreenCtxGetId(#[handle] greenCtx: CUgreenCtx, #[out] greenCtxId: *mut u64) -> CUresult;

#[id(0x1608)] #[waits] #[by_hand(client)] #[cx] #[get_proc("cuGreenCtxRecordEvent", 12040)]
#[changes(Event, "what it stands for")]
fn cuGreenCtxRecordEvent(#[handle] hCtx: CUgreenCtx, #[handle] hEvent: CUevent) -> CUresult;

#[id(0x1609)] #[waits] #[by_hand(client)] #[cx] #[get_proc("cuGreenCtxStreamCreate", 12050)]
fn cuGreenCtxStreamCreate(
    #[new] phStream: *mut CUstream,
    #[handle] greenCtx: CUgreenCtx,
    flags: u32,
    priority: i32,
) -> CUresult;

#[id(0x160a)] #[waits] #[get_proc("cuGreenCtxWaitEvent", 12040)]
fn cuGreenCtxWaitEvent(#[handle] hCtx: CUgreenCtx, #[handle] hEvent: CUevent) -> CUresult;

#[custom] #[cx(in_functions)] #[get_proc("cuStreamGetGreenCtx", 12040)]
fn cuStreamGetGreenCtx(hStream: CUstream, #[gives(one)] phCtx: *mut CUgreenCtx) -> CUresult;
