//! Undocumented tables.

#[local] #[get_proc("cuGetExportTable", 3000)]
fn cuGetExportTable(ppExportTable: *mut *const c_void, pExportTableId: *const CUuuid) -> CUresult;

// What the tables have that is a call like others: slots of them, as NVIDIA's own libraries call.

#[unexported] #[is(cuModuleLoadDataEx(module, image, 0, null, null))]
fn module_from_fatbin(#[new] module: *mut CUmodule, image: *const c_void) -> CUresult;

#[unexported] #[is(cuModuleLoadDataEx(module, image, 0, null, null))]
fn module_from_fatbin_6(
    #[new] module: *mut CUmodule,
    image: *const c_void,
    a: *mut c_void,
    b: *mut c_void,
    c: u32,
) -> CUresult;

#[unexported] #[is(cuModuleLoadDataEx(module, image, 0, null, null))]
fn module_from_fatbin_8(
    image: *const c_void,
    #[new] module: *mut CUmodule,
    a: *mut c_void,
    b: *mut c_void,
    c: u32,
) -> CUresult;

#[unexported] #[local] #[cx(local)]
fn primary_context(#[gives(one)] out: *mut CUcontext, dev: CUdevice) -> CUresult;

#[unexported] #[is(cuCtxGetCurrent)]
fn current_context(pctx: *mut CUcontext) -> CUresult;

#[unexported] #[local] #[cx(local)]
fn handshake_1(version: u32, seconds: u64, out: *mut u64) -> CUresult;

#[unexported] #[local] #[cx(local)]
fn context_number(ctx: CUcontext, #[out] out: *mut u64) -> CUresult;

#[unexported] #[local] #[cx(local)]
fn stream_number(ctx: CUcontext, inside: u64, #[out] out: *mut u64) -> CUresult;

#[unexported] #[local] #[cx(local)]
fn stream_inside(
    ctx: CUcontext,
    stream: CUstream,
    #[out] out: *mut u64,
    per_thread: i32,
) -> CUresult;

#[unexported] #[custom] #[cx]
fn layout_get(#[out] index_in_gpc: *mut *mut u8, #[out] gpc_of_tpc: *mut *mut u8) -> CUresult;

#[unexported] #[local] #[cx(local)]
fn storage_put(
    ctx: CUcontext,
    key: *mut c_void,
    value: *mut c_void,
    destructor: Option<unsafe extern "C" fn(CUcontext, *mut c_void, *mut c_void)>,
) -> CUresult;

#[unexported] #[local] #[cx(local)]
fn storage_delete(ctx: CUcontext, key: *mut c_void) -> CUresult;

#[unexported] #[local] #[cx(local)]
fn storage_get(#[out] out: *mut *mut c_void, ctx: CUcontext, key: *mut c_void) -> CUresult;
