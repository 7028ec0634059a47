//! Pipes.

#[unsupported("pipes are not forwarded, and the device says that it has none")]
fn clGetPipeInfo(pipe: cl_mem, param_name: cl_pipe_info, param_value_size: usize, param_value: *mut c_void, param_value_size_ret: *mut usize) -> i32;
