//! Launches.

#[custom]
fn clEnqueueNDRangeKernel(command_queue: cl_command_queue, kernel: cl_kernel, work_dim: u32, global_work_offset: *const usize, global_work_size: *const usize, local_work_size: *const usize, num_events_in_wait_list: u32, event_wait_list: *const cl_event, event: *mut cl_event) -> i32;

#[unsupported("a host function cannot run on the server; the device says that it runs none")]
fn clEnqueueNativeKernel(command_queue: cl_command_queue, callback: *const c_void, args: *mut c_void, cb_args: usize, num_mem_objects: u32, mem_list: *const cl_mem, args_mem_loc: *mut *const c_void, num_events_in_wait_list: u32, event_wait_list: *const cl_event, event: *mut cl_event) -> i32;

#[custom]
fn clEnqueueTask(command_queue: cl_command_queue, kernel: cl_kernel, num_events_in_wait_list: u32, event_wait_list: *const cl_event, event: *mut cl_event) -> i32;

#[custom]
fn clGetKernelSuggestedLocalWorkSizeKHR(command_queue: cl_command_queue, kernel: cl_kernel, work_dim: u32, global_work_offset: *const usize, global_work_size: *const usize, suggested_local_work_size: *mut usize) -> i32;
