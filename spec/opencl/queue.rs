//! Queues.

#[custom]
fn clCreateCommandQueue(context: cl_context, device: cl_device_id, properties: cl_command_queue_properties, errcode_ret: *mut i32) -> cl_command_queue;

#[custom]
fn clCreateCommandQueueWithProperties(context: cl_context, device: cl_device_id, properties: *const cl_queue_properties, errcode_ret: *mut i32) -> cl_command_queue;

#[is(clCreateCommandQueueWithProperties)]
fn clCreateCommandQueueWithPropertiesKHR(context: cl_context, device: cl_device_id, properties: *const cl_queue_properties, errcode_ret: *mut i32) -> cl_command_queue;

#[custom]
fn clEnqueueBarrier(command_queue: cl_command_queue) -> i32;

#[custom]
fn clEnqueueBarrierWithWaitList(command_queue: cl_command_queue, num_events_in_wait_list: u32, event_wait_list: *const cl_event, event: *mut cl_event) -> i32;

#[custom]
fn clEnqueueMarker(command_queue: cl_command_queue, event: *mut cl_event) -> i32;

#[custom]
fn clEnqueueMarkerWithWaitList(command_queue: cl_command_queue, num_events_in_wait_list: u32, event_wait_list: *const cl_event, event: *mut cl_event) -> i32;

#[custom]
fn clEnqueueWaitForEvents(command_queue: cl_command_queue, num_events: u32, event_list: *const cl_event) -> i32;

#[custom]
fn clFinish(command_queue: cl_command_queue) -> i32;

#[custom]
fn clFlush(command_queue: cl_command_queue) -> i32;

#[local]
fn clGetCommandQueueInfo(command_queue: cl_command_queue, param_name: cl_command_queue_info, param_value_size: usize, param_value: *mut c_void, param_value_size_ret: *mut usize) -> i32;

#[custom]
fn clReleaseCommandQueue(command_queue: cl_command_queue) -> i32;

#[local]
fn clRetainCommandQueue(command_queue: cl_command_queue) -> i32;

#[unsupported("deprecated since OpenCL 1.1, and refused by drivers since")]
fn clSetCommandQueueProperty(command_queue: cl_command_queue, properties: cl_command_queue_properties, enable: u32, old_properties: *mut cl_command_queue_properties) -> i32;

#[custom]
fn clSetDefaultDeviceCommandQueue(context: cl_context, device: cl_device_id, command_queue: cl_command_queue) -> i32;
