//! Result codes, with the texts of `nvmlErrorString`.

pub type nvmlReturn_t = u32;
/// Success
pub const NVML_SUCCESS: nvmlReturn_t = 0;
/// Uninitialized
pub const NVML_ERROR_UNINITIALIZED: nvmlReturn_t = 1;
/// Invalid Argument
pub const NVML_ERROR_INVALID_ARGUMENT: nvmlReturn_t = 2;
/// Not Supported
pub const NVML_ERROR_NOT_SUPPORTED: nvmlReturn_t = 3;
/// Insufficient Permissions
pub const NVML_ERROR_NO_PERMISSION: nvmlReturn_t = 4;
/// Already Initialized
pub const NVML_ERROR_ALREADY_INITIALIZED: nvmlReturn_t = 5;
/// Not Found
pub const NVML_ERROR_NOT_FOUND: nvmlReturn_t = 6;
/// Insufficient Size
pub const NVML_ERROR_INSUFFICIENT_SIZE: nvmlReturn_t = 7;
/// Insufficient External Power
pub const NVML_ERROR_INSUFFICIENT_POWER: nvmlReturn_t = 8;
/// Driver Not Loaded
pub const NVML_ERROR_DRIVER_NOT_LOADED: nvmlReturn_t = 9;
/// Timeout
pub const NVML_ERROR_TIMEOUT: nvmlReturn_t = 10;
/// Interrupt Request Issue
pub const NVML_ERROR_IRQ_ISSUE: nvmlReturn_t = 11;
/// NVML Shared Library Not Found
pub const NVML_ERROR_LIBRARY_NOT_FOUND: nvmlReturn_t = 12;
/// Function Not Found
pub const NVML_ERROR_FUNCTION_NOT_FOUND: nvmlReturn_t = 13;
/// Corrupted infoROM
pub const NVML_ERROR_CORRUPTED_INFOROM: nvmlReturn_t = 14;
/// GPU is lost
pub const NVML_ERROR_GPU_IS_LOST: nvmlReturn_t = 15;
/// GPU requires reset
pub const NVML_ERROR_RESET_REQUIRED: nvmlReturn_t = 16;
/// The operating system has blocked the request
pub const NVML_ERROR_OPERATING_SYSTEM: nvmlReturn_t = 17;
/// RM has detected an NVML/RM version mismatch
pub const NVML_ERROR_LIB_RM_VERSION_MISMATCH: nvmlReturn_t = 18;
/// In use by another client
pub const NVML_ERROR_IN_USE: nvmlReturn_t = 19;
/// Insufficient Memory
pub const NVML_ERROR_MEMORY: nvmlReturn_t = 20;
/// No data
pub const NVML_ERROR_NO_DATA: nvmlReturn_t = 21;
/// The requested vgpu operation is not available on target device, because ECC is on
pub const NVML_ERROR_VGPU_ECC_NOT_SUPPORTED: nvmlReturn_t = 22;
/// Insufficient Resources
pub const NVML_ERROR_INSUFFICIENT_RESOURCES: nvmlReturn_t = 23;
/// Frequency Not Supported
pub const NVML_ERROR_FREQ_NOT_SUPPORTED: nvmlReturn_t = 24;
/// Argument Version Mismatch
pub const NVML_ERROR_ARGUMENT_VERSION_MISMATCH: nvmlReturn_t = 25;
/// Deprecated
pub const NVML_ERROR_DEPRECATED: nvmlReturn_t = 26;
/// Not Ready
pub const NVML_ERROR_NOT_READY: nvmlReturn_t = 27;
/// GPU Not Found
pub const NVML_ERROR_GPU_NOT_FOUND: nvmlReturn_t = 28;
/// Invalid State
pub const NVML_ERROR_INVALID_STATE: nvmlReturn_t = 29;
/// Reset Type Not Supported
pub const NVML_ERROR_RESET_TYPE_NOT_SUPPORTED: nvmlReturn_t = 30;
/// Unknown Error
pub const NVML_ERROR_UNKNOWN: nvmlReturn_t = 999;
