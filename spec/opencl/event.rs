//! Events.

#[custom]
fn clCreateUserEvent(context: cl_context, errcode_ret: *mut i32) -> cl_event;

#[custom]
fn clGetEventInfo(event: cl_event, param_name: cl_event_info, param_value_size: usize, param_value: *mut c_void, param_value_size_ret: *mut usize) -> i32;

#[custom]
fn clGetEventProfilingInfo(event: cl_event, param_name: cl_profiling_info, param_value_size: usize, param_value: *mut c_void, param_value_size_ret: *mut usize) -> i32;

#[custom]
fn clReleaseEvent(event: cl_event) -> i32;

#[local]
fn clRetainEvent(event: cl_event) -> i32;

#[custom]
fn clSetEventCallback(event: cl_event, command_exec_callback_type: i32, callback: *const c_void, user_data: *mut c_void) -> i32;

#[custom]
fn clSetUserEventStatus(event: cl_event, execution_status: i32) -> i32;

#[custom]
fn clWaitForEvents(num_events: u32, event_list: *const cl_event) -> i32;
