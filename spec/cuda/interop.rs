//! Graphics interoperability.

#[unsupported("NvSci buffers exist only beside the device")]
#[get_proc("cuDeviceGetNvSciSyncAttributes", 10020)]
fn cuDeviceGetNvSciSyncAttributes(
    nvSciSyncAttrList: *mut c_void,
    dev: CUdevice,
    flags: i32,
) -> CUresult;

#[unsupported("undocumented and without a public signature")]
fn cuEGLApiInit() -> CUresult;

#[unsupported("objects of EGL exist only on the machine of the display")]
#[get_proc("cuEGLStreamConsumerAcquireFrame", 7000)]
fn cuEGLStreamConsumerAcquireFrame(
    conn: *mut *mut c_void,
    pCudaResource: *mut CUgraphicsResource,
    pStream: *mut CUstream,
    timeout: u32,
) -> CUresult;

#[unsupported("objects of EGL exist only on the machine of the display")]
#[get_proc("cuEGLStreamConsumerConnect", 7000)]
fn cuEGLStreamConsumerConnect(conn: *mut *mut c_void, stream: *mut c_void) -> CUresult;

#[unsupported("objects of EGL exist only on the machine of the display")]
#[get_proc("cuEGLStreamConsumerConnectWithFlags", 8000)]
fn cuEGLStreamConsumerConnectWithFlags(
    conn: *mut *mut c_void,
    stream: *mut c_void,
    flags: u32,
) -> CUresult;

#[unsupported("objects of EGL exist only on the machine of the display")]
#[get_proc("cuEGLStreamConsumerDisconnect", 7000)]
fn cuEGLStreamConsumerDisconnect(conn: *mut *mut c_void) -> CUresult;

#[unsupported("objects of EGL exist only on the machine of the display")]
#[get_proc("cuEGLStreamConsumerReleaseFrame", 7000)]
fn cuEGLStreamConsumerReleaseFrame(
    conn: *mut *mut c_void,
    pCudaResource: CUgraphicsResource,
    pStream: *mut CUstream,
) -> CUresult;

#[unsupported("objects of EGL exist only on the machine of the display")]
#[get_proc("cuEGLStreamProducerConnect", 7000)]
fn cuEGLStreamProducerConnect(
    conn: *mut *mut c_void,
    stream: *mut c_void,
    width: i32,
    height: i32,
) -> CUresult;

#[unsupported("objects of EGL exist only on the machine of the display")]
#[get_proc("cuEGLStreamProducerDisconnect", 7000)]
fn cuEGLStreamProducerDisconnect(conn: *mut *mut c_void) -> CUresult;

#[unsupported("objects of EGL exist only on the machine of the display")]
#[get_proc("cuEGLStreamProducerPresentFrame", 7000)]
fn cuEGLStreamProducerPresentFrame(
    conn: *mut *mut c_void,
    eglframe: c_void,
    pStream: *mut CUstream,
) -> CUresult;

#[unsupported("objects of EGL exist only on the machine of the display")]
#[get_proc("cuEGLStreamProducerReturnFrame", 7000)]
fn cuEGLStreamProducerReturnFrame(
    conn: *mut *mut c_void,
    eglframe: *mut c_void,
    pStream: *mut CUstream,
) -> CUresult;

#[unsupported("objects of OpenGL exist only on the machine of the display")]
#[get_proc("cuGLCtxCreate", 2000)]
fn cuGLCtxCreate(pCtx: *mut CUcontext, Flags: u32, device: CUdevice) -> CUresult;

#[unsupported("objects of OpenGL exist only on the machine of the display")]
#[get_proc("cuGLCtxCreate", 3020)]
fn cuGLCtxCreate_v2(pCtx: *mut CUcontext, Flags: u32, device: CUdevice) -> CUresult;

#[unsupported("objects of OpenGL exist only on the machine of the display")]
#[get_proc("cuGLGetDevices", 4010)]
fn cuGLGetDevices(
    pCudaDeviceCount: *mut u32,
    pCudaDevices: *mut CUdevice,
    cudaDeviceCount: u32,
    deviceList: u32,
) -> CUresult;

#[unsupported("objects of OpenGL exist only on the machine of the display")]
#[get_proc("cuGLGetDevices", 6050)]
fn cuGLGetDevices_v2(
    pCudaDeviceCount: *mut u32,
    pCudaDevices: *mut CUdevice,
    cudaDeviceCount: u32,
    deviceList: u32,
) -> CUresult;

