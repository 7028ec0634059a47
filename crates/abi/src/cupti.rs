//! What profilers ask of `libcupti.so`: the numbers and structures of its interface, as CUDA 13 has
//! them, and how Busbar's library of that name finds the session of CUDA in a process.
//!
//! Records grow at their end from version to version, so that a program that is made for an older
//! one reads those of today.

#![allow(
    missing_docs,
    non_upper_case_globals,
    reason = "the fields and numbers are those of CUPTI's manual"
)]

use crate::Plain;
use std::ffi::{CStr, c_char, c_void};

/// What the session's library gives the function to find others by, of [`Find`]'s type, for.
pub const UUID: [u8; 16] = *b"busbar:cupti:v01";

/// Gives a function of CUPTI's interface by its name; null if it has none of that name.
pub type Find = unsafe extern "C" fn(name: *const c_char) -> *const c_void;

/// A result.
pub type CUptiResult = u32;

pub const CUPTI_SUCCESS: CUptiResult = 0;
pub const CUPTI_ERROR_INVALID_PARAMETER: CUptiResult = 1;
pub const CUPTI_ERROR_INVALID_CONTEXT: CUptiResult = 3;
pub const CUPTI_ERROR_INVALID_OPERATION: CUptiResult = 7;
pub const CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT: CUptiResult = 10;
pub const CUPTI_ERROR_MAX_LIMIT_REACHED: CUptiResult = 12;
pub const CUPTI_ERROR_NOT_INITIALIZED: CUptiResult = 15;
pub const CUPTI_ERROR_QUEUE_EMPTY: CUptiResult = 18;
pub const CUPTI_ERROR_INVALID_KIND: CUptiResult = 21;
pub const CUPTI_ERROR_NOT_SUPPORTED: CUptiResult = 27;
pub const CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED: CUptiResult = 39;
pub const CUPTI_ERROR_UNKNOWN: CUptiResult = 999;

/// A kind of record: what [`Head`] begins with.
pub type ActivityKind = u32;

pub const CUPTI_ACTIVITY_KIND_INVALID: ActivityKind = 0;
pub const CUPTI_ACTIVITY_KIND_MEMCPY: ActivityKind = 1;
pub const CUPTI_ACTIVITY_KIND_MEMSET: ActivityKind = 2;
pub const CUPTI_ACTIVITY_KIND_KERNEL: ActivityKind = 3;
pub const CUPTI_ACTIVITY_KIND_DRIVER: ActivityKind = 4;
pub const CUPTI_ACTIVITY_KIND_RUNTIME: ActivityKind = 5;
pub const CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL: ActivityKind = 10;
pub const CUPTI_ACTIVITY_KIND_OVERHEAD: ActivityKind = 17;
pub const CUPTI_ACTIVITY_KIND_MEMCPY2: ActivityKind = 22;
pub const CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: ActivityKind = 39;

/// A kernel's record (`CUpti_ActivityKernel13`; up to `max_active_clusters` it is that of CUDA 12,
/// `CUpti_ActivityKernel9`). On the wire `name` is the name's number.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, align(8))]
pub struct Kernel {
    pub kind: ActivityKind,
    pub cache_config: u8,
    pub shared_memory_config: u8,
    pub registers_per_thread: u16,
    pub partitioned_cache: [u32; 2],
    pub start: u64,
    pub end: u64,
    pub completed: u64,
    pub device: u32,
    pub context: u32,
    pub stream: u32,
    pub grid: [i32; 3],
    pub block: [i32; 3],
    pub static_shared: i32,
    pub dynamic_shared: i32,
    pub local_per_thread: u32,
    pub local_total: u32,
    pub correlation: u32,
    pub grid_id: i64,
    pub name: u64,
    pub reserved: u64,
    pub queued: u64,
    pub submitted: u64,
    pub launch_type: u8,
    pub carveout_requested: [u8; 2],
    pub pad: u8,
    pub shared_executed: u32,
    pub graph_node: u64,
    pub shared_limit: u32,
    pub graph: u32,
    pub access_policy: u64,
    pub channel: u32,
    pub channel_type: u32,
    pub cluster: [u32; 3],
    pub cluster_policy: u32,
    pub local_total_v2: u64,
    pub max_potential_cluster: u32,
    pub max_active_clusters: u32,
    pub of_cuda_13: [u64; 5],
}

/// A copy's record (`CUpti_ActivityMemcpy7`, of which the last number is padding in older ones).
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, align(8))]
pub struct Memcpy {
    pub kind: ActivityKind,
    pub copy_kind: u8,
    pub src_kind: u8,
    pub dst_kind: u8,
    pub flags: u8,
    pub bytes: u64,
    pub start: u64,
    pub end: u64,
    pub device: u32,
    pub context: u32,
    pub stream: u32,
    pub correlation: u32,
    pub runtime_correlation: u32,
    pub pad: u32,
    pub reserved: u64,
    pub graph_node: u64,
    pub graph: u32,
    pub channel: u32,
    pub channel_type: u32,
    pub pad2: u32,
    pub copy_count: u64,
    pub of_cuda_13: [u64; 2],
}

