//! Sharing between processes.

#[custom] #[get_proc("cuIpcCloseMemHandle", 4010)]
fn cuIpcCloseMemHandle(dptr: CUdeviceptr) -> CUresult;

#[custom] #[get_proc("cuIpcGetEventHandle", 4010)]
fn cuIpcGetEventHandle(pHandle: *mut CUipcEventHandle, event: CUevent) -> CUresult;

#[custom] #[get_proc("cuIpcGetMemHandle", 4010)]
fn cuIpcGetMemHandle(pHandle: *mut CUipcMemHandle, dptr: CUdeviceptr) -> CUresult;

#[custom] #[get_proc("cuIpcOpenEventHandle", 4010)]
fn cuIpcOpenEventHandle(#[new] phEvent: *mut CUevent, handle: CUipcEventHandle) -> CUresult;

#[is(cuIpcOpenMemHandle_v2)] #[get_proc("cuIpcOpenMemHandle", 4010)]
fn cuIpcOpenMemHandle(pdptr: *mut CUdeviceptr, handle: CUipcMemHandle, Flags: u32) -> CUresult;

#[custom] #[get_proc("cuIpcOpenMemHandle", 11000)]
fn cuIpcOpenMemHandle_v2(pdptr: *mut CUdeviceptr, handle: CUipcMemHandle, Flags: u32) -> CUresult;
