//! Platforms.

#[unsupported("a graphics context cannot be shared with another machine")]
fn clCreateEventFromEGLSyncKHR(context: cl_context, sync: CLeglSyncKHR, display: CLeglDisplayKHR, errcode_ret: *mut i32) -> cl_event;

#[unsupported("a graphics context cannot be shared with another machine")]
fn clCreateEventFromGLsyncKHR(context: cl_context, sync: cl_GLsync, errcode_ret: *mut i32) -> cl_event;

#[local]
fn clGetExtensionFunctionAddress(func_name: *const c_char) -> *mut c_void;

#[local]
fn clGetExtensionFunctionAddressForPlatform(platform: cl_platform_id, func_name: *const c_char) -> *mut c_void;

#[local]
fn clGetPlatformIDs(num_entries: u32, platforms: *mut cl_platform_id, num_platforms: *mut u32) -> i32;

#[local]
fn clGetPlatformInfo(platform: cl_platform_id, param_name: cl_platform_info, param_value_size: usize, param_value: *mut c_void, param_value_size_ret: *mut usize) -> i32;

#[is(clGetPlatformIDs)]
fn clIcdGetPlatformIDsKHR(num_entries: u32, platforms: *mut cl_platform_id, num_platforms: *mut u32) -> i32;

#[local]
fn clUnloadCompiler() -> i32;

#[local]
fn clUnloadPlatformCompiler(platform: cl_platform_id) -> i32;