/// The record of a copy between devices (`CUpti_ActivityMemcpyPtoP4`).
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, align(8))]
pub struct MemcpyPeer {
    pub kind: ActivityKind,
    pub copy_kind: u8,
    pub src_kind: u8,
    pub dst_kind: u8,
    pub flags: u8,
    pub bytes: u64,
    pub start: u64,
    pub end: u64,
    pub device: u32,
    pub context: u32,
    pub stream: u32,
    pub src_device: u32,
    pub src_context: u32,
    pub dst_device: u32,
    pub dst_context: u32,
    pub correlation: u32,
    pub reserved: u64,
    pub graph_node: u64,
    pub graph: u32,
    pub channel: u32,
    pub channel_type: u32,
    pub pad: u32,
}

/// A fill's record (`CUpti_ActivityMemset5`).
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, align(8))]
pub struct Memset {
    pub kind: ActivityKind,
    pub value: u32,
    pub bytes: u64,
    pub start: u64,
    pub end: u64,
    pub device: u32,
    pub context: u32,
    pub stream: u32,
    pub correlation: u32,
    pub flags: u16,
    pub memory_kind: u16,
    pub pad: u32,
    pub reserved: u64,
    pub graph_node: u64,
    pub graph: u32,
    pub channel: u32,
    pub channel_type: u32,
    pub pad2: u32,
    pub of_cuda_13: [u64; 2],
}

/// A call's record (`CUpti_ActivityAPI`), of the driver's interface or the runtime's.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, align(8))]
pub struct ApiCall {
    pub kind: ActivityKind,
    pub cbid: u32,
    pub start: u64,
    pub end: u64,
    pub process: u32,
    pub thread: u32,
    pub correlation: u32,
    pub result: u32,
}

/// What ties a call to a number of the program's own (`CUpti_ActivityExternalCorrelation`).
#[derive(Debug, Clone, Copy, Default)]
#[repr(C, align(8))]
pub struct ExternalCorrelation {
    pub kind: ActivityKind,
    pub external_kind: u32,
    pub external: u64,
    pub correlation: u32,
    pub reserved: u32,
}

/// How many bytes of each of these CUDA 12 has, which any CUPTI fills.
pub const OF_CUDA_12: [(ActivityKind, usize); 5] = [
    (CUPTI_ACTIVITY_KIND_KERNEL, 208),
    (CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, 208),
    (CUPTI_ACTIVITY_KIND_MEMCPY, 96),
    (CUPTI_ACTIVITY_KIND_MEMCPY2, 96),
    (CUPTI_ACTIVITY_KIND_MEMSET, 88),
];

const _: () = {
    assert!(size_of::<Kernel>() == 248 && size_of::<Memcpy>() == 112);
    assert!(size_of::<MemcpyPeer>() == 96 && size_of::<Memset>() == 104);
    assert!(size_of::<ApiCall>() == 40 && size_of::<ExternalCorrelation>() == 24);
};

// SAFETY: numbers alone, and no holes between them, as the sizes above say.
unsafe impl Plain for Kernel {}
// SAFETY: as above.
unsafe impl Plain for Memcpy {}
// SAFETY: as above.
unsafe impl Plain for MemcpyPeer {}
// SAFETY: as above.
unsafe impl Plain for Memset {}
// SAFETY: as above.
unsafe impl Plain for ApiCall {}
// SAFETY: as above.
unsafe impl Plain for ExternalCorrelation {}

/// The bytes of a record of a kind, in the newest version.
pub fn size_of_kind(kind: ActivityKind) -> Option<usize> {
    Some(match kind {
        CUPTI_ACTIVITY_KIND_KERNEL | CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL => size_of::<Kernel>(),
        CUPTI_ACTIVITY_KIND_MEMCPY => size_of::<Memcpy>(),
        CUPTI_ACTIVITY_KIND_MEMCPY2 => size_of::<MemcpyPeer>(),
        CUPTI_ACTIVITY_KIND_MEMSET => size_of::<Memset>(),
        CUPTI_ACTIVITY_KIND_DRIVER | CUPTI_ACTIVITY_KIND_RUNTIME => size_of::<ApiCall>(),
        CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION => size_of::<ExternalCorrelation>(),
        _ => return None,
    })
}

/// What a subscriber is told of a call (`CUpti_CallbackData`).
#[derive(Debug)]
#[repr(C)]
pub struct CallbackData {
    pub site: u32,
    pub function: *const c_char,
    pub params: *const c_void,
    pub result: *const i32,
    pub symbol: *const c_char,
    pub context: *mut c_void,
    pub context_uid: u32,
    pub data: *mut u64,
    pub correlation: u32,
}

/// What one is told of a context or a stream (`CUpti_ResourceData`).
#[derive(Debug)]
#[repr(C)]
pub struct ResourceData {
    pub context: *mut c_void,
    pub resource: *mut c_void,
    pub descriptor: *mut c_void,
}

