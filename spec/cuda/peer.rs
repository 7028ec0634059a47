//! Access between devices.

#[id(0x1301)] #[waits] #[by_hand(client, worker)] #[cx] #[get_proc("cuCtxDisablePeerAccess", 4000)]
#[changes(Context, scope, "peers")]
fn cuCtxDisablePeerAccess(#[handle] peerContext: CUcontext) -> CUresult;

#[id(0x1302)] #[waits] #[by_hand(client, worker)] #[cx] #[get_proc("cuCtxEnablePeerAccess", 4000)]
#[changes(Context, scope, "peers")]
fn cuCtxEnablePeerAccess(#[handle] peerContext: CUcontext, Flags: u32) -> CUresult;

#[id(0x1303)] #[cached] #[by_hand(client)] #[cx] #[get_proc("cuDeviceCanAccessPeer", 4000)]
fn cuDeviceCanAccessPeer(
    #[out] canAccessPeer: *mut i32,
    dev: CUdevice,
    peerDev: CUdevice,
) -> CUresult;

#[id(0x1304)] #[cached] #[get_proc("cuDeviceGetP2PAtomicCapabilities", 13000)]
fn cuDeviceGetP2PAtomicCapabilities(
    #[out_array(count)] capabilities: *mut u32,
    #[in_array(count)] operations: *const CUatomicOperation,
    count: u32,
    srcDevice: CUdevice,
    dstDevice: CUdevice,
) -> CUresult;

#[id(0x1305)] #[cached] #[by_hand(client)] #[cx] #[get_proc("cuDeviceGetP2PAttribute", 8000)]
fn cuDeviceGetP2PAttribute(
    #[out] value: *mut i32,
    attrib: CUdevice_P2PAttribute,
    srcDevice: CUdevice,
    dstDevice: CUdevice,
) -> CUresult;
