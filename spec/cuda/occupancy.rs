//! Occupancy.

#[id(0x1201)] #[cached] #[get_proc("cuOccupancyAvailableDynamicSMemPerBlock", 10020)]
fn cuOccupancyAvailableDynamicSMemPerBlock(
    #[out] dynamicSmemSize: *mut usize,
    #[handle] func: CUfunction,
    numBlocks: i32,
    blockSize: i32,
) -> CUresult;

#[id(0x1202)] #[cached] #[get_proc("cuOccupancyMaxActiveBlocksPerMultiprocessor", 6050)]
fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
    #[out] numBlocks: *mut i32,
    #[handle] func: CUfunction,
    blockSize: i32,
    dynamicSMemSize: usize,
) -> CUresult;

#[id(0x1203)] #[cached] #[get_proc("cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags", 7000)]
fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    #[out] numBlocks: *mut i32,
    #[handle] func: CUfunction,
    blockSize: i32,
    dynamicSMemSize: usize,
    flags: u32,
) -> CUresult;

#[cx] #[is(clusters(func, config, 0))] #[get_proc("cuOccupancyMaxActiveClusters", 11070)]
fn cuOccupancyMaxActiveClusters(
    #[out] numClusters: *mut i32,
    func: CUfunction,
    #[in_ref] config: *const CUlaunchConfig,
) -> CUresult;

#[is(cuOccupancyMaxPotentialBlockSizeWithFlags(minGridSize, blockSize, func, blockSizeToDynamicSMemSize, dynamicSMemSize, blockSizeLimit, 0))] #[get_proc("cuOccupancyMaxPotentialBlockSize", 6050)]
fn cuOccupancyMaxPotentialBlockSize(
    minGridSize: *mut i32,
    blockSize: *mut i32,
    func: CUfunction,
    blockSizeToDynamicSMemSize: CUoccupancyB2DSize,
    dynamicSMemSize: usize,
    blockSizeLimit: i32,
) -> CUresult;

#[custom] #[cx] #[get_proc("cuOccupancyMaxPotentialBlockSizeWithFlags", 7000)]
fn cuOccupancyMaxPotentialBlockSizeWithFlags(
    #[out] minGridSize: *mut i32,
    #[out] blockSize: *mut i32,
    func: CUfunction,
    blockSizeToDynamicSMemSize: CUoccupancyB2DSize,
    dynamicSMemSize: usize,
    blockSizeLimit: i32,
    flags: u32,
) -> CUresult;

#[cx] #[is(clusters(func, config, 1))] #[get_proc("cuOccupancyMaxPotentialClusterSize", 11070)]
fn cuOccupancyMaxPotentialClusterSize(
    #[out] clusterSize: *mut i32,
    func: CUfunction,
    #[in_ref] config: *const CUlaunchConfig,
) -> CUresult;
