//! The few types and values of the driver's C interface that the simulation needs.

use std::ffi::c_void;

pub type CUresult = i32;
pub type CUdevice = i32;
pub type CUdeviceptr = u64;
pub type CUcontext = usize;
pub type CUmodule = usize;
pub type CUfunction = usize;
pub type CUlibrary = usize;
pub type CUkernel = usize;
pub type CUstream = usize;
pub type CUevent = usize;
pub type CUgraph = usize;
pub type CUgraphNode = usize;
pub type CUgraphExec = usize;
pub type CUmemoryPool = usize;
pub type CUmemHandle = u64;
pub type CUhostFn = unsafe extern "C" fn(*mut c_void);
pub type CUstreamCallback = unsafe extern "C" fn(CUstream, CUresult, *mut c_void);

/// A result whose error is the code that the caller gets.
pub type R<T> = Result<T, CUresult>;

/// What one driver function gives back.
pub type Res = R<()>;

pub const INVALID_VALUE: CUresult = 1;
pub const OUT_OF_MEMORY: CUresult = 2;
pub const NOT_INITIALIZED: CUresult = 3;
pub const NO_DEVICE: CUresult = 100;
pub const INVALID_DEVICE: CUresult = 101;
pub const INVALID_IMAGE: CUresult = 200;
pub const INVALID_CONTEXT: CUresult = 201;
pub const NO_BINARY_FOR_GPU: CUresult = 209;
pub const UNSUPPORTED_LIMIT: CUresult = 215;
pub const FILE_NOT_FOUND: CUresult = 301;
pub const OPERATING_SYSTEM: CUresult = 304;
pub const UNSUPPORTED_EXEC_AFFINITY: CUresult = 224;
pub const INVALID_HANDLE: CUresult = 400;
pub const ILLEGAL_STATE: CUresult = 401;
pub const NOT_FOUND: CUresult = 500;
pub const NOT_READY: CUresult = 600;
pub const ILLEGAL_ADDRESS: CUresult = 700;
pub const PEER_ACCESS_ALREADY_ENABLED: CUresult = 704;
pub const PEER_ACCESS_NOT_ENABLED: CUresult = 705;
pub const ASSERT: CUresult = 710;
pub const HOST_MEMORY_ALREADY_REGISTERED: CUresult = 712;
pub const HOST_MEMORY_NOT_REGISTERED: CUresult = 713;
pub const NOT_PERMITTED: CUresult = 800;
pub const MISALIGNED_ADDRESS: CUresult = 716;
pub const LAUNCH_OUT_OF_RESOURCES: CUresult = 701;
pub const LAUNCH_TIMEOUT: CUresult = 702;
pub const LAUNCH_FAILED: CUresult = 719;
pub const COOPERATIVE_LAUNCH_TOO_LARGE: CUresult = 720;
pub const NOT_SUPPORTED: CUresult = 801;
pub const STREAM_CAPTURE_UNSUPPORTED: CUresult = 900;
pub const STREAM_CAPTURE_INVALIDATED: CUresult = 901;
pub const STREAM_CAPTURE_MERGE: CUresult = 902;
pub const STREAM_CAPTURE_UNMATCHED: CUresult = 903;
pub const STREAM_CAPTURE_UNJOINED: CUresult = 904;
pub const STREAM_CAPTURE_ISOLATION: CUresult = 905;
pub const STREAM_CAPTURE_IMPLICIT: CUresult = 906;
pub const CAPTURED_EVENT: CUresult = 907;
pub const STREAM_CAPTURE_WRONG_THREAD: CUresult = 908;
pub const GRAPH_EXEC_UPDATE_FAILURE: CUresult = 910;
pub const INVALID_CLUSTER_SIZE: CUresult = 912;
pub const UNKNOWN: CUresult = 999;

/// The stream handle that names the legacy default stream whatever the flavour of the call.
pub const STREAM_LEGACY: CUstream = 1;
/// The stream handle that names the calling thread's default stream.
pub const STREAM_PER_THREAD: CUstream = 2;

pub const MEMORYTYPE_HOST: u32 = 1;
pub const MEMORYTYPE_DEVICE: u32 = 2;
pub const MEMORYTYPE_ARRAY: u32 = 3;
pub const MEMORYTYPE_UNIFIED: u32 = 4;

pub const LOCATION_DEVICE: i32 = 1;
pub const LOCATION_HOST: i32 = 2;
pub const LOCATION_HOST_NUMA: i32 = 3;

/// Stores through an out pointer that the caller must give: a null one is `INVALID_VALUE`.
///
/// # Safety
/// `p` is null or valid for a write of `T`.
pub unsafe fn put<T>(p: *mut T, value: T) -> Res {
    if p.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: not null, so by this function's contract valid for a write.
    unsafe { p.write_unaligned(value) };
    Ok(())
}

/// Stores through an out pointer that the caller may leave null.
///
/// # Safety
/// `p` is null or valid for a write of `T`.
pub unsafe fn put_opt<T>(p: *mut T, value: T) {
    if !p.is_null() {
        // SAFETY: not null, so by this function's contract valid for a write.
        unsafe { p.write_unaligned(value) };
    }
}

/// Reads through an in pointer: a null one is `INVALID_VALUE`.
///
/// # Safety
/// `p` is null or valid for a read of `T`.
pub unsafe fn get<T: Copy>(p: *const T) -> R<T> {
    if p.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: not null, so by this function's contract valid for a read.
    Ok(unsafe { p.read_unaligned() })
}

