//! Result codes.

pub type CUresult = i32;
/// no error
pub const CUDA_SUCCESS: CUresult = 0;
/// invalid argument
pub const CUDA_ERROR_INVALID_VALUE: CUresult = 1;
/// out of memory
pub const CUDA_ERROR_OUT_OF_MEMORY: CUresult = 2;
/// initialization error
pub const CUDA_ERROR_NOT_INITIALIZED: CUresult = 3;
/// driver shutting down
pub const CUDA_ERROR_DEINITIALIZED: CUresult = 4;
/// profiler disabled while using external profiling tool
pub const CUDA_ERROR_PROFILER_DISABLED: CUresult = 5;
/// profiler not initialized: call cudaProfilerInitialize()
pub const CUDA_ERROR_PROFILER_NOT_INITIALIZED: CUresult = 6;
/// profiler already started
pub const CUDA_ERROR_PROFILER_ALREADY_STARTED: CUresult = 7;
/// profiler already stopped
pub const CUDA_ERROR_PROFILER_ALREADY_STOPPED: CUresult = 8;
/// CUDA driver is a stub library
pub const CUDA_ERROR_STUB_LIBRARY: CUresult = 34;
/// API call is not supported in the installed CUDA driver
pub const CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER: CUresult = 36;
/// CUDA-capable device(s) is/are busy or unavailable
pub const CUDA_ERROR_DEVICE_UNAVAILABLE: CUresult = 46;
/// no CUDA-capable device is detected
pub const CUDA_ERROR_NO_DEVICE: CUresult = 100;
/// invalid device ordinal
pub const CUDA_ERROR_INVALID_DEVICE: CUresult = 101;
/// device doesn't have valid Grid license
pub const CUDA_ERROR_DEVICE_NOT_LICENSED: CUresult = 102;
/// device kernel image is invalid
pub const CUDA_ERROR_INVALID_IMAGE: CUresult = 200;
/// invalid device context
pub const CUDA_ERROR_INVALID_CONTEXT: CUresult = 201;
/// context already current
pub const CUDA_ERROR_CONTEXT_ALREADY_CURRENT: CUresult = 202;
/// mapping of buffer object failed
pub const CUDA_ERROR_MAP_FAILED: CUresult = 205;
/// unmapping of buffer object failed
pub const CUDA_ERROR_UNMAP_FAILED: CUresult = 206;
/// array is mapped
pub const CUDA_ERROR_ARRAY_IS_MAPPED: CUresult = 207;
/// resource already mapped
pub const CUDA_ERROR_ALREADY_MAPPED: CUresult = 208;
/// no kernel image is available for execution on the device
pub const CUDA_ERROR_NO_BINARY_FOR_GPU: CUresult = 209;
/// resource already acquired
pub const CUDA_ERROR_ALREADY_ACQUIRED: CUresult = 210;
/// resource not mapped
pub const CUDA_ERROR_NOT_MAPPED: CUresult = 211;
/// resource not mapped as array
pub const CUDA_ERROR_NOT_MAPPED_AS_ARRAY: CUresult = 212;
/// resource not mapped as pointer
pub const CUDA_ERROR_NOT_MAPPED_AS_POINTER: CUresult = 213;
/// uncorrectable ECC error encountered
pub const CUDA_ERROR_ECC_UNCORRECTABLE: CUresult = 214;
/// limit is not supported on this architecture
pub const CUDA_ERROR_UNSUPPORTED_LIMIT: CUresult = 215;
/// exclusive-thread device already in use by a different thread
pub const CUDA_ERROR_CONTEXT_ALREADY_IN_USE: CUresult = 216;
/// peer access is not supported between these two devices
pub const CUDA_ERROR_PEER_ACCESS_UNSUPPORTED: CUresult = 217;
/// a PTX JIT compilation failed
pub const CUDA_ERROR_INVALID_PTX: CUresult = 218;
/// invalid OpenGL or DirectX context
pub const CUDA_ERROR_INVALID_GRAPHICS_CONTEXT: CUresult = 219;
/// uncorrectable NVLink error detected during the execution
pub const CUDA_ERROR_NVLINK_UNCORRECTABLE: CUresult = 220;
/// PTX JIT compiler library not found
pub const CUDA_ERROR_JIT_COMPILER_NOT_FOUND: CUresult = 221;
/// the provided PTX was compiled with an unsupported toolchain.
pub const CUDA_ERROR_UNSUPPORTED_PTX_VERSION: CUresult = 222;
/// PTX JIT compilation was disabled
pub const CUDA_ERROR_JIT_COMPILATION_DISABLED: CUresult = 223;
/// the provided execution affinity is not supported
pub const CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY: CUresult = 224;
/// the provided PTX contains unsupported call to cudaDeviceSynchronize
pub const CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC: CUresult = 225;
/// Invalid access of peer GPU memory over nvlink or a hardware error
pub const CUDA_ERROR_CONTAINED: CUresult = 226;
/// device kernel image is invalid
pub const CUDA_ERROR_INVALID_SOURCE: CUresult = 300;
/// file not found
pub const CUDA_ERROR_FILE_NOT_FOUND: CUresult = 301;
/// shared object symbol not found
pub const CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND: CUresult = 302;
/// shared object initialization failed
pub const CUDA_ERROR_SHARED_OBJECT_INIT_FAILED: CUresult = 303;
/// OS call failed or operation not supported on this OS
pub const CUDA_ERROR_OPERATING_SYSTEM: CUresult = 304;
/// invalid resource handle
pub const CUDA_ERROR_INVALID_HANDLE: CUresult = 400;
/// the operation cannot be performed in the present state
pub const CUDA_ERROR_ILLEGAL_STATE: CUresult = 401;
/// attempted introspection would be semantically lossy
pub const CUDA_ERROR_LOSSY_QUERY: CUresult = 402;
/// named symbol not found
pub const CUDA_ERROR_NOT_FOUND: CUresult = 500;
/// device not ready
pub const CUDA_ERROR_NOT_READY: CUresult = 600;
/// an illegal memory access was encountered
pub const CUDA_ERROR_ILLEGAL_ADDRESS: CUresult = 700;
/// too many resources requested for launch
pub const CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES: CUresult = 701;
/// the launch timed out and was terminated
pub const CUDA_ERROR_LAUNCH_TIMEOUT: CUresult = 702;
/// launch uses incompatible texturing mode
pub const CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING: CUresult = 703;
/// peer access is already enabled
pub const CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED: CUresult = 704;
/// peer access has not been enabled
pub const CUDA_ERROR_PEER_ACCESS_NOT_ENABLED: CUresult = 705;
/// cannot set while device is active in this process
pub const CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE: CUresult = 708;
/// context is destroyed
pub const CUDA_ERROR_CONTEXT_IS_DESTROYED: CUresult = 709;
/// device-side assert triggered
pub const CUDA_ERROR_ASSERT: CUresult = 710;
/// peer mapping resources exhausted
pub const CUDA_ERROR_TOO_MANY_PEERS: CUresult = 711;
/// part or all of the requested memory range is already mapped
pub const CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED: CUresult = 712;
/// pointer does not correspond to a registered memory region
pub const CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED: CUresult = 713;
/// hardware stack error
pub const CUDA_ERROR_HARDWARE_STACK_ERROR: CUresult = 714;
/// an illegal instruction was encountered
pub const CUDA_ERROR_ILLEGAL_INSTRUCTION: CUresult = 715;
/// misaligned address
pub const CUDA_ERROR_MISALIGNED_ADDRESS: CUresult = 716;
/// operation not supported on global/shared address space
pub const CUDA_ERROR_INVALID_ADDRESS_SPACE: CUresult = 717;
/// invalid program counter
pub const CUDA_ERROR_INVALID_PC: CUresult = 718;
/// unspecified launch failure
pub const CUDA_ERROR_LAUNCH_FAILED: CUresult = 719;
/// too many blocks in cooperative launch
pub const CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE: CUresult = 720;
/// tensor memory not completely freed
pub const CUDA_ERROR_TENSOR_MEMORY_LEAK: CUresult = 721;
/// operation not permitted
pub const CUDA_ERROR_NOT_PERMITTED: CUresult = 800;
/// operation not supported
pub const CUDA_ERROR_NOT_SUPPORTED: CUresult = 801;
/// system not yet initialized
pub const CUDA_ERROR_SYSTEM_NOT_READY: CUresult = 802;
/// system has unsupported display driver / cuda driver combination
pub const CUDA_ERROR_SYSTEM_DRIVER_MISMATCH: CUresult = 803;
/// forward compatibility was attempted on non supported HW
pub const CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE: CUresult = 804;
/// MPS client failed to connect to the MPS control daemon or the MPS server
pub const CUDA_ERROR_MPS_CONNECTION_FAILED: CUresult = 805;
/// the remote procedural call between the MPS server and the MPS client failed
pub const CUDA_ERROR_MPS_RPC_FAILURE: CUresult = 806;
/// MPS server is not ready to accept new MPS client requests
pub const CUDA_ERROR_MPS_SERVER_NOT_READY: CUresult = 807;
/// the hardware resources required to create MPS client have been exhausted
pub const CUDA_ERROR_MPS_MAX_CLIENTS_REACHED: CUresult = 808;
/// the hardware resources required to support device connections have been exhausted
pub const CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED: CUresult = 809;
/// the MPS client has been terminated by the server
pub const CUDA_ERROR_MPS_CLIENT_TERMINATED: CUresult = 810;
/// is using CUDA Dynamic Parallelism, but the current configuration, like MPS, does not support it
pub const CUDA_ERROR_CDP_NOT_SUPPORTED: CUresult = 811;
/// unsupported interaction between different versions of CUDA Dynamic Parallelism
pub const CUDA_ERROR_CDP_VERSION_MISMATCH: CUresult = 812;
/// operation not permitted when stream is capturing
pub const CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED: CUresult = 900;
/// operation failed due to a previous error during capture
pub const CUDA_ERROR_STREAM_CAPTURE_INVALIDATED: CUresult = 901;
/// operation would result in a merge of separate capture sequences
pub const CUDA_ERROR_STREAM_CAPTURE_MERGE: CUresult = 902;
/// capture was not ended in the same stream as it began
pub const CUDA_ERROR_STREAM_CAPTURE_UNMATCHED: CUresult = 903;
/// capturing stream has unjoined work
pub const CUDA_ERROR_STREAM_CAPTURE_UNJOINED: CUresult = 904;
/// dependency created on uncaptured work in another stream
pub const CUDA_ERROR_STREAM_CAPTURE_ISOLATION: CUresult = 905;
/// operation would make the legacy stream depend on a capturing blocking stream
pub const CUDA_ERROR_STREAM_CAPTURE_IMPLICIT: CUresult = 906;
/// operation not permitted on an event last recorded in a capturing stream
pub const CUDA_ERROR_CAPTURED_EVENT: CUresult = 907;
/// attempt to terminate a thread-local capture sequence from another thread
pub const CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD: CUresult = 908;
/// wait operation timed out
pub const CUDA_ERROR_TIMEOUT: CUresult = 909;
/// the graph update was not performed because it included changes which violated constraints
/// specific to instantiated graph update
pub const CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE: CUresult = 910;
/// an async error has occured in external entity outside of CUDA
pub const CUDA_ERROR_EXTERNAL_DEVICE: CUresult = 911;
/// a kernel launch error has occurred due to cluster misconfiguration
pub const CUDA_ERROR_INVALID_CLUSTER_SIZE: CUresult = 912;
/// the function handle is not loaded when calling an API that requires a loaded function
pub const CUDA_ERROR_FUNCTION_NOT_LOADED: CUresult = 913;
/// one or more resources passed in are not valid resource types for the operation
pub const CUDA_ERROR_INVALID_RESOURCE_TYPE: CUresult = 914;
/// one or more resources are insufficient or non-applicable for the operation
pub const CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION: CUresult = 915;
/// an error happened during the key rotation sequence
pub const CUDA_ERROR_KEY_ROTATION: CUresult = 916;
/// unknown error
pub const CUDA_ERROR_UNKNOWN: CUresult = 999;