#[unsupported("objects of OpenGL exist only on the machine of the display")]
#[get_proc("cuGLInit", 2000)]
fn cuGLInit() -> CUresult;

#[unsupported("objects of OpenGL exist only on the machine of the display")]
#[get_proc("cuGLMapBufferObject", 2000)]
fn cuGLMapBufferObject(dptr: *mut CUdeviceptr_v1, size: *mut u32, buffer: u32) -> CUresult;

#[unsupported("objects of OpenGL exist only on the machine of the display")]
#[get_proc("cuGLMapBufferObjectAsync", 2030)]
fn cuGLMapBufferObjectAsync(
    dptr: *mut CUdeviceptr_v1,
    size: *mut u32,
    buffer: u32,
    hStream: CUstream,
) -> CUresult;

#[unsupported("objects of OpenGL exist only on the machine of the display")]
#[get_proc("cuGLMapBufferObjectAsync", 3020)] #[per_thread("_ptsz")]
fn cuGLMapBufferObjectAsync_v2(
    dptr: *mut CUdeviceptr,
    size: *mut usize,
    buffer: u32,
    hStream: CUstream,
) -> CUresult;

#[unsupported("objects of OpenGL exist only on the machine of the display")]
#[get_proc("cuGLMapBufferObject", 3020)] #[per_thread("_ptds")]
fn cuGLMapBufferObject_v2(dptr: *mut CUdeviceptr, size: *mut usize, buffer: u32) -> CUresult;

#[unsupported("objects of OpenGL exist only on the machine of the display")]
#[get_proc("cuGLRegisterBufferObject", 2000)]
fn cuGLRegisterBufferObject(buffer: u32) -> CUresult;

#[unsupported("objects of OpenGL exist only on the machine of the display")]
#[get_proc("cuGLSetBufferObjectMapFlags", 2030)]
fn cuGLSetBufferObjectMapFlags(buffer: u32, Flags: u32) -> CUresult;

#[unsupported("objects of OpenGL exist only on the machine of the display")]
#[get_proc("cuGLUnmapBufferObject", 2000)]
fn cuGLUnmapBufferObject(buffer: u32) -> CUresult;

#[unsupported("objects of OpenGL exist only on the machine of the display")]
#[get_proc("cuGLUnmapBufferObjectAsync", 2030)]
fn cuGLUnmapBufferObjectAsync(buffer: u32, hStream: CUstream) -> CUresult;

#[unsupported("objects of OpenGL exist only on the machine of the display")]
#[get_proc("cuGLUnregisterBufferObject", 2000)]
fn cuGLUnregisterBufferObject(buffer: u32) -> CUresult;

#[unsupported("objects of graphics APIs exist only on the machine of the display")]
#[get_proc("cuGraphicsEGLRegisterImage", 7000)]
fn cuGraphicsEGLRegisterImage(
    pCudaResource: *mut CUgraphicsResource,
    image: *mut c_void,
    flags: u32,
) -> CUresult;

#[unsupported("objects of graphics APIs exist only on the machine of the display")]
#[get_proc("cuGraphicsGLRegisterBuffer", 3000)]
fn cuGraphicsGLRegisterBuffer(
    pCudaResource: *mut CUgraphicsResource,
    buffer: u32,
    Flags: u32,
) -> CUresult;

#[unsupported("objects of graphics APIs exist only on the machine of the display")]
#[get_proc("cuGraphicsGLRegisterImage", 3000)]
fn cuGraphicsGLRegisterImage(
    pCudaResource: *mut CUgraphicsResource,
    image: u32,
    target: u32,
    Flags: u32,
) -> CUresult;

#[unsupported("objects of graphics APIs exist only on the machine of the display")]
#[get_proc("cuGraphicsMapResources", 3000)] #[per_thread("_ptsz")]
fn cuGraphicsMapResources(
    count: u32,
    resources: *mut CUgraphicsResource,
    hStream: CUstream,
) -> CUresult;

#[unsupported("objects of graphics APIs exist only on the machine of the display")]
#[get_proc("cuGraphicsResourceGetMappedEglFrame", 7000)]
fn cuGraphicsResourceGetMappedEglFrame(
    eglFrame: *mut c_void,
    resource: CUgraphicsResource,
    index: u32,
    mipLevel: u32,
) -> CUresult;

