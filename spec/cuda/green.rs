//! Green contexts and device resources.

#[custom] #[todo] #[get_proc("cuCtxFromGreenCtx", 12040)]
fn cuCtxFromGreenCtx(pContext: *mut CUcontext, hCtx: CUgreenCtx) -> CUresult;

#[custom] #[todo] #[get_proc("cuCtxGetDevResource", 12040)]
fn cuCtxGetDevResource(
    hCtx: CUcontext,
    resource: *mut CUdevResource,
    r#type: CUdevResourceType,
) -> CUresult;

#[custom] #[todo] #[get_proc("cuDeviceGetDevResource", 12040)]
fn cuDeviceGetDevResource(
    device: CUdevice,
    resource: *mut CUdevResource,
    r#type: CUdevResourceType,
) -> CUresult;

#[custom] #[todo] #[get_proc("cuDevResourceGenerateDesc", 12040)]
fn cuDevResourceGenerateDesc(
    phDesc: *mut CUdevResourceDesc,
    resources: *mut CUdevResource,
    nbResources: u32,
) -> CUresult;

#[custom] #[todo] #[get_proc("cuDevSmResourceSplitByCount", 12040)]
fn cuDevSmResourceSplitByCount(
    result: *mut CUdevResource,
    nbGroups: *mut u32,
    input: *const CUdevResource,
    remaining: *mut CUdevResource,
    useFlags: u32,
    minCount: u32,
) -> CUresult;

#[custom] #[todo] #[get_proc("cuGreenCtxCreate", 12040)]
fn cuGreenCtxCreate(
    phCtx: *mut CUgreenCtx,
    desc: CUdevResourceDesc,
    dev: CUdevice,
    flags: u32,
) -> CUresult;

#[custom] #[todo] #[get_proc("cuGreenCtxDestroy", 12040)]
fn cuGreenCtxDestroy(hCtx: CUgreenCtx) -> CUresult;

#[custom] #[todo] #[get_proc("cuGreenCtxGetDevResource", 12040)]
fn cuGreenCtxGetDevResource(
    hCtx: CUgreenCtx,
    resource: *mut CUdevResource,
    r#type: CUdevResourceType,
) -> CUresult;

#[custom] #[todo] #[get_proc("cuGreenCtxGetId", 12090)]
fn cuGreenCtxGetId(greenCtx: CUgreenCtx, greenCtxId: *mut u64) -> CUresult;

#[custom] #[todo] #[get_proc("cuGreenCtxRecordEvent", 12040)]
fn cuGreenCtxRecordEvent(hCtx: CUgreenCtx, hEvent: CUevent) -> CUresult;

#[custom] #[todo] #[get_proc("cuGreenCtxStreamCreate", 12050)]
fn cuGreenCtxStreamCreate(
    phStream: *mut CUstream,
    greenCtx: CUgreenCtx,
    flags: u32,
    priority: i32,
) -> CUresult;

#[custom] #[todo] #[get_proc("cuGreenCtxWaitEvent", 12040)]
fn cuGreenCtxWaitEvent(hCtx: CUgreenCtx, hEvent: CUevent) -> CUresult;

#[custom] #[todo] #[get_proc("cuStreamGetGreenCtx", 12040)]
fn cuStreamGetGreenCtx(hStream: CUstream, phCtx: *mut CUgreenCtx) -> CUresult;
