//! Structures inside unions of the API: what the blobs of `structs.rs` may hold.

/// `flushRemoteWrites` of [`CUstreamBatchMemOpParams_v1`].
#[layout(size = 8, align = 4, offsets = [0, 4])]
#[repr(C)]
pub struct CUstreamBatchMemOpParams_v1_flushRemoteWrites {
    pub operation: CUstreamBatchMemOpType,
    pub flags: u32,
}
/// `memoryBarrier` of [`CUstreamBatchMemOpParams_v1`].
#[layout(size = 8, align = 4, offsets = [0, 4])]
#[repr(C)]
pub struct CUstreamBatchMemOpParams_v1_memoryBarrier {
    pub operation: CUstreamBatchMemOpType,
    pub flags: u32,
}
/// `info.overBudget` of [`CUasyncNotificationInfo`].
#[layout(size = 8, align = 8, offsets = [0])]
#[repr(C)]
pub struct CUasyncNotificationInfo_info_overBudget {
    pub bytesOverBudget: u64,
}
/// `clusterDim` of [`CUlaunchAttributeValue`].
#[layout(size = 12, align = 4, offsets = [0, 4, 8])]
#[repr(C)]
pub struct CUlaunchAttributeValue_clusterDim {
    pub x: u32,
    pub y: u32,
    pub z: u32,
}
/// `programmaticEvent` of [`CUlaunchAttributeValue`].
#[layout(size = 16, align = 8, offsets = [0, 8, 12])]
#[repr(C)]
pub struct CUlaunchAttributeValue_programmaticEvent {
    pub event: CUevent,
    pub flags: i32,
    pub triggerAtBlockStart: i32,
}
/// `launchCompletionEvent` of [`CUlaunchAttributeValue`].
#[layout(size = 16, align = 8, offsets = [0, 8])]
#[repr(C)]
pub struct CUlaunchAttributeValue_launchCompletionEvent {
    pub event: CUevent,
    pub flags: i32,
}
/// `preferredClusterDim` of [`CUlaunchAttributeValue`].
#[layout(size = 12, align = 4, offsets = [0, 4, 8])]
#[repr(C)]
pub struct CUlaunchAttributeValue_preferredClusterDim {
    pub x: u32,
    pub y: u32,
    pub z: u32,
}
/// `deviceUpdatableKernelNode` of [`CUlaunchAttributeValue`].
#[layout(size = 16, align = 8, offsets = [0, 8])]
#[repr(C)]
pub struct CUlaunchAttributeValue_deviceUpdatableKernelNode {
    pub deviceUpdatable: i32,
    pub devNode: CUgraphDeviceNode,
}
/// `tileExtent` of [`CUDA_ARRAY_SPARSE_PROPERTIES_v1`].
#[layout(size = 12, align = 4, offsets = [0, 4, 8])]
#[repr(C)]
pub struct CUDA_ARRAY_SPARSE_PROPERTIES_v1_tileExtent {
    pub width: u32,
    pub height: u32,
    pub depth: u32,
}
/// `res.array` of [`CUDA_RESOURCE_DESC_v1`].
#[layout(size = 8, align = 8, offsets = [0])]
#[repr(C)]
pub struct CUDA_RESOURCE_DESC_v1_res_array {
    pub hArray: CUarray,
}
/// `res.mipmap` of [`CUDA_RESOURCE_DESC_v1`].
#[layout(size = 8, align = 8, offsets = [0])]
#[repr(C)]
pub struct CUDA_RESOURCE_DESC_v1_res_mipmap {
    pub hMipmappedArray: CUmipmappedArray,
}
/// `res.linear` of [`CUDA_RESOURCE_DESC_v1`].
#[layout(size = 24, align = 8, offsets = [0, 8, 12, 16])]
#[repr(C)]
pub struct CUDA_RESOURCE_DESC_v1_res_linear {
    pub devPtr: CUdeviceptr,
    pub format: CUarray_format,
    pub numChannels: u32,
    pub sizeInBytes: usize,
}
/// `res.pitch2D` of [`CUDA_RESOURCE_DESC_v1`].
#[layout(size = 40, align = 8, offsets = [0, 8, 12, 16, 24, 32])]
#[repr(C)]
pub struct CUDA_RESOURCE_DESC_v1_res_pitch2D {
    pub devPtr: CUdeviceptr,
    pub format: CUarray_format,
    pub numChannels: u32,
    pub width: usize,
    pub height: usize,
    pub pitchInBytes: usize,
}
/// `subresource.sparseLevel` of [`CUarrayMapInfo_v1`].
#[layout(size = 32, align = 4, offsets = [0, 4, 8, 12, 16, 20, 24, 28])]
#[repr(C)]
pub struct CUarrayMapInfo_v1_subresource_sparseLevel {
    pub level: u32,
    pub layer: u32,
    pub offsetX: u32,
    pub offsetY: u32,
    pub offsetZ: u32,
    pub extentWidth: u32,
    pub extentHeight: u32,
    pub extentDepth: u32,
}
/// `subresource.miptail` of [`CUarrayMapInfo_v1`].
#[layout(size = 24, align = 8, offsets = [0, 8, 16])]
#[repr(C)]
pub struct CUarrayMapInfo_v1_subresource_miptail {
    pub layer: u32,
    pub offset: u64,
    pub size: u64,
}
/// `allocFlags` of [`CUmemAllocationProp_v1`].
#[layout(size = 8, align = 2, offsets = [0, 1, 2, 4])]
#[repr(C)]
pub struct CUmemAllocationProp_v1_allocFlags {
    pub compressionType: u8,
    pub gpuDirectRDMACapable: u8,
    pub usage: u16,
    pub reserved: [u8; 4],
}
/// `op.ptr` of [`CUmemcpy3DOperand_v1`].
#[layout(size = 32, align = 8, offsets = [0, 8, 16, 24])]
#[repr(C)]
pub struct CUmemcpy3DOperand_v1_op_ptr {
    pub ptr: CUdeviceptr,
    pub rowLength: usize,
    pub layerHeight: usize,
    pub locHint: CUmemLocation,
}
/// `op.array` of [`CUmemcpy3DOperand_v1`].
#[layout(size = 32, align = 8, offsets = [0, 8])]
#[repr(C)]
pub struct CUmemcpy3DOperand_v1_op_array {
    pub array: CUarray,
    pub offset: CUoffset3D,
}
