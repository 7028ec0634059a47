//! Memorys.

#[custom]
fn clCreateBuffer(context: cl_context, flags: cl_mem_flags, size: usize, host_ptr: *mut c_void, errcode_ret: *mut i32) -> cl_mem;

#[custom]
fn clCreateBufferWithProperties(context: cl_context, properties: *const cl_mem_properties, flags: cl_mem_flags, size: usize, host_ptr: *mut c_void, errcode_ret: *mut i32) -> cl_mem;

#[custom]
fn clCreateSubBuffer(buffer: cl_mem, flags: cl_mem_flags, buffer_create_type: cl_buffer_create_type, buffer_create_info: *const c_void, errcode_ret: *mut i32) -> cl_mem;

#[local]
fn clGetMemObjectInfo(memobj: cl_mem, param_name: cl_mem_info, param_value_size: usize, param_value: *mut c_void, param_value_size_ret: *mut usize) -> i32;

#[custom]
fn clReleaseMemObject(memobj: cl_mem) -> i32;

#[local]
fn clRetainMemObject(memobj: cl_mem) -> i32;

#[local]
fn clSetMemObjectDestructorCallback(memobj: cl_mem, callback: *const c_void, user_data: *mut c_void) -> i32;

#[unsupported("pipes are not forwarded, and the device says that it has none")]
fn clCreatePipe(context: cl_context, flags: cl_mem_flags, pipe_packet_size: u32, pipe_max_packets: u32, properties: *const cl_pipe_properties, errcode_ret: *mut i32) -> cl_mem;

/// No object is a pipe.
#[local]
fn clGetPipeInfo(pipe: cl_mem, param_name: cl_pipe_info, param_value_size: usize, param_value: *mut c_void, param_value_size_ret: *mut usize) -> i32;
