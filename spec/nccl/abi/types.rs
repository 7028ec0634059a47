//! Handles, numbers and structures.

pub type ncclComm_t = *mut c_void;
pub type ncclWindow_t = *mut c_void;
pub type ncclDevComm_t = c_void;
pub type ncclDevCommRequirements_t = c_void;
pub type ncclDevResourceRequirements_t = c_void;
pub type ncclGinBarrierHandle_t = c_void;
pub type ncclLsaBarrierHandle_t = c_void;
pub type ncclLLA2AHandle_t = c_void;
pub type ncclSimInfo_t = c_void;
pub type ncclCommProperties_t = c_void;
pub type ncclEncryptionConfig_t = c_void;
pub type ncclWaitSignalDesc_t = c_void;
pub type ncclCftLeId = c_void;
pub type ncclGinInboxA2AHandle = c_void;
pub type ncclGinOutboxHandle = c_void;
pub type ncclParamHandle_t = *mut c_void;
pub type cudaEvent_t = *mut c_void;
pub type cudaStream_t = *mut c_void;
pub type ncclDataType_t = i32;
pub type ncclRedOp_t = i32;
pub type ncclScalarResidence_t = i32;

pub const NCCL_VERSION_CODE: i32 = 22809;
pub const ncclNumTypes: ncclDataType_t = 12;
pub const ncclNumOps: ncclRedOp_t = 5;
pub const ncclScalarDevice: ncclScalarResidence_t = 0;
pub const ncclScalarHostImmediate: ncclScalarResidence_t = 1;
pub const NCCL_SPLIT_NOCOLOR: i32 = -1;
pub const NCCL_CONFIG_MAGIC: u32 = 0xcafebeef;
pub const NCCL_CONFIG_UNDEF_INT: i32 = -2147483648;

/// What brings the ranks of a communicator together.
#[layout(size = 128, align = 1, offsets = [0])]
#[repr(C)]
pub struct ncclUniqueId {
    pub internal: [u8; 128],
}

/// How a communicator is to be made; later versions are longer.
#[layout(size = 80, align = 8, offsets = [0, 8, 12, 16, 20, 24, 28, 32, 40, 44, 48, 56, 60, 64, 68, 72, 76])]
#[repr(C)]
pub struct ncclConfig_t {
    pub size: usize,
    pub magic: u32,
    pub version: u32,
    pub blocking: i32,
    pub cgaClusterSize: i32,
    pub minCTAs: i32,
    pub maxCTAs: i32,
    pub netName: *const c_char,
    pub splitShare: i32,
    pub trafficClass: i32,
    pub commName: *const c_char,
    pub collnetEnable: i32,
    pub CTAPolicy: i32,
    pub shrinkShare: i32,
    pub nvlsCTAs: i32,
    pub nChannelsPerNetPeer: i32,
    pub nvlinkCentricSched: i32,
}

/// How one collective is to be done; later versions are longer.
#[layout(size = 72, align = 8, offsets = [0, 8, 12, 16, 24, 28, 32, 36, 40, 48, 52, 56, 64])]
#[repr(C)]
pub struct ncclCollConfig_t {
    pub size: usize,
    pub magic: u32,
    pub version: u32,
    pub ext: *mut c_void,
    pub minCTAs: i32,
    pub maxCTAs: i32,
    pub nvlsCTAs: i32,
    pub cgaClusterSize: i32,
    pub algSelection: *const c_char,
    pub forceAlgSelection: i32,
    pub CTAPolicy: i32,
    pub userProfilerTag: u64,
    pub launchCompletionEvent: cudaEvent_t,
}

/// Some ranks, by the first of them and the step.
#[layout(size = 12, align = 4, offsets = [0, 4, 8])]
#[repr(C)]
pub struct ncclTeam_t {
    pub nRanks: i32,
    pub rank: i32,
    pub stride: i32,
}
