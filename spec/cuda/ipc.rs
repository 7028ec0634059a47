//! Sharing between processes.

#[custom] #[cx(context)] #[get_proc("cuIpcCloseMemHandle", 4010)]
fn cuIpcCloseMemHandle(dptr: CUdeviceptr) -> CUresult;

#[custom] #[cx] #[get_proc("cuIpcGetEventHandle", 4010)]
fn cuIpcGetEventHandle(#[out] pHandle: *mut CUipcEventHandle, #[handle(not_null)] event: CUevent) -> CUresult;

#[custom] #[cx(context)] #[get_proc("cuIpcGetMemHandle", 4010)]
fn cuIpcGetMemHandle(#[out] pHandle: *mut CUipcMemHandle, dptr: CUdeviceptr) -> CUresult;

#[custom] #[cx(context)] #[get_proc("cuIpcOpenEventHandle", 4010)]
fn cuIpcOpenEventHandle(#[new] phEvent: *mut CUevent, handle: CUipcEventHandle) -> CUresult;

#[is(cuIpcOpenMemHandle_v2)] #[get_proc("cuIpcOpenMemHandle", 4010)]
fn cuIpcOpenMemHandle(pdptr: *mut CUdeviceptr, handle: CUipcMemHandle, Flags: u32) -> CUresult;

#[custom] #[cx(context)] #[get_proc("cuIpcOpenMemHandle", 11000)]
fn cuIpcOpenMemHandle_v2(
    #[out] pdptr: *mut CUdeviceptr,
    handle: CUipcMemHandle,
    Flags: u32,
) -> CUresult;
