//! Structures of which nothing here reads a field: so many numbers.

pub type nvmlBridgeChipHierarchy_t = [u32; 257];
pub type nvmlC2cModeInfo_v1_t = u32;
pub type nvmlConfComputeGpuAttestationReport_t = [u32; 3083];
pub type nvmlConfComputeMemSizeInfo_t = [u64; 2];
pub type nvmlConfComputeSystemCaps_t = [u32; 2];
pub type nvmlConfComputeSystemState_t = [u32; 3];
pub type nvmlDeviceAttributes_t = [u64; 5];
pub type nvmlEccErrorCounts_t = [u64; 4];
pub type nvmlGpuDynamicPstatesInfo_t = [u32; 33];
pub type nvmlGpuThermalSettings_t = [u32; 16];
pub type nvmlNvLinkUtilizationControl_t = [u32; 2];
pub type nvmlRowRemapperHistogramValues_t = [u32; 5];
pub type nvmlSample_t = [u64; 2];
pub type nvmlViolationTime_t = [u64; 2];
