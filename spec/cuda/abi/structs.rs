//! Structures; the numbers are those of a C compiler on a 64-bit machine.
//!
//! A field that is an array of plain numbers where C has a union (often called `u`) is that union's
//! bytes: `busbar_abi::member` and `set_member` read and write what it holds, and `members.rs` has
//! the structures that C leaves without a name.

pub type CUdeviceptr = CUdeviceptr_v2;
pub type CUdevice = CUdevice_v1;
pub type CUtexObject = CUtexObject_v1;
pub type CUsurfObject = CUsurfObject_v1;
pub type CUgraphConditionalHandle = u64;
#[layout(size = 16, align = 1, offsets = [0])]
#[repr(C)]
pub struct CUuuid {
    pub bytes: [c_char; 16],
}
#[layout(size = 64, align = 1, offsets = [0])]
#[repr(C)]
pub struct CUmemFabricHandle_v1 {
    pub data: [u8; 64],
}
pub type CUmemFabricHandle = CUmemFabricHandle_v1;
#[layout(size = 64, align = 1, offsets = [0])]
#[repr(C)]
pub struct CUipcEventHandle_v1 {
    pub reserved: [c_char; 64],
}
pub type CUipcEventHandle = CUipcEventHandle_v1;
#[layout(size = 64, align = 1, offsets = [0])]
#[repr(C)]
pub struct CUipcMemHandle_v1 {
    pub reserved: [c_char; 64],
}
pub type CUipcMemHandle = CUipcMemHandle_v1;
#[layout(size = 48, align = 8, offsets = [0])]
#[repr(C)]
pub struct CUstreamBatchMemOpParams_v1 {
    pub u: [u64; 6],
}
pub type CUstreamBatchMemOpParams = CUstreamBatchMemOpParams_v1;
#[layout(size = 32, align = 8, offsets = [0, 8, 16, 24])]
#[repr(C)]
pub struct CUDA_BATCH_MEM_OP_NODE_PARAMS_v1 {
    pub ctx: CUcontext,
    pub count: u32,
    pub paramArray: *mut CUstreamBatchMemOpParams,
    pub flags: u32,
}
pub type CUDA_BATCH_MEM_OP_NODE_PARAMS = CUDA_BATCH_MEM_OP_NODE_PARAMS_v1;
#[layout(size = 32, align = 8, offsets = [0, 8, 16, 24])]
#[repr(C)]
pub struct CUDA_BATCH_MEM_OP_NODE_PARAMS_v2 {
    pub ctx: CUcontext,
    pub count: u32,
    pub paramArray: *mut CUstreamBatchMemOpParams,
    pub flags: u32,
}
#[layout(size = 16, align = 8, offsets = [0, 8])]
#[repr(C)]
pub struct CUasyncNotificationInfo {
    pub r#type: CUasyncNotificationType,
    pub info: [u64; 1],
}
#[layout(size = 56, align = 4, offsets = [0, 4, 16, 28, 32, 36, 40, 44, 48, 52])]
#[repr(C)]
pub struct CUdevprop_v1 {
    pub maxThreadsPerBlock: i32,
    pub maxThreadsDim: [i32; 3],
    pub maxGridSize: [i32; 3],
    pub sharedMemPerBlock: i32,
    pub totalConstantMemory: i32,
    pub SIMDWidth: i32,
    pub memPitch: i32,
    pub regsPerBlock: i32,
    pub clockRate: i32,
    pub textureAlign: i32,
}
pub type CUdevprop = CUdevprop_v1;
#[layout(size = 32, align = 8, offsets = [0, 8, 16, 20, 24])]
#[repr(C)]
pub struct CUaccessPolicyWindow_v1 {
    pub base_ptr: *mut c_void,
    pub num_bytes: usize,
    pub hitRatio: f32,
    pub hitProp: CUaccessProperty,
    pub missProp: CUaccessProperty,
}
pub type CUaccessPolicyWindow = CUaccessPolicyWindow_v1;
#[layout(size = 56, align = 8, offsets = [0, 8, 12, 16, 20, 24, 28, 32, 40, 48])]
#[repr(C)]
pub struct CUDA_KERNEL_NODE_PARAMS_v1 {
    pub func: CUfunction,
    pub gridDimX: u32,
    pub gridDimY: u32,
    pub gridDimZ: u32,
    pub blockDimX: u32,
    pub blockDimY: u32,
    pub blockDimZ: u32,
    pub sharedMemBytes: u32,
    pub kernelParams: *mut *mut c_void,
    pub extra: *mut *mut c_void,
}
#[layout(size = 72, align = 8, offsets = [0, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64])]
#[repr(C)]
pub struct CUDA_KERNEL_NODE_PARAMS_v2 {
    pub func: CUfunction,
    pub gridDimX: u32,
    pub gridDimY: u32,
    pub gridDimZ: u32,
    pub blockDimX: u32,
    pub blockDimY: u32,
    pub blockDimZ: u32,
    pub sharedMemBytes: u32,
    pub kernelParams: *mut *mut c_void,
    pub extra: *mut *mut c_void,
    pub kern: CUkernel,
    pub ctx: CUcontext,
}
pub type CUDA_KERNEL_NODE_PARAMS = CUDA_KERNEL_NODE_PARAMS_v2;
#[layout(size = 72, align = 8, offsets = [0, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64])]
#[repr(C)]
pub struct CUDA_KERNEL_NODE_PARAMS_v3 {
    pub func: CUfunction,
    pub gridDimX: u32,
    pub gridDimY: u32,
    pub gridDimZ: u32,
    pub blockDimX: u32,
    pub blockDimY: u32,
    pub blockDimZ: u32,
    pub sharedMemBytes: u32,
    pub kernelParams: *mut *mut c_void,
    pub extra: *mut *mut c_void,
    pub kern: CUkernel,
    pub ctx: CUcontext,
}
#[layout(size = 40, align = 8, offsets = [0, 8, 16, 20, 24, 32])]
#[repr(C)]
pub struct CUDA_MEMSET_NODE_PARAMS_v1 {
    pub dst: CUdeviceptr,
    pub pitch: usize,
    pub value: u32,
    pub elementSize: u32,
    pub width: usize,
    pub height: usize,
}
pub type CUDA_MEMSET_NODE_PARAMS = CUDA_MEMSET_NODE_PARAMS_v1;
#[layout(size = 48, align = 8, offsets = [0, 8, 16, 20, 24, 32, 40])]
#[repr(C)]
pub struct CUDA_MEMSET_NODE_PARAMS_v2 {
    pub dst: CUdeviceptr,
    pub pitch: usize,
    pub value: u32,
    pub elementSize: u32,
    pub width: usize,
    pub height: usize,
    pub ctx: CUcontext,
}
#[layout(size = 16, align = 8, offsets = [0, 8])]
#[repr(C)]
pub struct CUDA_HOST_NODE_PARAMS_v1 {
    pub r#fn: CUhostFn,
    pub userData: *mut c_void,
}
pub type CUDA_HOST_NODE_PARAMS = CUDA_HOST_NODE_PARAMS_v1;
#[layout(size = 16, align = 8, offsets = [0, 8])]
#[repr(C)]
pub struct CUDA_HOST_NODE_PARAMS_v2 {
    pub r#fn: CUhostFn,
    pub userData: *mut c_void,
}
#[layout(size = 32, align = 8, offsets = [0, 8, 12, 16, 24])]
#[repr(C)]
pub struct CUDA_CONDITIONAL_NODE_PARAMS {
    pub handle: CUgraphConditionalHandle,
    pub r#type: CUgraphConditionalNodeType,
    pub size: u32,
    pub phGraph_out: *mut CUgraph,
    pub ctx: CUcontext,
}
#[layout(size = 8, align = 1, offsets = [0, 1, 2, 3])]
#[repr(C)]
pub struct CUgraphEdgeData {
    pub from_port: u8,
    pub to_port: u8,
    pub r#type: u8,
    pub reserved: [u8; 5],
}
#[layout(size = 32, align = 8, offsets = [0, 8, 16, 24])]
#[repr(C)]
pub struct CUDA_GRAPH_INSTANTIATE_PARAMS {
    pub flags: u64,
    pub hUploadStream: CUstream,
    pub hErrNode_out: CUgraphNode,
    pub result_out: CUgraphInstantiateResult,
}
#[layout(size = 2, align = 1, offsets = [0, 1])]
#[repr(C)]
pub struct CUlaunchMemSyncDomainMap {
    pub default_: u8,
    pub remote: u8,
}
#[layout(size = 64, align = 8, offsets = [0])]
#[repr(C)]
pub struct CUlaunchAttributeValue {
    pub u: [u64; 8],
}
#[layout(size = 72, align = 8, offsets = [0, 4, 8])]
#[repr(C)]
pub struct CUlaunchAttribute {
    pub id: CUlaunchAttributeID,
    pub pad: [c_char; 4],
    pub value: CUlaunchAttributeValue,
}
#[layout(size = 56, align = 8, offsets = [0, 4, 8, 12, 16, 20, 24, 32, 40, 48])]
#[repr(C)]
pub struct CUlaunchConfig {
    pub gridDimX: u32,
    pub gridDimY: u32,
    pub gridDimZ: u32,
    pub blockDimX: u32,
    pub blockDimY: u32,
    pub blockDimZ: u32,
    pub sharedMemBytes: u32,
    pub hStream: CUstream,
    pub attrs: *mut CUlaunchAttribute,
    pub numAttrs: u32,
}
pub type CUkernelNodeAttrValue_v1 = CUlaunchAttributeValue;
pub type CUkernelNodeAttrValue = CUkernelNodeAttrValue_v1;
pub type CUstreamAttrValue_v1 = CUlaunchAttributeValue;
pub type CUstreamAttrValue = CUstreamAttrValue_v1;
#[layout(size = 4, align = 4, offsets = [0])]
#[repr(C)]
pub struct CUexecAffinitySmCount_v1 {
    pub val: u32,
}
pub type CUexecAffinitySmCount = CUexecAffinitySmCount_v1;
#[layout(size = 8, align = 4, offsets = [0, 4])]
#[repr(C)]
pub struct CUexecAffinityParam_v1 {
    pub r#type: CUexecAffinityType,
    pub param: [u32; 1],
}
pub type CUexecAffinityParam = CUexecAffinityParam_v1;
#[layout(size = 16, align = 8, offsets = [0, 8])]
#[repr(C)]
pub struct CUctxCigParam {
    pub sharedDataType: CUcigDataType,
    pub sharedData: *mut c_void,
}
#[layout(size = 24, align = 8, offsets = [0, 8, 16])]
#[repr(C)]
pub struct CUctxCreateParams {
    pub execAffinityParams: *mut CUexecAffinityParam,
    pub numExecAffinityParams: i32,
    pub cigParams: *mut CUctxCigParam,
}
#[layout(size = 32, align = 8, offsets = [0, 8, 16, 24])]
#[repr(C)]
pub struct CUlibraryHostUniversalFunctionAndDataTable {
    pub functionTable: *mut c_void,
    pub functionWindowSize: usize,
    pub dataTable: *mut c_void,
    pub dataWindowSize: usize,
}
#[layout(size = 128, align = 8, offsets = [0, 8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112, 120])]
#[repr(C)]
pub struct CUDA_MEMCPY2D_v2 {
    pub srcXInBytes: usize,
    pub srcY: usize,
    pub srcMemoryType: CUmemorytype,
    pub srcHost: *const c_void,
    pub srcDevice: CUdeviceptr,
    pub srcArray: CUarray,
    pub srcPitch: usize,
    pub dstXInBytes: usize,
    pub dstY: usize,
    pub dstMemoryType: CUmemorytype,
    pub dstHost: *mut c_void,
    pub dstDevice: CUdeviceptr,
    pub dstArray: CUarray,
    pub dstPitch: usize,
    pub WidthInBytes: usize,
    pub Height: usize,
}
pub type CUDA_MEMCPY2D = CUDA_MEMCPY2D_v2;
#[layout(size = 200, align = 8, offsets = [0, 8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112, 120, 128, 136, 144, 152, 160, 168, 176, 184, 192])]
#[repr(C)]
pub struct CUDA_MEMCPY3D_v2 {
    pub srcXInBytes: usize,
    pub srcY: usize,
    pub srcZ: usize,
    pub srcLOD: usize,
    pub srcMemoryType: CUmemorytype,
    pub srcHost: *const c_void,
    pub srcDevice: CUdeviceptr,
    pub srcArray: CUarray,
    pub reserved0: *mut c_void,
    pub srcPitch: usize,
    pub srcHeight: usize,
    pub dstXInBytes: usize,
    pub dstY: usize,
    pub dstZ: usize,
    pub dstLOD: usize,
    pub dstMemoryType: CUmemorytype,
    pub dstHost: *mut c_void,
    pub dstDevice: CUdeviceptr,
    pub dstArray: CUarray,
    pub reserved1: *mut c_void,
    pub dstPitch: usize,
    pub dstHeight: usize,
    pub WidthInBytes: usize,
    pub Height: usize,
    pub Depth: usize,
}
pub type CUDA_MEMCPY3D = CUDA_MEMCPY3D_v2;
#[layout(size = 200, align = 8, offsets = [0, 8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112, 120, 128, 136, 144, 152, 160, 168, 176, 184, 192])]
#[repr(C)]
pub struct CUDA_MEMCPY3D_PEER_v1 {
    pub srcXInBytes: usize,
    pub srcY: usize,
    pub srcZ: usize,
    pub srcLOD: usize,
    pub srcMemoryType: CUmemorytype,
    pub srcHost: *const c_void,
    pub srcDevice: CUdeviceptr,
    pub srcArray: CUarray,
    pub srcContext: CUcontext,
    pub srcPitch: usize,
    pub srcHeight: usize,
    pub dstXInBytes: usize,
    pub dstY: usize,
    pub dstZ: usize,
    pub dstLOD: usize,
    pub dstMemoryType: CUmemorytype,
    pub dstHost: *mut c_void,
    pub dstDevice: CUdeviceptr,
    pub dstArray: CUarray,
    pub dstContext: CUcontext,
    pub dstPitch: usize,
    pub dstHeight: usize,
    pub WidthInBytes: usize,
    pub Height: usize,
    pub Depth: usize,
}
pub type CUDA_MEMCPY3D_PEER = CUDA_MEMCPY3D_PEER_v1;
#[layout(size = 216, align = 8, offsets = [0, 4, 8, 16])]
#[repr(C)]
pub struct CUDA_MEMCPY_NODE_PARAMS {
    pub flags: i32,
    pub reserved: i32,
    pub copyCtx: CUcontext,
    pub copyParams: CUDA_MEMCPY3D,
}
#[layout(size = 24, align = 8, offsets = [0, 8, 16, 20])]
#[repr(C)]
pub struct CUDA_ARRAY_DESCRIPTOR_v2 {
    pub Width: usize,
    pub Height: usize,
    pub Format: CUarray_format,
    pub NumChannels: u32,
}
pub type CUDA_ARRAY_DESCRIPTOR = CUDA_ARRAY_DESCRIPTOR_v2;
#[layout(size = 40, align = 8, offsets = [0, 8, 16, 24, 28, 32])]
#[repr(C)]
pub struct CUDA_ARRAY3D_DESCRIPTOR_v2 {
    pub Width: usize,
    pub Height: usize,
    pub Depth: usize,
    pub Format: CUarray_format,
    pub NumChannels: u32,
    pub Flags: u32,
}
pub type CUDA_ARRAY3D_DESCRIPTOR = CUDA_ARRAY3D_DESCRIPTOR_v2;
#[layout(size = 48, align = 8, offsets = [0, 12, 16, 24, 28])]
#[repr(C)]
pub struct CUDA_ARRAY_SPARSE_PROPERTIES_v1 {
    pub tileExtent: [u32; 3],
    pub miptailFirstLevel: u32,
    pub miptailSize: u64,
    pub flags: u32,
    pub reserved: [u32; 4],
}
pub type CUDA_ARRAY_SPARSE_PROPERTIES = CUDA_ARRAY_SPARSE_PROPERTIES_v1;
#[layout(size = 32, align = 8, offsets = [0, 8, 16])]
#[repr(C)]
pub struct CUDA_ARRAY_MEMORY_REQUIREMENTS_v1 {
    pub size: usize,
    pub alignment: usize,
    pub reserved: [u32; 4],
}
pub type CUDA_ARRAY_MEMORY_REQUIREMENTS = CUDA_ARRAY_MEMORY_REQUIREMENTS_v1;
#[layout(size = 144, align = 8, offsets = [0, 8, 136])]
#[repr(C)]
pub struct CUDA_RESOURCE_DESC_v1 {
    pub resType: CUresourcetype,
    pub res: [u64; 16],
    pub flags: u32,
}
pub type CUDA_RESOURCE_DESC = CUDA_RESOURCE_DESC_v1;
#[layout(size = 104, align = 4, offsets = [0, 12, 16, 20, 24, 28, 32, 36, 40, 56])]
#[repr(C)]
pub struct CUDA_TEXTURE_DESC_v1 {
    pub addressMode: [CUaddress_mode; 3],
    pub filterMode: CUfilter_mode,
    pub flags: u32,
    pub maxAnisotropy: u32,
    pub mipmapFilterMode: CUfilter_mode,
    pub mipmapLevelBias: f32,
    pub minMipmapLevelClamp: f32,
    pub maxMipmapLevelClamp: f32,
    pub borderColor: [f32; 4],
    pub reserved: [i32; 12],
}
pub type CUDA_TEXTURE_DESC = CUDA_TEXTURE_DESC_v1;
#[layout(size = 112, align = 8, offsets = [0, 8, 16, 24, 32, 36, 40, 44, 48])]
#[repr(C)]
pub struct CUDA_RESOURCE_VIEW_DESC_v1 {
    pub format: CUresourceViewFormat,
    pub width: usize,
    pub height: usize,
    pub depth: usize,
    pub firstMipmapLevel: u32,
    pub lastMipmapLevel: u32,
    pub firstLayer: u32,
    pub lastLayer: u32,
    pub reserved: [u32; 16],
}
pub type CUDA_RESOURCE_VIEW_DESC = CUDA_RESOURCE_VIEW_DESC_v1;
#[layout(size = 128, align = 128, offsets = [0])]
#[repr(C, align(128))]
pub struct CUtensorMap {
    pub opaque: [u64; 16],
}
#[layout(size = 16, align = 8, offsets = [0, 8])]
#[repr(C)]
pub struct CUDA_POINTER_ATTRIBUTE_P2P_TOKENS_v1 {
    pub p2pToken: u64,
    pub vaSpaceToken: u32,
}
pub type CUDA_POINTER_ATTRIBUTE_P2P_TOKENS = CUDA_POINTER_ATTRIBUTE_P2P_TOKENS_v1;
#[layout(size = 56, align = 8, offsets = [0, 8, 12, 16, 20, 24, 28, 32, 40, 48])]
#[repr(C)]
pub struct CUDA_LAUNCH_PARAMS_v1 {
    pub function: CUfunction,
    pub gridDimX: u32,
    pub gridDimY: u32,
    pub gridDimZ: u32,
    pub blockDimX: u32,
    pub blockDimY: u32,
    pub blockDimZ: u32,
    pub sharedMemBytes: u32,
    pub hStream: CUstream,
    pub kernelParams: *mut *mut c_void,
}
pub type CUDA_LAUNCH_PARAMS = CUDA_LAUNCH_PARAMS_v1;
#[layout(size = 104, align = 8, offsets = [0, 8, 24, 32, 36])]
#[repr(C)]
pub struct CUDA_EXTERNAL_MEMORY_HANDLE_DESC_v1 {
    pub r#type: CUexternalMemoryHandleType,
    pub handle: [u64; 2],
    pub size: u64,
    pub flags: u32,
    pub reserved: [u32; 16],
}
pub type CUDA_EXTERNAL_MEMORY_HANDLE_DESC = CUDA_EXTERNAL_MEMORY_HANDLE_DESC_v1;
#[layout(size = 88, align = 8, offsets = [0, 8, 16, 20])]
#[repr(C)]
pub struct CUDA_EXTERNAL_MEMORY_BUFFER_DESC_v1 {
    pub offset: u64,
    pub size: u64,
    pub flags: u32,
    pub reserved: [u32; 16],
}
pub type CUDA_EXTERNAL_MEMORY_BUFFER_DESC = CUDA_EXTERNAL_MEMORY_BUFFER_DESC_v1;
#[layout(size = 120, align = 8, offsets = [0, 8, 48, 52])]
#[repr(C)]
pub struct CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC_v1 {
    pub offset: u64,
    pub arrayDesc: CUDA_ARRAY3D_DESCRIPTOR,
    pub numLevels: u32,
    pub reserved: [u32; 16],
}
pub type CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC = CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC_v1;
#[layout(size = 96, align = 8, offsets = [0, 8, 24, 28])]
#[repr(C)]
pub struct CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC_v1 {
    pub r#type: CUexternalSemaphoreHandleType,
    pub handle: [u64; 2],
    pub flags: u32,
    pub reserved: [u32; 16],
}
pub type CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC = CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC_v1;
#[layout(size = 144, align = 8, offsets = [0, 72, 76])]
#[repr(C)]
pub struct CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS_v1 {
    pub params: [u64; 9],
    pub flags: u32,
    pub reserved: [u32; 16],
}
pub type CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS = CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS_v1;
#[layout(size = 144, align = 8, offsets = [0, 72, 76])]
#[repr(C)]
pub struct CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS_v1 {
    pub params: [u64; 9],
    pub flags: u32,
    pub reserved: [u32; 16],
}
pub type CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS = CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS_v1;
#[layout(size = 24, align = 8, offsets = [0, 8, 16])]
#[repr(C)]
pub struct CUDA_EXT_SEM_SIGNAL_NODE_PARAMS_v1 {
    pub extSemArray: *mut CUexternalSemaphore,
    pub paramsArray: *const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS,
    pub numExtSems: u32,
}
pub type CUDA_EXT_SEM_SIGNAL_NODE_PARAMS = CUDA_EXT_SEM_SIGNAL_NODE_PARAMS_v1;
#[layout(size = 24, align = 8, offsets = [0, 8, 16])]
#[repr(C)]
pub struct CUDA_EXT_SEM_SIGNAL_NODE_PARAMS_v2 {
    pub extSemArray: *mut CUexternalSemaphore,
    pub paramsArray: *const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS,
    pub numExtSems: u32,
}
#[layout(size = 24, align = 8, offsets = [0, 8, 16])]
#[repr(C)]
pub struct CUDA_EXT_SEM_WAIT_NODE_PARAMS_v1 {
    pub extSemArray: *mut CUexternalSemaphore,
    pub paramsArray: *const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS,
    pub numExtSems: u32,
}
pub type CUDA_EXT_SEM_WAIT_NODE_PARAMS = CUDA_EXT_SEM_WAIT_NODE_PARAMS_v1;
#[layout(size = 24, align = 8, offsets = [0, 8, 16])]
#[repr(C)]
pub struct CUDA_EXT_SEM_WAIT_NODE_PARAMS_v2 {
    pub extSemArray: *mut CUexternalSemaphore,
    pub paramsArray: *const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS,
    pub numExtSems: u32,
}
pub type CUmemGenericAllocationHandle = CUmemGenericAllocationHandle_v1;
#[layout(size = 96, align = 8, offsets = [0, 8, 16, 24, 56, 60, 64, 72, 80, 84, 88])]
#[repr(C)]
pub struct CUarrayMapInfo_v1 {
    pub resourceType: CUresourcetype,
    pub resource: [u64; 1],
    pub subresourceType: CUarraySparseSubresourceType,
    pub subresource: [u64; 4],
    pub memOperationType: CUmemOperationType,
    pub memHandleType: CUmemHandleType,
    pub memHandle: [u64; 1],
    pub offset: u64,
    pub deviceBitMask: u32,
    pub flags: u32,
    pub reserved: [u32; 2],
}
pub type CUarrayMapInfo = CUarrayMapInfo_v1;
#[layout(size = 8, align = 4, offsets = [0, 4])]
#[repr(C)]
pub struct CUmemLocation_v1 {
    pub r#type: CUmemLocationType,
    pub id: i32,
}
pub type CUmemLocation = CUmemLocation_v1;
#[layout(size = 32, align = 8, offsets = [0, 4, 8, 16, 24])]
#[repr(C)]
pub struct CUmemAllocationProp_v1 {
    pub r#type: CUmemAllocationType,
    pub requestedHandleTypes: CUmemAllocationHandleType,
    pub location: CUmemLocation,
    pub win32HandleMetaData: *mut c_void,
    pub allocFlags: [u16; 4],
}
pub type CUmemAllocationProp = CUmemAllocationProp_v1;
#[layout(size = 32, align = 8, offsets = [0, 8, 16, 24])]
#[repr(C)]
pub struct CUmulticastObjectProp_v1 {
    pub numDevices: u32,
    pub size: usize,
    pub handleTypes: u64,
    pub flags: u64,
}
pub type CUmulticastObjectProp = CUmulticastObjectProp_v1;
#[layout(size = 12, align = 4, offsets = [0, 8])]
#[repr(C)]
pub struct CUmemAccessDesc_v1 {
    pub location: CUmemLocation,
    pub flags: CUmemAccess_flags,
}
pub type CUmemAccessDesc = CUmemAccessDesc_v1;
#[layout(size = 24, align = 8, offsets = [0, 8, 16])]
#[repr(C)]
pub struct CUgraphExecUpdateResultInfo_v1 {
    pub result: CUgraphExecUpdateResult,
    pub errorNode: CUgraphNode,
    pub errorFromNode: CUgraphNode,
}
pub type CUgraphExecUpdateResultInfo = CUgraphExecUpdateResultInfo_v1;
#[layout(size = 88, align = 8, offsets = [0, 4, 8, 16, 24, 32, 34])]
#[repr(C)]
pub struct CUmemPoolProps_v1 {
    pub allocType: CUmemAllocationType,
    pub handleTypes: CUmemAllocationHandleType,
    pub location: CUmemLocation,
    pub win32SecurityAttributes: *mut c_void,
    pub maxSize: usize,
    pub usage: u16,
    pub reserved: [u8; 54],
}
pub type CUmemPoolProps = CUmemPoolProps_v1;
#[layout(size = 64, align = 1, offsets = [0])]
#[repr(C)]
pub struct CUmemPoolPtrExportData_v1 {
    pub reserved: [u8; 64],
}
pub type CUmemPoolPtrExportData = CUmemPoolPtrExportData_v1;
#[layout(size = 24, align = 4, offsets = [0, 4, 12, 20])]
#[repr(C)]
pub struct CUmemcpyAttributes_v1 {
    pub srcAccessOrder: CUmemcpySrcAccessOrder,
    pub srcLocHint: CUmemLocation,
    pub dstLocHint: CUmemLocation,
    pub flags: u32,
}
pub type CUmemcpyAttributes = CUmemcpyAttributes_v1;
#[layout(size = 24, align = 8, offsets = [0, 8, 16])]
#[repr(C)]
pub struct CUoffset3D_v1 {
    pub x: usize,
    pub y: usize,
    pub z: usize,
}
pub type CUoffset3D = CUoffset3D_v1;
#[layout(size = 24, align = 8, offsets = [0, 8, 16])]
#[repr(C)]
pub struct CUextent3D_v1 {
    pub width: usize,
    pub height: usize,
    pub depth: usize,
}
pub type CUextent3D = CUextent3D_v1;
#[layout(size = 40, align = 8, offsets = [0, 8])]
#[repr(C)]
pub struct CUmemcpy3DOperand_v1 {
    pub r#type: CUmemcpy3DOperandType,
    pub op: [u64; 4],
}
pub type CUmemcpy3DOperand = CUmemcpy3DOperand_v1;
#[layout(size = 112, align = 8, offsets = [0, 40, 80, 104, 108])]
#[repr(C)]
pub struct CUDA_MEMCPY3D_BATCH_OP_v1 {
    pub src: CUmemcpy3DOperand,
    pub dst: CUmemcpy3DOperand,
    pub extent: CUextent3D,
    pub srcAccessOrder: CUmemcpySrcAccessOrder,
    pub flags: u32,
}
pub type CUDA_MEMCPY3D_BATCH_OP = CUDA_MEMCPY3D_BATCH_OP_v1;
#[layout(size = 120, align = 8, offsets = [0, 88, 96, 104, 112])]
#[repr(C)]
pub struct CUDA_MEM_ALLOC_NODE_PARAMS_v1 {
    pub poolProps: CUmemPoolProps,
    pub accessDescs: *const CUmemAccessDesc,
    pub accessDescCount: usize,
    pub bytesize: usize,
    pub dptr: CUdeviceptr,
}
pub type CUDA_MEM_ALLOC_NODE_PARAMS = CUDA_MEM_ALLOC_NODE_PARAMS_v1;
#[layout(size = 120, align = 8, offsets = [0, 88, 96, 104, 112])]
#[repr(C)]
pub struct CUDA_MEM_ALLOC_NODE_PARAMS_v2 {
    pub poolProps: CUmemPoolProps,
    pub accessDescs: *const CUmemAccessDesc,
    pub accessDescCount: usize,
    pub bytesize: usize,
    pub dptr: CUdeviceptr,
}
#[layout(size = 8, align = 8, offsets = [0])]
#[repr(C)]
pub struct CUDA_MEM_FREE_NODE_PARAMS {
    pub dptr: CUdeviceptr,
}
#[layout(size = 16, align = 8, offsets = [0, 8])]
#[repr(C)]
pub struct CUDA_CHILD_GRAPH_NODE_PARAMS {
    pub graph: CUgraph,
    pub ownership: CUgraphChildGraphNodeOwnership,
}
#[layout(size = 8, align = 8, offsets = [0])]
#[repr(C)]
pub struct CUDA_EVENT_RECORD_NODE_PARAMS {
    pub event: CUevent,
}
#[layout(size = 8, align = 8, offsets = [0])]
#[repr(C)]
pub struct CUDA_EVENT_WAIT_NODE_PARAMS {
    pub event: CUevent,
}
#[layout(size = 256, align = 8, offsets = [0, 4, 16, 248])]
#[repr(C)]
pub struct CUgraphNodeParams {
    pub r#type: CUgraphNodeType,
    pub reserved0: [i32; 3],
    pub u: [u64; 29],
    pub reserved2: i64,
}
#[layout(size = 64, align = 8, offsets = [0, 4, 8])]
#[repr(C)]
pub struct CUcheckpointLockArgs {
    pub timeoutMs: u32,
    pub reserved0: u32,
    pub reserved1: [u64; 7],
}
#[layout(size = 64, align = 8, offsets = [0])]
#[repr(C)]
pub struct CUcheckpointCheckpointArgs {
    pub reserved: [u64; 8],
}
#[layout(size = 32, align = 1, offsets = [0, 16])]
#[repr(C)]
pub struct CUcheckpointGpuPair {
    pub oldUuid: CUuuid,
    pub newUuid: CUuuid,
}
#[layout(size = 64, align = 8, offsets = [0, 8, 12, 56])]
#[repr(C)]
pub struct CUcheckpointRestoreArgs {
    pub gpuPairs: *mut CUcheckpointGpuPair,
    pub gpuPairsCount: u32,
    pub reserved: [c_char; 44],
    pub reserved1: u64,
}
#[layout(size = 64, align = 8, offsets = [0])]
#[repr(C)]
pub struct CUcheckpointUnlockArgs {
    pub reserved: [u64; 8],
}
#[layout(size = 64, align = 8, offsets = [0, 8, 16, 24, 32, 40, 44])]
#[repr(C)]
pub struct CUmemDecompressParams {
    pub srcNumBytes: usize,
    pub dstNumBytes: usize,
    pub dstActBytes: *mut u32,
    pub src: *const c_void,
    pub dst: *mut c_void,
    pub algo: CUmemDecompressAlgorithm,
    pub padding: [u8; 20],
}
#[layout(size = 12, align = 4, offsets = [0, 4, 8])]
#[repr(C)]
pub struct CUdevSmResource {
    pub smCount: u32,
    pub minSmPartitionSize: u32,
    pub smCoscheduledAlignment: u32,
}
#[layout(size = 144, align = 4, offsets = [0, 4, 96])]
#[repr(C)]
pub struct CUdevResource_v1 {
    pub r#type: CUdevResourceType,
    pub _internal_padding: [u8; 92],
    pub u: [u32; 12],
}
pub type CUdevResource = CUdevResource_v1;
#[layout(size = 96, align = 8, offsets = [0, 4, 8, 16, 24, 32, 40, 44, 48, 52, 56, 64, 72, 80, 84, 88])]
#[repr(C)]
pub struct CUDA_MEMCPY2D_v1 {
    pub srcXInBytes: u32,
    pub srcY: u32,
    pub srcMemoryType: CUmemorytype,
    pub srcHost: *const c_void,
    pub srcDevice: CUdeviceptr_v1,
    pub srcArray: CUarray,
    pub srcPitch: u32,
    pub dstXInBytes: u32,
    pub dstY: u32,
    pub dstMemoryType: CUmemorytype,
    pub dstHost: *mut c_void,
    pub dstDevice: CUdeviceptr_v1,
    pub dstArray: CUarray,
    pub dstPitch: u32,
    pub WidthInBytes: u32,
    pub Height: u32,
}
#[layout(size = 144, align = 8, offsets = [0, 4, 8, 12, 16, 24, 32, 40, 48, 56, 60, 64, 68, 72, 76, 80, 88, 96, 104, 112, 120, 124, 128, 132, 136])]
#[repr(C)]
pub struct CUDA_MEMCPY3D_v1 {
    pub srcXInBytes: u32,
    pub srcY: u32,
    pub srcZ: u32,
    pub srcLOD: u32,
    pub srcMemoryType: CUmemorytype,
    pub srcHost: *const c_void,
    pub srcDevice: CUdeviceptr_v1,
    pub srcArray: CUarray,
    pub reserved0: *mut c_void,
    pub srcPitch: u32,
    pub srcHeight: u32,
    pub dstXInBytes: u32,
    pub dstY: u32,
    pub dstZ: u32,
    pub dstLOD: u32,
    pub dstMemoryType: CUmemorytype,
    pub dstHost: *mut c_void,
    pub dstDevice: CUdeviceptr_v1,
    pub dstArray: CUarray,
    pub reserved1: *mut c_void,
    pub dstPitch: u32,
    pub dstHeight: u32,
    pub WidthInBytes: u32,
    pub Height: u32,
    pub Depth: u32,
}
#[layout(size = 16, align = 4, offsets = [0, 4, 8, 12])]
#[repr(C)]
pub struct CUDA_ARRAY_DESCRIPTOR_v1 {
    pub Width: u32,
    pub Height: u32,
    pub Format: CUarray_format,
    pub NumChannels: u32,
}
#[layout(size = 24, align = 4, offsets = [0, 4, 8, 12, 16, 20])]
#[repr(C)]
pub struct CUDA_ARRAY3D_DESCRIPTOR_v1 {
    pub Width: u32,
    pub Height: u32,
    pub Depth: u32,
    pub Format: CUarray_format,
    pub NumChannels: u32,
    pub Flags: u32,
}