pub const CUPTI_API_ENTER: u32 = 0;
pub const CUPTI_API_EXIT: u32 = 1;
pub const CUPTI_CB_DOMAIN_DRIVER_API: u32 = 1;
pub const CUPTI_CB_DOMAIN_RUNTIME_API: u32 = 2;
pub const CUPTI_CB_DOMAIN_RESOURCE: u32 = 3;

/// A subscriber's function: its own data, a domain, a number of a function, and what is told.
pub type Callback = unsafe extern "C" fn(*mut c_void, u32, u32, *const c_void);
/// Asks the program for room for records: where, how many bytes, how many records at most.
pub type Request = unsafe extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
/// Gives such room back: a context, a stream, where, how many bytes, and how many of them hold
/// records.
pub type Complete = unsafe extern "C" fn(*mut c_void, u32, *mut u8, usize, usize);
/// What time it is by the program's own clock.
pub type Timestamp = unsafe extern "C" fn() -> u64;

/// The name of a result.
pub fn result_name(code: CUptiResult) -> Option<&'static CStr> {
    Some(match code {
        0 => c"CUPTI_SUCCESS",
        1 => c"CUPTI_ERROR_INVALID_PARAMETER",
        2 => c"CUPTI_ERROR_INVALID_DEVICE",
        3 => c"CUPTI_ERROR_INVALID_CONTEXT",
        4 => c"CUPTI_ERROR_INVALID_EVENT_DOMAIN_ID",
        5 => c"CUPTI_ERROR_INVALID_EVENT_ID",
        6 => c"CUPTI_ERROR_INVALID_EVENT_NAME",
        7 => c"CUPTI_ERROR_INVALID_OPERATION",
        8 => c"CUPTI_ERROR_OUT_OF_MEMORY",
        9 => c"CUPTI_ERROR_HARDWARE",
        10 => c"CUPTI_ERROR_PARAMETER_SIZE_NOT_SUFFICIENT",
        11 => c"CUPTI_ERROR_API_NOT_IMPLEMENTED",
        12 => c"CUPTI_ERROR_MAX_LIMIT_REACHED",
        13 => c"CUPTI_ERROR_NOT_READY",
        14 => c"CUPTI_ERROR_NOT_COMPATIBLE",
        15 => c"CUPTI_ERROR_NOT_INITIALIZED",
        16 => c"CUPTI_ERROR_INVALID_METRIC_ID",
        17 => c"CUPTI_ERROR_INVALID_METRIC_NAME",
        18 => c"CUPTI_ERROR_QUEUE_EMPTY",
        19 => c"CUPTI_ERROR_INVALID_HANDLE",
        20 => c"CUPTI_ERROR_INVALID_STREAM",
        21 => c"CUPTI_ERROR_INVALID_KIND",
        22 => c"CUPTI_ERROR_INVALID_EVENT_VALUE",
        23 => c"CUPTI_ERROR_DISABLED",
        24 => c"CUPTI_ERROR_INVALID_MODULE",
        25 => c"CUPTI_ERROR_INVALID_METRIC_VALUE",
        26 => c"CUPTI_ERROR_HARDWARE_BUSY",
        27 => c"CUPTI_ERROR_NOT_SUPPORTED",
        28 => c"CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED",
        29 => c"CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED_ON_DEVICE",
        30 => c"CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED_ON_NON_P2P_DEVICES",
        31 => c"CUPTI_ERROR_UM_PROFILING_NOT_SUPPORTED_WITH_MPS",
        32 => c"CUPTI_ERROR_CDP_TRACING_NOT_SUPPORTED",
        33 => c"CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED",
        34 => c"CUPTI_ERROR_CUDA_COMPILER_NOT_COMPATIBLE",
        35 => c"CUPTI_ERROR_INSUFFICIENT_PRIVILEGES",
        36 => c"CUPTI_ERROR_OLD_PROFILER_API_INITIALIZED",
        37 => c"CUPTI_ERROR_OPENACC_UNDEFINED_ROUTINE",
        38 => c"CUPTI_ERROR_LEGACY_PROFILER_NOT_SUPPORTED",
        39 => c"CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED",
        40 => c"CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES",
        41 => c"CUPTI_ERROR_CONFIDENTIAL_COMPUTING_NOT_SUPPORTED",
        42 => c"CUPTI_ERROR_CMP_DEVICE_NOT_SUPPORTED",
        43 => c"CUPTI_ERROR_MIG_DEVICE_NOT_SUPPORTED",
        44 => c"CUPTI_ERROR_SLI_DEVICE_NOT_SUPPORTED",
        45 => c"CUPTI_ERROR_WSL_DEVICE_NOT_SUPPORTED",
        46 => c"CUPTI_ERROR_INVALID_CHIP_NAME",
        47 => c"CUPTI_ERROR_HES_TRACE_NOT_SUPPORTED_ON_MPS",
        999 => c"CUPTI_ERROR_UNKNOWN",
        _ => return None,
    })
}
