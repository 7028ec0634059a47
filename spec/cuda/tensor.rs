//! Tensor maps.

#[id(0x1701)] #[cached] #[get_proc("cuTensorMapEncodeIm2col", 12000)]
fn cuTensorMapEncodeIm2col(
    #[out] tensorMap: *mut CUtensorMap,
    tensorDataType: CUtensorMapDataType,
    tensorRank: u32,
    #[address] globalAddress: *mut c_void,
    #[in_array(tensorRank)] globalDim: *const u64,
    #[in_array(tensorRank - 1)] globalStrides: *const u64,
    #[in_array(tensorRank - 2)] pixelBoxLowerCorner: *const i32,
    #[in_array(tensorRank - 2)] pixelBoxUpperCorner: *const i32,
    channelsPerPixel: u32,
    pixelsPerColumn: u32,
    #[in_array(tensorRank)] elementStrides: *const u32,
    interleave: CUtensorMapInterleave,
    swizzle: CUtensorMapSwizzle,
    l2Promotion: CUtensorMapL2promotion,
    oobFill: CUtensorMapFloatOOBfill,
) -> CUresult;

#[id(0x1702)] #[cached] #[get_proc("cuTensorMapEncodeIm2colWide", 12080)]
fn cuTensorMapEncodeIm2colWide(
    #[out] tensorMap: *mut CUtensorMap,
    tensorDataType: CUtensorMapDataType,
    tensorRank: u32,
    #[address] globalAddress: *mut c_void,
    #[in_array(tensorRank)] globalDim: *const u64,
    #[in_array(tensorRank - 1)] globalStrides: *const u64,
    pixelBoxLowerCornerWidth: i32,
    pixelBoxUpperCornerWidth: i32,
    channelsPerPixel: u32,
    pixelsPerColumn: u32,
    #[in_array(tensorRank)] elementStrides: *const u32,
    interleave: CUtensorMapInterleave,
    mode: CUtensorMapIm2ColWideMode,
    swizzle: CUtensorMapSwizzle,
    l2Promotion: CUtensorMapL2promotion,
    oobFill: CUtensorMapFloatOOBfill,
) -> CUresult;

#[id(0x1703)] #[cached] #[get_proc("cuTensorMapEncodeTiled", 12000)]
fn cuTensorMapEncodeTiled(
    #[out] tensorMap: *mut CUtensorMap,
    tensorDataType: CUtensorMapDataType,
    tensorRank: u32,
    #[address] globalAddress: *mut c_void,
    #[in_array(tensorRank)] globalDim: *const u64,
    #[in_array(tensorRank - 1)] globalStrides: *const u64,
    #[in_array(tensorRank)] boxDim: *const u32,
    #[in_array(tensorRank)] elementStrides: *const u32,
    interleave: CUtensorMapInterleave,
    swizzle: CUtensorMapSwizzle,
    l2Promotion: CUtensorMapL2promotion,
    oobFill: CUtensorMapFloatOOBfill,
) -> CUresult;

#[custom] #[cx] #[get_proc("cuTensorMapReplaceAddress", 12000)]
fn cuTensorMapReplaceAddress(tensorMap: *mut CUtensorMap, globalAddress: *mut c_void) -> CUresult;

/// Puts another address into a tensor map, whose bytes only the driver can read; it hears how the
/// program's lies in memory, `offset` bytes behind a multiple of 128.
#[id(0x8504)] #[message] #[waits] #[family(tensor)]
fn TensorMapAddress(map: Bytes, offset: u32, address: u64) -> (changed: Bytes);
