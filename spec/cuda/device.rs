//! Devices and what is known of them.

#[id(0x0201)] #[cached] #[get_proc("cuDeviceComputeCapability", 2000)]
fn cuDeviceComputeCapability(
    #[out] major: *mut i32,
    #[out] minor: *mut i32,
    dev: CUdevice,
) -> CUresult;

#[local] #[cx(local)] #[get_proc("cuDeviceGet", 2000)]
fn cuDeviceGet(#[out] device: *mut CUdevice, ordinal: i32) -> CUresult;

#[id(0x0202)] #[cached] #[by_hand(client)] #[cx(local)] #[get_proc("cuDeviceGetAttribute", 2000)]
fn cuDeviceGetAttribute(#[out] pi: *mut i32, attrib: CUdevice_attribute, dev: CUdevice) -> CUresult;

#[id(0x0203)] #[cached] #[by_hand(client, worker)] #[cx] #[get_proc("cuDeviceGetByPCIBusId", 4010)]
fn cuDeviceGetByPCIBusId(#[out] dev: *mut CUdevice, #[cstr] pciBusId: *const c_char) -> CUresult;

#[local] #[cx(local)] #[get_proc("cuDeviceGetCount", 2000)]
fn cuDeviceGetCount(#[out] count: *mut i32) -> CUresult;

#[id(0x0204)] #[cached] #[get_proc("cuDeviceGetExecAffinitySupport", 11040)]
fn cuDeviceGetExecAffinitySupport(
    #[out] pi: *mut i32,
    r#type: CUexecAffinityType,
    dev: CUdevice,
) -> CUresult;

#[id(0x0205)] #[cached] #[get_proc("cuDeviceGetHostAtomicCapabilities", 13000)]
fn cuDeviceGetHostAtomicCapabilities(
    #[out_array(count)] capabilities: *mut u32,
    #[in_array(count)] operations: *const CUatomicOperation,
    count: u32,
    dev: CUdevice,
) -> CUresult;

#[unsupported("only Windows has device LUIDs")] #[get_proc("cuDeviceGetLuid", 10000)]
fn cuDeviceGetLuid(luid: *mut c_char, deviceNodeMask: *mut u32, dev: CUdevice) -> CUresult;

#[local] #[cx(local)] #[get_proc("cuDeviceGetName", 2000)]
fn cuDeviceGetName(name: *mut c_char, len: i32, dev: CUdevice) -> CUresult;

#[id(0x0207)] #[cached] #[by_hand(client)] #[cx] #[get_proc("cuDeviceGetPCIBusId", 4010)]
fn cuDeviceGetPCIBusId(
    #[out_array(len)] pciBusId: *mut c_char,
    len: i32,
    dev: CUdevice,
) -> CUresult;

#[id(0x0208)] #[cached] #[get_proc("cuDeviceGetProperties", 2000)]
fn cuDeviceGetProperties(#[out] prop: *mut CUdevprop, dev: CUdevice) -> CUresult;

#[id(0x0209)] #[cached] #[get_proc("cuDeviceGetTexture1DLinearMaxWidth", 11010)]
fn cuDeviceGetTexture1DLinearMaxWidth(
    #[out] maxWidthInElements: *mut usize,
    format: CUarray_format,
    numChannels: u32,
    dev: CUdevice,
) -> CUresult;

#[id(0x020a)] #[cached] #[by_hand(client)] #[cx] #[get_proc("cuDeviceGetUuid", 9020)]
fn cuDeviceGetUuid(#[out] uuid: *mut CUuuid, dev: CUdevice) -> CUresult;

#[id(0x020b)] #[cached] #[by_hand(client)] #[cx] #[get_proc("cuDeviceGetUuid", 11040)]
fn cuDeviceGetUuid_v2(#[out] uuid: *mut CUuuid, dev: CUdevice) -> CUresult;

#[unsupported("notices of memory pressure are not forwarded")]
#[get_proc("cuDeviceRegisterAsyncNotification", 12040)]
fn cuDeviceRegisterAsyncNotification(
    device: CUdevice,
    callbackFunc: CUasyncCallback,
    userData: *mut c_void,
    callback: *mut CUasyncCallbackHandle,
) -> CUresult;

#[unsupported("takes 32-bit addresses and sizes; superseded")] #[get_proc("cuDeviceTotalMem", 2000)]
fn cuDeviceTotalMem(bytes: *mut u32, dev: CUdevice) -> CUresult;

#[id(0x020c)] #[cached] #[by_hand(worker)] #[get_proc("cuDeviceTotalMem", 3020)]
fn cuDeviceTotalMem_v2(#[out] bytes: *mut usize, dev: CUdevice) -> CUresult;

#[unsupported("notices of memory pressure are not forwarded")]
#[get_proc("cuDeviceUnregisterAsyncNotification", 12040)]
fn cuDeviceUnregisterAsyncNotification(
    device: CUdevice,
    callback: CUasyncCallbackHandle,
) -> CUresult;

#[id(0x020d)] #[waits] #[get_proc("cuFlushGPUDirectRDMAWrites", 11030)]
fn cuFlushGPUDirectRDMAWrites(
    target: CUflushGPUDirectRDMAWritesTarget,
    scope: CUflushGPUDirectRDMAWritesScope,
) -> CUresult;