/// A C string argument; null or not UTF-8 is `INVALID_VALUE`.
///
/// # Safety
/// `p` is null or points to a NUL-terminated string that outlives the result.
pub unsafe fn text<'a>(p: *const std::ffi::c_char) -> R<&'a str> {
    if p.is_null() {
        return Err(INVALID_VALUE);
    }
    // SAFETY: not null, so by this function's contract a C string.
    unsafe { std::ffi::CStr::from_ptr(p) }
        .to_str()
        .map_err(|_| INVALID_VALUE)
}

/// A list argument as an owned vector: null with a count of zero is empty.
///
/// # Safety
/// `p` is null or valid for reads of `n` values.
pub unsafe fn list<T: Copy>(p: *const T, n: usize) -> R<Vec<T>> {
    if n == 0 {
        return Ok(Vec::new());
    }
    if p.is_null() || n > 1 << 20 {
        return Err(INVALID_VALUE);
    }
    // SAFETY: not null, and each index is below n, so by this function's contract readable.
    Ok((0..n)
        .map(|i| unsafe { p.add(i).read_unaligned() })
        .collect())
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Memcpy2D {
    pub src_x: usize,
    pub src_y: usize,
    pub src_type: u32,
    pub src_host: usize,
    pub src_device: CUdeviceptr,
    pub src_array: usize,
    pub src_pitch: usize,
    pub dst_x: usize,
    pub dst_y: usize,
    pub dst_type: u32,
    pub dst_host: usize,
    pub dst_device: CUdeviceptr,
    pub dst_array: usize,
    pub dst_pitch: usize,
    pub width: usize,
    pub height: usize,
}

/// Both `CUDA_MEMCPY3D` and `CUDA_MEMCPY3D_PEER`: the latter has contexts where this has
/// `reserved`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Memcpy3D {
    pub src_x: usize,
    pub src_y: usize,
    pub src_z: usize,
    pub src_lod: usize,
    pub src_type: u32,
    pub src_host: usize,
    pub src_device: CUdeviceptr,
    pub src_array: usize,
    pub src_reserved: usize,
    pub src_pitch: usize,
    pub src_height: usize,
    pub dst_x: usize,
    pub dst_y: usize,
    pub dst_z: usize,
    pub dst_lod: usize,
    pub dst_type: u32,
    pub dst_host: usize,
    pub dst_device: CUdeviceptr,
    pub dst_array: usize,
    pub dst_reserved: usize,
    pub dst_pitch: usize,
    pub dst_height: usize,
    pub width: usize,
    pub height: usize,
    pub depth: usize,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct KernelNodeParamsV1 {
    pub func: CUfunction,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared: u32,
    pub params: *mut *mut c_void,
    pub extra: *mut *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct KernelNodeParams {
    pub v1: KernelNodeParamsV1,
    pub kern: CUkernel,
    pub ctx: CUcontext,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct MemsetNodeParams {
    pub dst: CUdeviceptr,
    pub pitch: usize,
    pub value: u32,
    pub element_size: u32,
    pub width: usize,
    pub height: usize,
}

/// As the union of [`NodeParams`] has it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct WideMemsetNodeParams {
    pub v1: MemsetNodeParams,
    pub ctx: CUcontext,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct HostNodeParams {
    pub f: Option<CUhostFn>,
    pub user: *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct MemcpyNodeParams {
    pub flags: i32,
    pub reserved: i32,
    pub ctx: CUcontext,
    pub copy: Memcpy3D,
}

/// `CUgraphNodeParams` up to its union.
#[repr(C)]
pub struct NodeParams {
    pub kind: u32,
    pub reserved: [i32; 3],
    pub body: [u64; 29],
    pub reserved2: u64,
}

#[repr(C)]
pub struct InstantiateParams {
    pub flags: u64,
    pub upload_stream: CUstream,
    pub error_node: CUgraphNode,
    pub result: i32,
}

#[repr(C)]
pub struct ExecUpdateResult {
    pub result: i32,
    pub error_node: CUgraphNode,
    pub error_from_node: CUgraphNode,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct LaunchConfig {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub shared: u32,
    pub stream: CUstream,
    pub attrs: *mut LaunchAttribute,
    pub num_attrs: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct LaunchAttribute {
    pub id: u32,
    pub pad: u32,
    pub value: [u32; 16],
}

#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Location {
    pub kind: i32,
    pub id: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct AllocationProp {
    pub kind: i32,
    pub handle_types: i32,
    pub location: Location,
    pub win32: usize,
    pub flags: [u8; 8],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct AccessDesc {
    pub location: Location,
    pub flags: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PoolProps {
    pub alloc_type: i32,
    pub handle_types: i32,
    pub location: Location,
    pub win32: usize,
    pub max_size: usize,
    pub usage: u16,
    pub reserved: [u8; 54],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct MemAllocParams {
    pub pool: PoolProps,
    pub access: usize,
    pub access_count: usize,
    pub size: usize,
    pub address: CUdeviceptr,
}

impl Default for MemAllocParams {
    fn default() -> Self {
        let pool = PoolProps {
            alloc_type: 0,
            handle_types: 0,
            location: Location::default(),
            win32: 0,
            max_size: 0,
            usage: 0,
            reserved: [0; 54],
        };
        MemAllocParams {
            pool,
            access: 0,
            access_count: 0,
            size: 0,
            address: 0,
        }
    }
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct EdgeData(pub [u8; 8]);

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Uuid(pub [u8; 16]);
