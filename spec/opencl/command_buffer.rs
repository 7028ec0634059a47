//! Command buffers.

#[unsupported("the extension is hidden from programs: recorded launches are not forwarded yet")]
fn clCommandBarrierWithWaitListKHR(command_buffer: cl_command_buffer_khr, command_queue: cl_command_queue, num_sync_points_in_wait_list: u32, sync_point_wait_list: *const cl_sync_point_khr, sync_point: *mut cl_sync_point_khr, mutable_handle: *mut cl_mutable_command_khr) -> i32;

#[unsupported("the extension is hidden from programs: recorded launches are not forwarded yet")]
fn clCommandCopyBufferKHR(command_buffer: cl_command_buffer_khr, command_queue: cl_command_queue, src_buffer: cl_mem, dst_buffer: cl_mem, src_offset: usize, dst_offset: usize, size: usize, num_sync_points_in_wait_list: u32, sync_point_wait_list: *const cl_sync_point_khr, sync_point: *mut cl_sync_point_khr, mutable_handle: *mut cl_mutable_command_khr) -> i32;

#[unsupported("the extension is hidden from programs: recorded launches are not forwarded yet")]
fn clCommandCopyBufferRectKHR(command_buffer: cl_command_buffer_khr, command_queue: cl_command_queue, src_buffer: cl_mem, dst_buffer: cl_mem, src_origin: *const usize, dst_origin: *const usize, region: *const usize, src_row_pitch: usize, src_slice_pitch: usize, dst_row_pitch: usize, dst_slice_pitch: usize, num_sync_points_in_wait_list: u32, sync_point_wait_list: *const cl_sync_point_khr, sync_point: *mut cl_sync_point_khr, mutable_handle: *mut cl_mutable_command_khr) -> i32;

#[unsupported("the extension is hidden from programs: recorded launches are not forwarded yet")]
fn clCommandCopyBufferToImageKHR(command_buffer: cl_command_buffer_khr, command_queue: cl_command_queue, src_buffer: cl_mem, dst_image: cl_mem, src_offset: usize, dst_origin: *const usize, region: *const usize, num_sync_points_in_wait_list: u32, sync_point_wait_list: *const cl_sync_point_khr, sync_point: *mut cl_sync_point_khr, mutable_handle: *mut cl_mutable_command_khr) -> i32;

#[unsupported("the extension is hidden from programs: recorded launches are not forwarded yet")]
fn clCommandCopyImageKHR(command_buffer: cl_command_buffer_khr, command_queue: cl_command_queue, src_image: cl_mem, dst_image: cl_mem, src_origin: *const usize, dst_origin: *const usize, region: *const usize, num_sync_points_in_wait_list: u32, sync_point_wait_list: *const cl_sync_point_khr, sync_point: *mut cl_sync_point_khr, mutable_handle: *mut cl_mutable_command_khr) -> i32;

#[unsupported("the extension is hidden from programs: recorded launches are not forwarded yet")]
fn clCommandCopyImageToBufferKHR(command_buffer: cl_command_buffer_khr, command_queue: cl_command_queue, src_image: cl_mem, dst_buffer: cl_mem, src_origin: *const usize, region: *const usize, dst_offset: usize, num_sync_points_in_wait_list: u32, sync_point_wait_list: *const cl_sync_point_khr, sync_point: *mut cl_sync_point_khr, mutable_handle: *mut cl_mutable_command_khr) -> i32;

#[unsupported("the extension is hidden from programs: recorded launches are not forwarded yet")]
fn clCommandFillBufferKHR(command_buffer: cl_command_buffer_khr, command_queue: cl_command_queue, buffer: cl_mem, pattern: *const c_void, pattern_size: usize, offset: usize, size: usize, num_sync_points_in_wait_list: u32, sync_point_wait_list: *const cl_sync_point_khr, sync_point: *mut cl_sync_point_khr, mutable_handle: *mut cl_mutable_command_khr) -> i32;

#[unsupported("the extension is hidden from programs: recorded launches are not forwarded yet")]
fn clCommandFillImageKHR(command_buffer: cl_command_buffer_khr, command_queue: cl_command_queue, image: cl_mem, fill_color: *const c_void, origin: *const usize, region: *const usize, num_sync_points_in_wait_list: u32, sync_point_wait_list: *const cl_sync_point_khr, sync_point: *mut cl_sync_point_khr, mutable_handle: *mut cl_mutable_command_khr) -> i32;

#[unsupported("the extension is hidden from programs: recorded launches are not forwarded yet")]
fn clCommandNDRangeKernelKHR(command_buffer: cl_command_buffer_khr, command_queue: cl_command_queue, properties: *const cl_ndrange_kernel_command_properties_khr, kernel: cl_kernel, work_dim: u32, global_work_offset: *const usize, global_work_size: *const usize, local_work_size: *const usize, num_sync_points_in_wait_list: u32, sync_point_wait_list: *const cl_sync_point_khr, sync_point: *mut cl_sync_point_khr, mutable_handle: *mut cl_mutable_command_khr) -> i32;

#[unsupported("the extension is hidden from programs: recorded launches are not forwarded yet")]
fn clCreateCommandBufferKHR(num_queues: u32, queues: *const cl_command_queue, properties: *const cl_command_buffer_properties_khr, errcode_ret: *mut i32) -> cl_command_buffer_khr;

#[unsupported("the extension is hidden from programs: recorded launches are not forwarded yet")]
fn clEnqueueCommandBufferKHR(num_queues: u32, queues: *mut cl_command_queue, command_buffer: cl_command_buffer_khr, num_events_in_wait_list: u32, event_wait_list: *const cl_event, event: *mut cl_event) -> i32;

#[unsupported("the extension is hidden from programs: recorded launches are not forwarded yet")]
fn clFinalizeCommandBufferKHR(command_buffer: cl_command_buffer_khr) -> i32;

#[unsupported("the extension is hidden from programs: recorded launches are not forwarded yet")]
fn clGetCommandBufferInfoKHR(command_buffer: cl_command_buffer_khr, param_name: cl_command_buffer_info_khr, param_value_size: usize, param_value: *mut c_void, param_value_size_ret: *mut usize) -> i32;

#[unsupported("the extension is hidden from programs: recorded launches are not forwarded yet")]
fn clReleaseCommandBufferKHR(command_buffer: cl_command_buffer_khr) -> i32;

#[unsupported("the extension is hidden from programs: recorded launches are not forwarded yet")]
fn clRetainCommandBufferKHR(command_buffer: cl_command_buffer_khr) -> i32;

#[unsupported("the extension is hidden from programs: recorded launches are not forwarded yet")]
fn clUpdateMutableCommandsKHR(command_buffer: cl_command_buffer_khr, mutable_config: *const cl_mutable_base_config_khr) -> i32;