#[unsupported("objects of graphics APIs exist only on the machine of the display")]
#[get_proc("cuGraphicsResourceGetMappedMipmappedArray", 5000)]
fn cuGraphicsResourceGetMappedMipmappedArray(
    pMipmappedArray: *mut CUmipmappedArray,
    resource: CUgraphicsResource,
) -> CUresult;

#[unsupported("objects of graphics APIs exist only on the machine of the display")]
#[get_proc("cuGraphicsResourceGetMappedPointer", 3000)]
fn cuGraphicsResourceGetMappedPointer(
    pDevPtr: *mut CUdeviceptr_v1,
    pSize: *mut u32,
    resource: CUgraphicsResource,
) -> CUresult;

#[unsupported("objects of graphics APIs exist only on the machine of the display")]
#[get_proc("cuGraphicsResourceGetMappedPointer", 3020)]
fn cuGraphicsResourceGetMappedPointer_v2(
    pDevPtr: *mut CUdeviceptr,
    pSize: *mut usize,
    resource: CUgraphicsResource,
) -> CUresult;

#[unsupported("objects of graphics APIs exist only on the machine of the display")]
#[get_proc("cuGraphicsResourceSetMapFlags", 3000)]
fn cuGraphicsResourceSetMapFlags(resource: CUgraphicsResource, flags: u32) -> CUresult;

#[unsupported("objects of graphics APIs exist only on the machine of the display")]
#[get_proc("cuGraphicsResourceSetMapFlags", 6050)]
fn cuGraphicsResourceSetMapFlags_v2(resource: CUgraphicsResource, flags: u32) -> CUresult;

#[unsupported("objects of graphics APIs exist only on the machine of the display")]
#[get_proc("cuGraphicsSubResourceGetMappedArray", 3000)]
fn cuGraphicsSubResourceGetMappedArray(
    pArray: *mut CUarray,
    resource: CUgraphicsResource,
    arrayIndex: u32,
    mipLevel: u32,
) -> CUresult;

#[unsupported("objects of graphics APIs exist only on the machine of the display")]
#[get_proc("cuGraphicsUnmapResources", 3000)] #[per_thread("_ptsz")]
fn cuGraphicsUnmapResources(
    count: u32,
    resources: *mut CUgraphicsResource,
    hStream: CUstream,
) -> CUresult;

#[unsupported("objects of graphics APIs exist only on the machine of the display")]
#[get_proc("cuGraphicsUnregisterResource", 3000)]
fn cuGraphicsUnregisterResource(resource: CUgraphicsResource) -> CUresult;

#[unsupported("objects of graphics APIs exist only on the machine of the display")]
#[get_proc("cuGraphicsVDPAURegisterOutputSurface", 3010)]
fn cuGraphicsVDPAURegisterOutputSurface(
    pCudaResource: *mut CUgraphicsResource,
    vdpSurface: u32,
    flags: u32,
) -> CUresult;

#[unsupported("objects of graphics APIs exist only on the machine of the display")]
#[get_proc("cuGraphicsVDPAURegisterVideoSurface", 3010)]
fn cuGraphicsVDPAURegisterVideoSurface(
    pCudaResource: *mut CUgraphicsResource,
    vdpSurface: u32,
    flags: u32,
) -> CUresult;

#[unsupported("objects of VDPAU exist only on the machine of the display")]
#[get_proc("cuVDPAUCtxCreate", 3010)]
fn cuVDPAUCtxCreate(
    pCtx: *mut CUcontext,
    flags: u32,
    device: CUdevice,
    vdpDevice: u32,
    vdpGetProcAddress: *mut c_void,
) -> CUresult;

#[unsupported("objects of VDPAU exist only on the machine of the display")]
#[get_proc("cuVDPAUCtxCreate", 3020)]
fn cuVDPAUCtxCreate_v2(
    pCtx: *mut CUcontext,
    flags: u32,
    device: CUdevice,
    vdpDevice: u32,
    vdpGetProcAddress: *mut c_void,
) -> CUresult;

#[unsupported("objects of VDPAU exist only on the machine of the display")]
#[get_proc("cuVDPAUGetDevice", 3010)]
fn cuVDPAUGetDevice(
    pDevice: *mut CUdevice,
    vdpDevice: u32,
    vdpGetProcAddress: *mut c_void,
) -> CUresult;

#[unsupported("objects of EGL exist only on the machine of the display")]
#[unexported] #[get_proc("cuEventCreateFromEGLSync", 9000)]
fn cuEventCreateFromEGLSync(
    phEvent: *mut CUevent,
    eglSync: *mut c_void,
    flags: u32,
) -> CUresult;
