//! Kernel launches and host functions.

#[local] #[cx(local)] #[get_proc("cuFuncSetBlockShape", 2000)]
fn cuFuncSetBlockShape(hfunc: CUfunction, x: i32, y: i32, z: i32) -> CUresult;

#[cx(local)] #[is(change(hfunc, |s| s.shared = bytes))] #[get_proc("cuFuncSetSharedSize", 2000)]
fn cuFuncSetSharedSize(hfunc: CUfunction, bytes: u32) -> CUresult;

#[is(cuLaunchGridAsync(f, 1, 1, null))] #[get_proc("cuLaunch", 2000)]
fn cuLaunch(f: CUfunction) -> CUresult;

#[cx(context)] #[is(launch(f, ([gridDimX, gridDimY, gridDimZ], [blockDimX, blockDimY, blockDimZ]), (sharedMemBytes, COOPERATIVE), (hStream, per_thread), (kernelParams, null)))]
#[get_proc("cuLaunchCooperativeKernel", 9000)] #[per_thread("_ptsz")]
fn cuLaunchCooperativeKernel(
    f: CUfunction,
    gridDimX: u32,
    gridDimY: u32,
    gridDimZ: u32,
    blockDimX: u32,
    blockDimY: u32,
    blockDimZ: u32,
    sharedMemBytes: u32,
    hStream: CUstream,
    kernelParams: *mut *mut c_void,
) -> CUresult;

#[unsupported("removed from CUDA 13; one cooperative launch per device does the same")]
#[get_proc("cuLaunchCooperativeKernelMultiDevice", 9000)]
fn cuLaunchCooperativeKernelMultiDevice(
    launchParamsList: *mut CUDA_LAUNCH_PARAMS,
    numDevices: u32,
    flags: u32,
) -> CUresult;

#[is(cuLaunchGridAsync(f, grid_width, grid_height, null))] #[get_proc("cuLaunchGrid", 2000)]
fn cuLaunchGrid(f: CUfunction, grid_width: i32, grid_height: i32) -> CUresult;

#[cx] #[is(start(f, (grid_width, grid_height), hStream))] #[get_proc("cuLaunchGridAsync", 2000)]
fn cuLaunchGridAsync(
    f: CUfunction,
    grid_width: i32,
    grid_height: i32,
    hStream: CUstream,
) -> CUresult;

#[custom] #[cx(in_functions)] #[get_proc("cuLaunchHostFunc", 10000)] #[per_thread("_ptsz")]
fn cuLaunchHostFunc(hStream: CUstream, r#fn: CUhostFn, userData: *mut c_void) -> CUresult;

#[cx(context)] #[is(launch(f, ([gridDimX, gridDimY, gridDimZ], [blockDimX, blockDimY, blockDimZ]), (sharedMemBytes, 0), (hStream, per_thread), (kernelParams, extra)))]
#[get_proc("cuLaunchKernel", 4000)] #[per_thread("_ptsz")]
fn cuLaunchKernel(
    f: CUfunction,
    gridDimX: u32,
    gridDimY: u32,
    gridDimZ: u32,
    blockDimX: u32,
    blockDimY: u32,
    blockDimZ: u32,
    sharedMemBytes: u32,
    hStream: CUstream,
    kernelParams: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> CUresult;

#[custom] #[cx(context)] #[get_proc("cuLaunchKernelEx", 11060)] #[per_thread("_ptsz")]
fn cuLaunchKernelEx(
    config: *const CUlaunchConfig,
    f: CUfunction,
    kernelParams: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> CUresult;

#[cx(local)] #[is(set_parameter(hfunc, offset, &value.to_le_bytes()))] #[get_proc("cuParamSetf", 2000)]
fn cuParamSetf(hfunc: CUfunction, offset: i32, value: f32) -> CUresult;

#[cx(local)] #[is(set_parameter(hfunc, offset, &value.to_le_bytes()))] #[get_proc("cuParamSeti", 2000)]
fn cuParamSeti(hfunc: CUfunction, offset: i32, value: u32) -> CUresult;

#[local] #[cx(local)] #[get_proc("cuParamSetSize", 2000)]
fn cuParamSetSize(hfunc: CUfunction, numbytes: u32) -> CUresult;

#[local] #[cx(local)] #[get_proc("cuParamSetTexRef", 2000)]
fn cuParamSetTexRef(hfunc: CUfunction, texunit: i32, hTexRef: CUtexref) -> CUresult;

#[local] #[cx(local)] #[get_proc("cuParamSetv", 2000)]
fn cuParamSetv(hfunc: CUfunction, offset: i32, ptr: *mut c_void, numbytes: u32) -> CUresult;
