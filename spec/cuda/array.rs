//! Arrays and mipmapped arrays.

#[unsupported("takes 32-bit addresses and sizes; superseded")] #[get_proc("cuArray3DCreate", 2000)]
fn cuArray3DCreate(
    pHandle: *mut CUarray,
    pAllocateArray: *const CUDA_ARRAY3D_DESCRIPTOR_v1,
) -> CUresult;

#[id(0x1001)] #[waits] #[by_hand(worker)] #[disturbs] #[get_proc("cuArray3DCreate", 3020)]
fn cuArray3DCreate_v2(
    #[new] pHandle: *mut CUarray,
    #[in_ref] pAllocateArray: *const CUDA_ARRAY3D_DESCRIPTOR,
) -> CUresult;

#[unsupported("takes 32-bit addresses and sizes; superseded")]
#[get_proc("cuArray3DGetDescriptor", 2000)]
fn cuArray3DGetDescriptor(
    pArrayDescriptor: *mut CUDA_ARRAY3D_DESCRIPTOR_v1,
    hArray: CUarray,
) -> CUresult;

#[id(0x1002)] #[waits] #[get_proc("cuArray3DGetDescriptor", 3020)]
fn cuArray3DGetDescriptor_v2(
    #[out] pArrayDescriptor: *mut CUDA_ARRAY3D_DESCRIPTOR,
    #[handle] hArray: CUarray,
) -> CUresult;

#[unsupported("takes 32-bit addresses and sizes; superseded")] #[get_proc("cuArrayCreate", 2000)]
fn cuArrayCreate(
    pHandle: *mut CUarray,
    pAllocateArray: *const CUDA_ARRAY_DESCRIPTOR_v1,
) -> CUresult;

#[id(0x1003)] #[waits] #[by_hand(worker)] #[disturbs] #[get_proc("cuArrayCreate", 3020)]
fn cuArrayCreate_v2(
    #[new] pHandle: *mut CUarray,
    #[in_ref] pAllocateArray: *const CUDA_ARRAY_DESCRIPTOR,
) -> CUresult;

#[id(0x1004)] #[queued] #[get_proc("cuArrayDestroy", 2000)]
fn cuArrayDestroy(#[del] hArray: CUarray) -> CUresult;

#[unsupported("takes 32-bit addresses and sizes; superseded")]
#[get_proc("cuArrayGetDescriptor", 2000)]
fn cuArrayGetDescriptor(
    pArrayDescriptor: *mut CUDA_ARRAY_DESCRIPTOR_v1,
    hArray: CUarray,
) -> CUresult;

#[id(0x1005)] #[waits] #[get_proc("cuArrayGetDescriptor", 3020)]
fn cuArrayGetDescriptor_v2(
    #[out] pArrayDescriptor: *mut CUDA_ARRAY_DESCRIPTOR,
    #[handle] hArray: CUarray,
) -> CUresult;

#[id(0x1006)] #[waits] #[get_proc("cuArrayGetMemoryRequirements", 11060)]
fn cuArrayGetMemoryRequirements(
    #[out] memoryRequirements: *mut CUDA_ARRAY_MEMORY_REQUIREMENTS,
    #[handle(not_null)] array: CUarray,
    device: CUdevice,
) -> CUresult;

#[id(0x1007)] #[waits] #[get_proc("cuArrayGetPlane", 11020)]
fn cuArrayGetPlane(
    #[new] pPlaneArray: *mut CUarray,
    #[handle] hArray: CUarray,
    planeIdx: u32,
) -> CUresult;

#[id(0x1008)] #[waits] #[get_proc("cuArrayGetSparseProperties", 11010)]
fn cuArrayGetSparseProperties(
    #[out] sparseProperties: *mut CUDA_ARRAY_SPARSE_PROPERTIES,
    #[handle(not_null)] array: CUarray,
) -> CUresult;

#[id(0x1009)] #[waits] #[by_hand(worker)] #[disturbs] #[get_proc("cuMipmappedArrayCreate", 5000)]
fn cuMipmappedArrayCreate(
    #[new] pHandle: *mut CUmipmappedArray,
    #[in_ref] pMipmappedArrayDesc: *const CUDA_ARRAY3D_DESCRIPTOR,
    numMipmapLevels: u32,
) -> CUresult;

#[id(0x100a)] #[queued] #[get_proc("cuMipmappedArrayDestroy", 5000)]
fn cuMipmappedArrayDestroy(#[del] hMipmappedArray: CUmipmappedArray) -> CUresult;

#[id(0x100b)] #[waits] #[get_proc("cuMipmappedArrayGetLevel", 5000)]
fn cuMipmappedArrayGetLevel(
    #[new] pLevelArray: *mut CUarray,
    #[handle] hMipmappedArray: CUmipmappedArray,
    level: u32,
) -> CUresult;

#[id(0x100c)] #[waits] #[get_proc("cuMipmappedArrayGetMemoryRequirements", 11060)]
fn cuMipmappedArrayGetMemoryRequirements(
    #[out] memoryRequirements: *mut CUDA_ARRAY_MEMORY_REQUIREMENTS,
    #[handle] mipmap: CUmipmappedArray,
    device: CUdevice,
) -> CUresult;

#[id(0x100d)] #[waits] #[get_proc("cuMipmappedArrayGetSparseProperties", 11010)]
fn cuMipmappedArrayGetSparseProperties(
    #[out] sparseProperties: *mut CUDA_ARRAY_SPARSE_PROPERTIES,
    #[handle] mipmap: CUmipmappedArray,
) -> CUresult;
